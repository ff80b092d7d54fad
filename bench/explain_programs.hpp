// The programs that hearth-bench explain knows by name, and those that it reads from files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/explanation.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth::bench {

/// The names of those that are built in.
[[nodiscard]] std::vector<std::string> explained_programs();
/// "gelu, softmax, ..."
[[nodiscard]] std::string joined_names();
/// Whether it is one of them.
[[nodiscard]] bool is_built_in(const std::string& name);
/// Whether it can run with its gradients.
[[nodiscard]] bool has_gradients(const std::string& name);
/// Errors: std::runtime_error, where the name is neither that of a program nor of a file that can
/// be read; it says which there are, and which was meant.
void require_program(const std::string& name);
/// What runs the program once: its results are kept until the next run.
[[nodiscard]] std::function<void()> explained_program(const std::string& name,
                                                      const Device& device,
                                                      bool backward);
/// The kernels of a replay with the lines of the program that was recorded, which lie in the trace.
void take_lines(Explanation& explanation, const OpTrace& trace);

}  // namespace hearth::bench
