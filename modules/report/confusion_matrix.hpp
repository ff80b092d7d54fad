// ConfusionMatrix: counts of examples by actual and predicted class, with the accuracy, precision,
// recall and F1 that follow from them.
// A value. Threads: one at a time. Invariant: counts are 0 or more.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hearth {

class ConfusionMatrix final {
 public:
  /// Errors: ArgumentError when there is no class.
  explicit ConfusionMatrix(std::int64_t class_count, SourceLoc loc = SourceLoc::current());

  /// Adds examples of class `actual` that were predicted as `predicted`.
  ///
  /// Errors: ArgumentError out_of_range for an unknown class.
  void add(std::int64_t actual,
           std::int64_t predicted,
           std::int64_t count = 1,
           SourceLoc loc = SourceLoc::current());
  /// Adds the counts of another matrix.
  ///
  /// Errors: ArgumentError when it has another number of classes.
  void add(const ConfusionMatrix& other, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t class_count() const noexcept { return class_count_; }
  /// The number of examples of class `actual` that were predicted as `predicted`. Errors: as add().
  [[nodiscard]] std::int64_t count(std::int64_t actual,
                                   std::int64_t predicted,
                                   SourceLoc loc = SourceLoc::current()) const;
  /// Number of all examples.
  [[nodiscard]] std::int64_t total() const noexcept;
  /// All counts, row by row; a row is an actual class.
  [[nodiscard]] std::span<const std::int64_t> counts() const noexcept { return counts_; }

  /// The share of examples that were predicted correctly; NaN without examples.
  [[nodiscard]] double accuracy() const noexcept;
  /// The share of predictions of the class that are correct; 0 when there are none.
  [[nodiscard]] double precision(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// The share of the class's examples that were predicted as it; 0 when there are none.
  [[nodiscard]] double recall(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// The harmonic mean of precision and recall; 0 when both are 0.
  [[nodiscard]] double f1(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// The unweighted mean of f1() over the classes; NaN without examples.
  [[nodiscard]] double macro_f1() const;
  /// A readable table; a row is an actual class.
  [[nodiscard]] std::string to_string() const;

 private:
  [[nodiscard]] std::size_t place(std::int64_t actual, std::int64_t predicted, SourceLoc loc) const;
  [[nodiscard]] std::int64_t row_sum(std::int64_t row) const noexcept;
  [[nodiscard]] std::int64_t column_sum(std::int64_t column) const noexcept;

  std::int64_t class_count_;
  std::vector<std::int64_t> counts_;
};

}  // namespace hearth
