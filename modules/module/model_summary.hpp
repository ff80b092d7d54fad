// model_summary: a table of a model's tensors with path, shape, dtype and size, and their sums.
// Stateless. Threads: as the module.
#pragma once

#include <hearth/modules/module.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hearth {

/// One tensor of a model. A tied tensor has one row, under its first name.
struct SummaryRow {
  std::string path;
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  std::int64_t size_bytes = 0;
  bool is_trained = true;  ///< False for Buffers and frozen tensors.
  bool is_frozen = false;
};

struct ModelSummary {
  std::vector<SummaryRow> rows;  ///< In visit order.

  /// Number of elements of all trained tensors.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;
  /// Size of all tensors.
  [[nodiscard]] std::int64_t size_bytes() const noexcept;
  /// The table, with a line for the sums:
  ///
  ///   path         shape       type  parameters
  ///   inner.weight [128, 784]  f32      100,352
  [[nodiscard]] std::string to_string() const;
};

// Overload for types that are no modules: fails with a readable static_assert.
template <class Model>
requires(!Module<Model>) [[nodiscard]] ModelSummary model_summary(const Model& /*model*/) {
  static_assert(detail::refuse_no_module<Model>());
  return {};
}

/// Lists the tensors of a model.
///
/// Errors: ArgumentError naming a tensor that is empty.
template <Module Model>
[[nodiscard]] ModelSummary model_summary(const Model& model, SourceLoc loc = SourceLoc::current()) {
  ModelSummary summary;
  const std::set<std::string> frozen = detail::frozen_paths(model);
  visit_once(model, "", [&]<class Part>(const std::string& path, Part& tensor) {
    detail::require_tensor("model_summary", path, tensor, loc);
    const std::int64_t count = tensor.element_count();
    const bool is_frozen = frozen.contains(path);
    summary.rows.push_back({.path = path,
                            .shape = tensor.shape(),
                            .dtype = tensor.dtype(),
                            .element_count = count,
                            .size_bytes = count * hearth::size_bytes(tensor.dtype()),
                            .is_trained = !std::is_same_v<Part, const Buffer> && !is_frozen,
                            .is_frozen = is_frozen});
  });
  return summary;
}

}  // namespace hearth
