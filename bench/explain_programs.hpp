// The programs of hearth-bench explain: built-in ones by name, and recordings by file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/explanation.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth::bench {

/// Names of the built-in programs.
[[nodiscard]] std::vector<std::string> explained_programs();
/// The names as text: "gelu, softmax, ...".
[[nodiscard]] std::string joined_names();
/// Whether the name is a built-in program.
[[nodiscard]] bool is_built_in(const std::string& name);
/// Whether the program can run with its gradients.
[[nodiscard]] bool has_gradients(const std::string& name);
/// Errors: std::runtime_error, with all names and the nearest one, if `name` is neither a program
/// nor a readable file.
void require_program(const std::string& name);
/// Returns a function that runs the program once. Its results are kept until the next run.
[[nodiscard]] std::function<void()> explained_program(const std::string& name,
                                                      const Device& device,
                                                      bool backward);
/// Adds the lines of the recorded program, which the trace owns, to the kernels of a replay.
void take_lines(Explanation& explanation, const OpTrace& trace);

}  // namespace hearth::bench
