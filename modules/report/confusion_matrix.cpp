#include <hearth/modules/confusion_matrix.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace hearth {
namespace {

[[noreturn]] void fail(ErrorCode code, std::string text, SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = "ConfusionMatrix: " + std::move(text),
                    .op = "ConfusionMatrix",
                    .location = loc});
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t class_count, SourceLoc loc)
    : class_count_(class_count) {
  constexpr std::int64_t kMostClasses = 1 << 20;  // its table would take 8 TB
  if (class_count < 1 || class_count > kMostClasses) {
    fail(ErrorCode::invalid_argument,
         fmt::format("{} classes: expected 1 to {}", class_count, kMostClasses),
         loc);
  }
  counts_.resize(static_cast<std::size_t>(class_count * class_count));
}

std::size_t ConfusionMatrix::place(std::int64_t actual,
                                   std::int64_t predicted,
                                   SourceLoc loc) const {
  for (const std::int64_t each : {actual, predicted}) {
    if (each < 0 || each >= class_count_) {
      fail(ErrorCode::out_of_range,
           fmt::format("there is no class {}: there are {}", each, class_count_),
           loc);
    }
  }
  return static_cast<std::size_t>(actual * class_count_ + predicted);
}

void ConfusionMatrix::add(std::int64_t actual,
                          std::int64_t predicted,
                          std::int64_t count,
                          SourceLoc loc) {
  if (count < 0) {
    fail(ErrorCode::invalid_argument, fmt::format("a count of {} is below 0", count), loc);
  }
  counts_[place(actual, predicted, loc)] += count;
}

void ConfusionMatrix::add(const ConfusionMatrix& other, SourceLoc loc) {
  if (other.class_count_ != class_count_) {
    fail(ErrorCode::invalid_argument,
         fmt::format("{} classes and {} cannot be added", class_count_, other.class_count_),
         loc);
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
}

std::int64_t ConfusionMatrix::count(std::int64_t actual,
                                    std::int64_t predicted,
                                    SourceLoc loc) const {
  return counts_[place(actual, predicted, loc)];
}

std::int64_t ConfusionMatrix::total() const noexcept {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

std::int64_t ConfusionMatrix::row_sum(std::int64_t row) const noexcept {
  const auto begin = counts_.begin() + row * class_count_;
  return std::accumulate(begin, begin + class_count_, std::int64_t{0});
}

std::int64_t ConfusionMatrix::column_sum(std::int64_t column) const noexcept {
  std::int64_t sum = 0;
  for (std::int64_t row = 0; row < class_count_; ++row) {
    sum += counts_[static_cast<std::size_t>(row * class_count_ + column)];
  }
  return sum;
}

double ConfusionMatrix::accuracy() const noexcept {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < class_count_; ++i) {
    right += counts_[static_cast<std::size_t>(i * class_count_ + i)];
  }
  if (total() == 0) {
    return std::numeric_limits<double>::quiet_NaN();  // 0 / 0 may raise a signal
  }
  return static_cast<double>(right) / static_cast<double>(total());
}

double ConfusionMatrix::precision(std::int64_t of, SourceLoc loc) const {
  return share(count(of, of, loc), column_sum(of));
}

double ConfusionMatrix::recall(std::int64_t of, SourceLoc loc) const {
  return share(count(of, of, loc), row_sum(of));
}

double ConfusionMatrix::f1(std::int64_t of, SourceLoc loc) const {
  return share(2 * count(of, of, loc), row_sum(of) + column_sum(of));
}

double ConfusionMatrix::macro_f1() const {
  if (total() == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double sum = 0;
  for (std::int64_t i = 0; i < class_count_; ++i) {
    sum += f1(i);
  }
  return sum / static_cast<double>(class_count_);
}

std::string ConfusionMatrix::to_string() const {
  const std::int64_t largest = *std::ranges::max_element(counts_);
  const std::size_t width = std::max<std::size_t>(fmt::formatted_size("{}", largest),
                                                  fmt::formatted_size("{}", class_count_ - 1));
  std::string text = fmt::format("{:>{}} |", "", width);
  for (std::int64_t column = 0; column < class_count_; ++column) {
    text += fmt::format(" {:>{}}", column, width);
  }
  for (std::int64_t row = 0; row < class_count_; ++row) {
    text += fmt::format("\n{:>{}} |", row, width);
    for (std::int64_t column = 0; column < class_count_; ++column) {
      text += fmt::format(" {:>{}}", count(row, column), width);
    }
  }
  return text + "\n";
}

}  // namespace hearth
