// Size2d: a height and a width, written as one number if they are equal: {.kernel = 3}, {.kernel =
// {3, 5}}. A value. Threads: any.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace hearth {

class Size2d {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a number stands for both sides
  template <std::integral Integer>
  constexpr Size2d(Integer both) noexcept
      : sides_{static_cast<std::int64_t>(both), static_cast<std::int64_t>(both)} {}
  constexpr Size2d(std::int64_t height, std::int64_t width) noexcept : sides_{height, width} {}
  constexpr Size2d(const std::array<std::int64_t, 2>& sides) noexcept : sides_(sides) {}
  constexpr operator const std::array<std::int64_t, 2>&() const noexcept { return sides_; }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] constexpr std::int64_t height() const noexcept { return sides_[0]; }
  [[nodiscard]] constexpr std::int64_t width() const noexcept { return sides_[1]; }
  /// Side 0 is the height, 1 the width.
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t side) const noexcept {
    return sides_[side];
  }
  friend constexpr bool operator==(const Size2d&, const Size2d&) noexcept = default;

 private:
  std::array<std::int64_t, 2> sides_;
};

}  // namespace hearth
