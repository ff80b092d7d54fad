#include "backends/cpu/products/gemm_vector.hpp"
#include "pool_loops.hpp"

#include <utility>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

constexpr int kWidth = kLanes<float>;
using Places [[gnu::vector_size(kVectorBytes)]] = std::int32_t;
constexpr auto kAllLanes = std::make_integer_sequence<int, kWidth>{};

template <class V, int... kIndex>
[[gnu::always_inline]] inline V even(V low,
                                     V high,
                                     std::integer_sequence<int, kIndex...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * kIndex)...);
}
template <class V, int... kIndex>
[[gnu::always_inline]] inline V odd(V low,
                                    V high,
                                    std::integer_sequence<int, kIndex...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * kIndex + 1)...);
}
template <class V, int... kIndex>
[[gnu::always_inline]] inline V interleave(V a,
                                           V b,
                                           int half,
                                           std::integer_sequence<int, kIndex...> /*lanes*/) {
  return half == 0
             ? __builtin_shufflevector(a, b, (kIndex / 2 + kIndex % 2 * kWidth)...)
             : __builtin_shufflevector(a, b, (kWidth / 2 + kIndex / 2 + kIndex % 2 * kWidth)...);
}
template <int... kIndex>
[[gnu::always_inline]] inline Places count_up(std::integer_sequence<int, kIndex...> /*lanes*/) {
  return Places{kIndex...};
}

// Moves places by float loads and stores, which keep the bits. A memcpy of a variable size is a
// call, and stalls on its own recent store.
[[gnu::always_inline]] inline void store_places(std::int32_t* to, Places places, int count) {
  store_part(reinterpret_cast<float*>(to), __builtin_bit_cast(Vector<float>, places), count);
}
[[gnu::always_inline]] inline Places load_places(const std::int32_t* from, int count) {
  return __builtin_bit_cast(Places, load_part(reinterpret_cast<const float*>(from), count));
}

// The even and odd elements of `count` pairs.
struct Pairs {
  Vector<float> first;
  Vector<float> second;
};
[[gnu::always_inline]] inline Pairs load_pairs(const float* from, int count) {
  Vector<float> low;
  Vector<float> high{};
  if (count == kWidth) {
    low = load(from);
    high = load(from + kWidth);
  } else if (2 * count > kWidth) {
    low = load(from);
    high = load_part(from + kWidth, 2 * count - kWidth);
  } else {
    low = load_part(from, 2 * count);
  }
  return {even(low, high, kAllLanes), odd(low, high, kAllLanes)};
}

[[gnu::always_inline]] inline void store_pairs(float* to,
                                               Vector<float> first,
                                               Vector<float> second,
                                               int count) {
  const Vector<float> low = interleave(first, second, 0, kAllLanes);
  const Vector<float> high = interleave(first, second, 1, kAllLanes);
  if (2 * count <= kWidth) {
    store_part(to, low, 2 * count);
    return;
  }
  store(to, low);
  store_part(to + kWidth, high, 2 * count - kWidth);
}

[[gnu::always_inline]] inline Vector<float> larger(Vector<float> best, Vector<float> value) {
  const Places better = (value > best) | ((value != value) & (best == best));
  return better ? value : best;
}

// Computes the maxima without their positions.
[[gnu::always_inline]] inline void max_pairs_alone(const PairRow& row, const float* x, float* y) {
  for (std::int64_t column = 0; column < row.columns; column += kWidth) {
    const int count =
        static_cast<int>(row.columns - column < kWidth ? row.columns - column : kWidth);
    const Pairs above = load_pairs(x + 2 * column, count);
    const Pairs below = load_pairs(x + row.width + 2 * column, count);
    store_part(y + column,
               larger(larger(larger(above.first, above.second), below.first), below.second),
               count);
  }
}

void max_pairs_placed(const PairRow& row, const float* x, float* y, std::int32_t* positions) {
  for (std::int64_t column = 0; column < row.columns; column += kWidth) {
    const int count =
        static_cast<int>(row.columns - column < kWidth ? row.columns - column : kWidth);
    const Pairs above = load_pairs(x + 2 * column, count);
    const Pairs below = load_pairs(x + row.width + 2 * column, count);
    const Vector<float> values[] = {above.second, below.first, below.second};
    const auto width = static_cast<std::int32_t>(row.width);
    const std::int32_t steps[] = {1, width, width + 1};
    Vector<float> best = above.first;
    const Places first =
        count_up(kAllLanes) * 2 + static_cast<std::int32_t>(row.place + 2 * column);
    Places place = first;
    for (int i = 0; i < 3; ++i) {
      const Places better = (values[i] > best) | ((values[i] != values[i]) & (best == best));
      best = better ? values[i] : best;
      place = better ? first + steps[i] : place;
    }
    store_part(y + column, best, count);
    store_places(positions + column, place, count);
  }
}

void max_pairs(const PairRow& first,
               std::int64_t row_count,
               const float* x,
               float* y,
               std::int32_t* positions) {
  PairRow row = first;
  for (std::int64_t i = 0; i < row_count; ++i) {
    if (positions == nullptr) {
      max_pairs_alone(row, x, y);
    } else {
      max_pairs_placed(row, x, y, positions);
      positions += row.columns;
    }
    x += 2 * row.width;
    y += row.columns;
    row.place += 2 * row.width;
  }
}

bool max_pairs_backward(const PairRow& row,
                        const float* grad,
                        const std::int32_t* positions,
                        float* dx) {
  Places strange{};
  for (std::int64_t column = 0; column < row.columns; column += kWidth) {
    const int count =
        static_cast<int>(row.columns - column < kWidth ? row.columns - column : kWidth);
    const Vector<float> value = load_part(grad + column, count);
    const auto width = static_cast<std::int32_t>(row.width);
    const Places first =
        count_up(kAllLanes) * 2 + static_cast<std::int32_t>(row.place + 2 * column);
    const Places place =
        count_up(kAllLanes) < count ? load_places(positions + column, count) : first;
    const Places step = place - first;
    const Vector<float> zero{};
    store_pairs(dx + 2 * column, step == 0 ? value : zero, step == 1 ? value : zero, count);
    store_pairs(dx + row.width + 2 * column,
                step == width ? value : zero,
                step == width + 1 ? value : zero,
                count);
    strange |= ~((step == 0) | (step == 1) | (step == width) | (step == width + 1));
  }
  bool inside = true;
  for (int lane = 0; lane < kWidth; ++lane) {
    inside = inside && strange[lane] == 0;
  }
  return inside;
}

}  // namespace

const PoolLoops pool_loops_table = {&max_pairs, &max_pairs_backward};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
