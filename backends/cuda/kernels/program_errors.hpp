// Reads the errors in a program's own kernel from the compiler's messages. Pure functions.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace hearth::cuda {

/// True if a part of the text is a program's own (gpu::kProgramLines).
[[nodiscard]] bool has_program_lines(std::string_view text) noexcept;

/// The errors in the program's lines of a kernel's text (gpu::kProgramLines), each with its line;
/// or else what the text lacks as a whole. `log` is NVRTC's, or g++'s.
[[nodiscard]] std::string program_errors(std::string_view log, std::string_view text);

}  // namespace hearth::cuda
