// Reserved names in a custom kernel's text. GLSL 4.60 has some (section 3.6 of its specification),
// and so have the kernel's extensions, CUDA C++, and the surrounding generated text. Pure
// functions. Private to runtime. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Returns whether GLSL forbids this name: a keyword, a type, a reserved word, or a name that
/// begins with gl_ or GL_.
[[nodiscard]] bool is_glsl_word(std::string_view name);

/// Returns whether GLSL has a function of this name with one integer argument. An input becomes
/// such a function, so it cannot have the name.
[[nodiscard]] bool is_glsl_function(std::string_view name);

/// Returns whether the generated text uses this word (backends/gpu/text);
/// tests/backends/custom_text_test.cpp compares the two.
[[nodiscard]] bool is_frame_word(std::string_view name);

/// Returns whether a macro of the generated text expands to this name. A number is a macro too, so
/// it cannot have the name.
[[nodiscard]] bool is_macro_word(std::string_view name);

/// Returns whether CUDA C++ forbids this name: a keyword of C++ alone, or a name of the prelude
/// (backends/cuda/text).
[[nodiscard]] bool is_cuda_word(std::string_view name);

/// The names that the generated text derives from an operand, such as x_size from x.
[[nodiscard]] std::vector<std::string> names_made_of(const std::string& operand, bool is_result);

}  // namespace hearth::detail
