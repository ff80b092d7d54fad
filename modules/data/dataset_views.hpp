// Data sets that wrap others: a subset, a concatenation, or a transformation. They refer to the
// wrapped data sets, which outlive them.
// Owned by the program. Threads: as Dataset: read() is called by several loader threads at once.
#pragma once

#include <hearth/modules/dataset.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace hearth {

/// A subset of a data set's examples, in any order.
class SubsetDataset final : public Dataset {
 public:
  /// Errors: ArgumentError for an index out of range.
  SubsetDataset(const Dataset& base,
                std::vector<std::int64_t> numbers,
                SourceLoc loc = SourceLoc::current());
  SubsetDataset(const Dataset&& base, std::vector<std::int64_t> numbers) = delete;

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(numbers_.size());
  }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;
  [[nodiscard]] Examples read_in_epoch(std::span<const std::int64_t> indices,
                                       std::int64_t epoch) const override;
  [[nodiscard]] std::string name() const override;
  /// Indices of the examples in the wrapped data set.
  [[nodiscard]] const std::vector<std::int64_t>& numbers() const noexcept { return numbers_; }

 private:
  std::reference_wrapper<const Dataset> base_;
  std::vector<std::int64_t> numbers_;
};

/// Splits a data set at random into disjoint parts of these shares. One seed always gives the same
/// parts. Shares that add up to 1 cover all examples.
///
///   const auto parts = hearth::random_split(data, {0.8, 0.2}, 7);  // parts[0] to train
///
/// Errors: ArgumentError for a share below 0, or shares of more than 1 in total.
[[nodiscard]] std::vector<SubsetDataset> random_split(const Dataset& data,
                                                      std::span<const double> shares,
                                                      std::uint64_t seed = 0,
                                                      SourceLoc loc = SourceLoc::current());
[[nodiscard]] std::vector<SubsetDataset> random_split(const Dataset& data,
                                                      std::initializer_list<double> shares,
                                                      std::uint64_t seed = 0,
                                                      SourceLoc loc = SourceLoc::current());
// Deleted: the parts refer to the data set, so it must not be a temporary.
std::vector<SubsetDataset> random_split(const Dataset&& data,
                                        std::span<const double> shares,
                                        std::uint64_t seed = 0,
                                        SourceLoc loc = SourceLoc::current()) = delete;
std::vector<SubsetDataset> random_split(const Dataset&& data,
                                        std::initializer_list<double> shares,
                                        std::uint64_t seed = 0,
                                        SourceLoc loc = SourceLoc::current()) = delete;

/// Concatenation of several data sets.
class ConcatDataset final : public Dataset {
 public:
  /// Errors: ArgumentError for none.
  explicit ConcatDataset(std::vector<std::reference_wrapper<const Dataset>> parts,
                         SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return ends_.back(); }
  /// Reads examples from the parts.
  ///
  /// Errors: ShapeError and DtypeError when the arrays of the parts do not match; ArgumentError
  /// when their names differ.
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;
  [[nodiscard]] Examples read_in_epoch(std::span<const std::int64_t> indices,
                                       std::int64_t epoch) const override;

 private:
  std::vector<std::reference_wrapper<const Dataset>> parts_;
  std::vector<std::int64_t> ends_;
};

/// A data set whose examples are transformed by a function, read by read: scaling, augmentation,
/// another layout.
class MappedDataset final : public Dataset {
 public:
  using Function = std::function<Examples(Examples examples)>;
  /// Function that also receives the indices of the examples, so that augmentation can be
  /// repeatable.
  using NumberedFunction =
      std::function<Examples(Examples examples, std::span<const std::int64_t> numbers)>;
  /// Function that also receives the epoch, counted from 0, for augmentation that differs between
  /// epochs. read() is in epoch 0.
  using EpochFunction = std::function<Examples(
      Examples examples, std::span<const std::int64_t> numbers, std::int64_t epoch)>;

  /// Wraps `base`. The function must return as many examples as it receives. Several threads call
  /// it at once. An exception that it throws reaches the loader's caller with its text.
  ///
  /// Errors: ArgumentError without a function.
  MappedDataset(const Dataset& base, Function function, SourceLoc loc = SourceLoc::current());
  MappedDataset(const Dataset& base,
                NumberedFunction function,
                SourceLoc loc = SourceLoc::current());
  MappedDataset(const Dataset& base, EpochFunction function, SourceLoc loc = SourceLoc::current());
  MappedDataset(const Dataset&& base, Function function) = delete;
  MappedDataset(const Dataset&& base, NumberedFunction function) = delete;
  MappedDataset(const Dataset&& base, EpochFunction function) = delete;

  [[nodiscard]] std::int64_t size() const override { return base_.get().size(); }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;
  [[nodiscard]] Examples read_in_epoch(std::span<const std::int64_t> indices,
                                       std::int64_t epoch) const override;
  [[nodiscard]] std::string name() const override;

 private:
  std::reference_wrapper<const Dataset> base_;
  EpochFunction function_;
};

}  // namespace hearth
