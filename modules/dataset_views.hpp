// Data sets made of others: some of their examples, several one after another, each changed on its
// way. They read from the data sets that they are made of, which outlive them.
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

/// Some examples of a data set, in an order of their own.
class SubsetDataset final : public Dataset {
 public:
  /// Errors: ArgumentError for a number that is not in the data set.
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
  /// Which examples of the other one.
  [[nodiscard]] const std::vector<std::int64_t>& numbers() const noexcept { return numbers_; }

 private:
  std::reference_wrapper<const Dataset> base_;
  std::vector<std::int64_t> numbers_;
};

/// Parts drawn at random, of these shares of the data set; no example is in two of them. The same
/// seed draws the same parts. Shares that make up 1 leave no example out.
///
///   const auto parts = hearth::random_split(data, {0.8, 0.2}, 7);  // parts[0] to train
///
/// Errors: ArgumentError for shares below 0, or of more than 1 together.
[[nodiscard]] std::vector<SubsetDataset> random_split(const Dataset& data,
                                                      std::span<const double> shares,
                                                      std::uint64_t seed = 0,
                                                      SourceLoc loc = SourceLoc::current());
[[nodiscard]] std::vector<SubsetDataset> random_split(const Dataset& data,
                                                      std::initializer_list<double> shares,
                                                      std::uint64_t seed = 0,
                                                      SourceLoc loc = SourceLoc::current());
// The parts refer to the data set, which a temporary would not outlive.
std::vector<SubsetDataset> random_split(const Dataset&& data,
                                        std::span<const double> shares,
                                        std::uint64_t seed = 0,
                                        SourceLoc loc = SourceLoc::current()) = delete;
std::vector<SubsetDataset> random_split(const Dataset&& data,
                                        std::initializer_list<double> shares,
                                        std::uint64_t seed = 0,
                                        SourceLoc loc = SourceLoc::current()) = delete;

/// The examples of several data sets, one after another.
class ConcatDataset final : public Dataset {
 public:
  /// Errors: ArgumentError for none.
  explicit ConcatDataset(std::vector<std::reference_wrapper<const Dataset>> parts,
                         SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return ends_.back(); }
  /// Errors: ShapeError and DtypeError when the parts give arrays that do not fit one another, and
  /// ArgumentError for other names.
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;
  [[nodiscard]] Examples read_in_epoch(std::span<const std::int64_t> indices,
                                       std::int64_t epoch) const override;

 private:
  std::vector<std::reference_wrapper<const Dataset>> parts_;
  std::vector<std::int64_t> ends_;
};

/// What a function makes of a data set's examples, read by read: scaling, augmentation, another
/// layout.
class MappedDataset final : public Dataset {
 public:
  using Function = std::function<Examples(Examples examples)>;
  /// The numbers of the examples besides, from which augmentation draws the same in each run.
  using NumberedFunction =
      std::function<Examples(Examples examples, std::span<const std::int64_t> numbers)>;
  /// The epoch, counted from 0, too: augmentation that differs from epoch to epoch. read() is in
  /// epoch 0.
  using EpochFunction = std::function<Examples(
      Examples examples, std::span<const std::int64_t> numbers, std::int64_t epoch)>;

  /// The function gives as many examples as it gets, is called by several threads at once, and what
  /// it throws reaches the loader's reader, with its words. Errors: ArgumentError without one.
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
