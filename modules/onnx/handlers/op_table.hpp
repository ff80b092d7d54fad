// The table of all ops: the rows of every family. Made for one load. Threads: any, const.
#pragma once

#include "modules/onnx/values/op_row.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hearth::onnx {

class OpTable final {
 public:
  struct Found {
    const OpRow* row = nullptr;
    std::string reason = {};     ///< Why there is none.
    std::string_view help = {};  ///< Remedy.
  };

  OpTable();
  /// Returns the row for an op of this opset.
  [[nodiscard]] Found find(std::string_view domain, std::string_view op, std::int64_t opset) const;
  /// Whether any opset of the op has a row.
  [[nodiscard]] bool has(std::string_view domain, std::string_view op) const;
  /// The row of nodes that call a function of the file.
  [[nodiscard]] const OpRow& function_call() const noexcept;
  /// All rows, for tests and documentation.
  [[nodiscard]] std::vector<const OpRow*> rows() const;

 private:
  std::unordered_map<std::string_view, std::vector<const OpRow*>> by_op_;
};

// The families, each in its file.
[[nodiscard]] std::span<const OpRow> activation_rows();
[[nodiscard]] std::span<const OpRow> arithmetic_rows();
[[nodiscard]] std::span<const OpRow> comparison_rows();
[[nodiscard]] std::span<const OpRow> control_rows();
[[nodiscard]] std::span<const OpRow> contrib_rows();
[[nodiscard]] std::span<const OpRow> convolution_rows();
[[nodiscard]] std::span<const OpRow> creation_rows();
[[nodiscard]] std::span<const OpRow> gather_rows();
[[nodiscard]] std::span<const OpRow> layout_rows();
[[nodiscard]] std::span<const OpRow> loss_rows();
[[nodiscard]] std::span<const OpRow> norm_rows();
[[nodiscard]] std::span<const OpRow> pool_rows();
[[nodiscard]] std::span<const OpRow> product_rows();
[[nodiscard]] std::span<const OpRow> quantised_rows();
[[nodiscard]] std::span<const OpRow> random_rows();
[[nodiscard]] std::span<const OpRow> recurrent_rows();
[[nodiscard]] std::span<const OpRow> reduction_rows();
[[nodiscard]] std::span<const OpRow> refused_rows();
[[nodiscard]] std::span<const OpRow> resize_rows();
[[nodiscard]] std::span<const OpRow> search_rows();
[[nodiscard]] std::span<const OpRow> sequence_rows();
[[nodiscard]] std::span<const OpRow> signal_rows();
[[nodiscard]] std::span<const OpRow> text_rows();
[[nodiscard]] std::span<const OpRow> training_rows();
[[nodiscard]] std::span<const OpRow> unary_rows();

}  // namespace hearth::onnx
