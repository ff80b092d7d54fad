// Collects the problems of a file. Alike ones become one row. A local variable. Threads: one.
#pragma once

#include "modules/onnx/graph/onnx_report.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::onnx {

class ProblemList final {
 public:
  /// `problem`: without count and names. `name`: the node, tensor or value that has it.
  void add(OnnxProblem problem, std::string_view name);
  [[nodiscard]] bool empty() const noexcept { return problems_.empty(); }
  [[nodiscard]] std::vector<OnnxProblem> take() && { return std::move(problems_); }

 private:
  std::vector<OnnxProblem> problems_;
};

}  // namespace hearth::onnx
