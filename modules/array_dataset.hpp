// ArrayDataset: examples that lie in memory, from vectors of the program's or a table.
// Owns its arrays. Threads: any, after construction. Invariant: all arrays have one row an example.
#pragma once

#include <hearth/modules/dataset.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

///   const hearth::ArrayDataset data(hearth::HostArray::from(pixels, {count, 28, 28}),
///                                   hearth::HostArray::from(labels));
class ArrayDataset final : public Dataset {
 public:
  /// Errors: ShapeError naming an array with another number of rows; ArgumentError for two of one
  /// name.
  ArrayDataset(HostArray inputs,
               HostArray targets,
               std::vector<NamedArray> more = {},
               SourceLoc loc = SourceLoc::current());
  /// The same of examples that a data set gave. Inputs and targets may be left out when there are
  /// others.
  explicit ArrayDataset(Examples examples, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

  /// All of them.
  [[nodiscard]] const Examples& examples() const noexcept { return examples_; }

 private:
  Examples examples_;
  std::int64_t size_ = 0;
};

}  // namespace hearth
