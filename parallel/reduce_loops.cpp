#include "reduce_loops.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace hearth::detail {
namespace {

// What a type is summed in. Unsigned, because signed overflow is undefined.
template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<f16> {
  using Type = float;
};
template <>
struct Wide<bf16> {
  using Type = float;
};
template <>
struct Wide<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct Wide<std::int64_t> {
  using Type = std::uint64_t;
};

template <class T>
inline constexpr bool kCanSum = !std::is_same_v<T, std::uint8_t> && !std::is_same_v<T, bool>;

// One block of sums stays in the first-level cache while the ranks are added to it.
constexpr std::size_t kBlock = 1024;

template <class T>
void sum_block(std::span<std::byte* const> ranks,
               std::span<std::byte* const> targets,
               std::size_t begin,
               std::size_t count) noexcept {
  using Sum = typename Wide<T>::Type;
  alignas(64) std::array<Sum, kBlock> sums;  // NOLINT: filled by the first rank
  const T* const first = reinterpret_cast<const T*>(ranks.front()) + begin;
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<Sum>(first[i]);
  }
  for (std::byte* const rank : ranks.subspan(1)) {
    const T* const values = reinterpret_cast<const T*>(rank) + begin;
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += static_cast<Sum>(values[i]);
    }
  }
  for (std::byte* const target : targets) {
    T* const values = reinterpret_cast<T*>(target) + begin;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(sums[i]);
    }
  }
}

}  // namespace

bool can_sum(DType dtype) noexcept {
  return visit_dtype(dtype, [](auto zero) { return kCanSum<decltype(zero)>; });
}

void sum_ranks(std::span<std::byte* const> ranks,
               std::span<std::byte* const> targets,
               DType dtype,
               std::size_t begin,
               std::size_t end) noexcept {
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (kCanSum<T>) {
      for (std::size_t i = begin; i < end; i += kBlock) {
        sum_block<T>(ranks, targets, i, std::min(kBlock, end - i));
      }
    }
  });
}

}  // namespace hearth::detail
