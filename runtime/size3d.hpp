// Size3d: a depth, a height and a width, written as one number if they are equal: {.kernel = 3},
// {.kernel = {1, 3, 3}}. A value. Threads: any.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace hearth {

class Size3d {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a number stands for all sides
  template <std::integral Integer>
  constexpr Size3d(Integer all) noexcept
      : sides_{static_cast<std::int64_t>(all),
               static_cast<std::int64_t>(all),
               static_cast<std::int64_t>(all)} {}
  constexpr Size3d(std::int64_t depth, std::int64_t height, std::int64_t width) noexcept
      : sides_{depth, height, width} {}
  constexpr Size3d(const std::array<std::int64_t, 3>& sides) noexcept : sides_(sides) {}
  constexpr operator const std::array<std::int64_t, 3>&() const noexcept { return sides_; }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] constexpr std::int64_t depth() const noexcept { return sides_[0]; }
  [[nodiscard]] constexpr std::int64_t height() const noexcept { return sides_[1]; }
  [[nodiscard]] constexpr std::int64_t width() const noexcept { return sides_[2]; }
  /// Side 0 is the depth, 1 the height, 2 the width.
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t side) const noexcept {
    return sides_[side];
  }
  friend constexpr bool operator==(const Size3d&, const Size3d&) noexcept = default;

 private:
  std::array<std::int64_t, 3> sides_;
};

}  // namespace hearth
