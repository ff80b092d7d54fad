// ArrayDataset: examples in host memory, from the program's vectors or from a table.
// Owns its arrays. Threads: any, after construction. Invariant: all arrays have one row per
// example.
#pragma once

#include <hearth/modules/dataset.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// A data set of arrays:
///
///   const hearth::ArrayDataset data(hearth::HostArray::from(pixels, {count, 28, 28}),
///                                   hearth::HostArray::from(labels));
class ArrayDataset final : public Dataset {
 public:
  /// Takes the arrays.
  ///
  /// Errors: ShapeError naming an array with another number of rows; ArgumentError for two arrays
  /// of one name.
  ArrayDataset(HostArray inputs,
               HostArray targets,
               std::vector<NamedArray> more = {},
               SourceLoc loc = SourceLoc::current());
  /// Takes the arrays of examples that were read from a data set. Inputs and targets may be absent
  /// if there are others.
  ///
  /// Errors: as the other constructor.
  explicit ArrayDataset(Examples examples, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

  /// All examples.
  [[nodiscard]] const Examples& examples() const noexcept { return examples_; }

 private:
  Examples examples_;
  std::int64_t size_ = 0;
};

}  // namespace hearth
