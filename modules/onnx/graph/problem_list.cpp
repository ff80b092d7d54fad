#include "problem_list.hpp"

#include <algorithm>

namespace hearth::onnx {

void ProblemList::add(OnnxProblem problem, std::string_view name) {
  constexpr std::size_t kMostNames = 3;
  const auto is_alike = [&](const OnnxProblem& other) {
    return other.op == problem.op && other.domain == problem.domain &&
           other.opset == problem.opset && other.reason == problem.reason;
  };
  auto row = std::ranges::find_if(problems_, is_alike);
  if (row == problems_.end()) {
    problems_.push_back(std::move(problem));
    row = problems_.end() - 1;
  }
  ++row->count;
  if (row->names.size() < kMostNames && !name.empty()) {
    row->names.emplace_back(name);
  }
}

}  // namespace hearth::onnx
