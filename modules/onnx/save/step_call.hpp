// StepCall: the context of a function that writes one step. It has the step's operands by their
// names in the graph, its attributes, sizes that the file computes, and the list of problems.
// A local variable of save_onnx(). Threads: one.
#pragma once

#include "modules/onnx/graph/problem_list.hpp"
#include "modules/onnx/save/graph_draft.hpp"
#include "modules/onnx/save/pass_set.hpp"

#include <hearth/streams/op_record.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::onnx {

/// The graph under construction and what is known of its values.
struct SavedGraph {
  const PassSet& passes;
  GraphDraft draft = {};
  ProblemList problems = {};
  /// Names of the values in the graph, by number; empty: not made yet.
  std::vector<std::string> names = {};
  std::map<Sizes, std::string> known_sizes = {};  ///< i64[1] values with these sizes.
};

class StepCall final {
 public:
  StepCall(SavedGraph& graph, std::size_t step);

  [[nodiscard]] OpKind kind() const { return step_.op->record.kind; }
  [[nodiscard]] bool has(RecordFlag flag) const { return step_.op->record.has(flag); }
  [[nodiscard]] int input_count() const { return static_cast<int>(step_.inputs.size()); }
  [[nodiscard]] std::string input(int i) const { return graph_.names[value_of(i)]; }
  [[nodiscard]] DType input_dtype(int i) const;
  [[nodiscard]] std::vector<Sizes> input_shape(int i) const;
  [[nodiscard]] int input_rank(int i) const { return graph_.passes.rank(value_of(i)); }
  [[nodiscard]] bool is_needed(std::size_t output) const {
    return output < step_.outputs.size() && step_.outputs[output].has_value();
  }
  [[nodiscard]] DType output_dtype(std::size_t i = 0) const;
  [[nodiscard]] std::vector<Sizes> output_shape(std::size_t i = 0) const;
  /// If an input is a matrix with its two axes exchanged, returns the name of that matrix.
  [[nodiscard]] std::optional<std::string> transposed_matrix(int i) const;

  /// Returns the step that makes a value if it is of that kind, or null. For patterns of steps.
  [[nodiscard]] const PassStep* producer(ValueNumber value, OpKind kind) const;
  [[nodiscard]] const PassStep& step() const { return step_; }
  [[nodiscard]] const std::string& name_of(ValueNumber value) const { return graph_.names[value]; }
  [[nodiscard]] std::vector<Sizes> shape_of(ValueNumber value) const {
    return graph_.passes.shape(value);
  }
  [[nodiscard]] DType dtype_of(ValueNumber value) const {
    return graph_.passes.first().values[value].operand.dtype;
  }

  template <class Attributes>
  [[nodiscard]] Attributes attributes(std::size_t pass = 0) const {
    return graph_.passes.pass(pass).steps[number_].op->view().template attributes<Attributes>();
  }
  [[nodiscard]] bool has_equal_attributes() const;
  [[nodiscard]] std::size_t pass_count() const { return graph_.passes.count(); }

  [[nodiscard]] GraphDraft& draft() { return graph_.draft; }
  /// Adds a node. Returns the name of its output.
  std::string add(std::string op,
                  std::vector<std::string> inputs,
                  std::vector<DraftAttribute> attributes = {}) {
    return graph_.draft.add(std::move(op), std::move(inputs), std::move(attributes));
  }
  std::string cast(const std::string& value, DType dtype);
  /// Casts a value of `from` to `to` if they differ.
  std::string cast(const std::string& value, DType from, DType to) {
    return from == to ? value : cast(value, to);
  }
  /// Returns the name of an i64[1] value with these sizes.
  [[nodiscard]] std::string size(const Sizes& sizes);
  /// Returns the name of an i64 value with these sizes of a shape.
  [[nodiscard]] std::string shape(const std::vector<Sizes>& shape);

  /// Names the value of an output.
  void result(std::string name, std::size_t output = 0);
  /// Notes that the step cannot be written.
  void refuse(std::string reason, std::string help);

 private:
  [[nodiscard]] ValueNumber value_of(int i) const {
    return step_.inputs[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::optional<std::string> known_size(const Sizes& sizes);
  [[nodiscard]] std::optional<std::string> multiple_of_known(const Sizes& sizes);

  SavedGraph& graph_;
  std::size_t number_;
  const PassStep& step_;
  std::string op_;  // for problems
};

}  // namespace hearth::onnx
