// PerAxis: a number for each spatial axis of pictures, written as {.size = {32, 48}}, or one number
// for all axes: {.scale = 2}. Empty by default. A value. Threads: any.
// Invariant: holds the numbers as the caller wrote them; the op checks their count.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <hearth/runtime/base/shape.hpp>

namespace hearth {

template <class Number>
class PerAxis {
 public:
  PerAxis() = default;
  // NOLINTBEGIN(google-explicit-constructor): an option is written as {.size = 7}
  template <class Any, class = std::enable_if_t<std::is_arithmetic_v<Any>>>
  PerAxis(Any all) noexcept : count_(1) {
    numbers_[0] = static_cast<Number>(all);
  }
  /// Numbers beyond a tensor's possible axes are dropped, but counted.
  PerAxis(std::initializer_list<Number> numbers) noexcept
      : PerAxis(std::span<const Number>(numbers.begin(), numbers.size())) {}
  PerAxis(const std::vector<Number>& numbers) noexcept
      : PerAxis(std::span<const Number>(numbers)) {}
  PerAxis(std::span<const Number> numbers) noexcept : count_(numbers.size()) {
    for (std::size_t i = 0; i < count_ && i < numbers_.size(); ++i) {
      numbers_[i] = numbers[i];
    }
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// The number of axis i: the only one, or number i.
  [[nodiscard]] Number operator[](std::size_t i) const noexcept {
    return numbers_[count_ == 1 ? 0 : i];
  }

 private:
  std::array<Number, kMaxRank> numbers_{};
  std::size_t count_ = 0;
};

}  // namespace hearth
