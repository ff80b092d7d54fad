// ConfusionMatrix: how often an example of one class was taken for another; accuracy, precision,
// recall and F1 follow from it.
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

  /// An example of class `actual` that was taken for `predicted`.
  /// Errors: ArgumentError out_of_range for a class that there is not.
  void add(std::int64_t actual,
           std::int64_t predicted,
           std::int64_t count = 1,
           SourceLoc loc = SourceLoc::current());
  /// All of another one's. Errors: ArgumentError when it has another number of classes.
  void add(const ConfusionMatrix& other, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t class_count() const noexcept { return class_count_; }
  /// Errors: as add().
  [[nodiscard]] std::int64_t count(std::int64_t actual,
                                   std::int64_t predicted,
                                   SourceLoc loc = SourceLoc::current()) const;
  /// Of all examples.
  [[nodiscard]] std::int64_t total() const noexcept;
  /// Row by row, a row an actual class.
  [[nodiscard]] std::span<const std::int64_t> counts() const noexcept { return counts_; }

  /// The share of examples that were taken for what they are; NaN without examples.
  [[nodiscard]] double accuracy() const noexcept;
  /// Of those taken for the class, the share that is of it; 0 when none was.
  [[nodiscard]] double precision(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// Of those of the class, the share that was taken for it; 0 when there are none.
  [[nodiscard]] double recall(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// The harmonic mean of precision and recall; 0 when both are.
  [[nodiscard]] double f1(std::int64_t of, SourceLoc loc = SourceLoc::current()) const;
  /// The mean of f1() over the classes, each weighing the same; NaN without examples.
  [[nodiscard]] double macro_f1() const;
  /// A table for people: a row an actual class.
  [[nodiscard]] std::string to_string() const;

 private:
  [[nodiscard]] std::size_t place(std::int64_t actual, std::int64_t predicted, SourceLoc loc) const;
  [[nodiscard]] std::int64_t row_sum(std::int64_t row) const noexcept;
  [[nodiscard]] std::int64_t column_sum(std::int64_t column) const noexcept;

  std::int64_t class_count_;
  std::vector<std::int64_t> counts_;
};

}  // namespace hearth
