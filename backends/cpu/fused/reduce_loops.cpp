#include "reduce_loops.hpp"

#include "vector_folds.hpp"

#include <limits>
#include <type_traits>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

template <class T>
constexpr bool is_real = std::is_floating_point_v<T>;
template <class T>
using Wide = std::conditional_t<is_real<T>, double, std::int64_t>;

template <class T>
Wide<T>& value_of(Accumulator& accumulator) noexcept {
  if constexpr (is_real<T>) {
    return accumulator.real;
  } else {
    return accumulator.integer;
  }
}

// Integer sums and products wrap.
template <class T>
T plus(T a, T b) noexcept {
  if constexpr (is_real<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}
template <class T>
T times(T a, T b) noexcept {
  if constexpr (is_real<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}
template <class T>
void sum_row(Accumulator* into, const void* in, std::int64_t count) {
  const auto* from = static_cast<const T*>(in);
  if constexpr (is_real<T>) {
    into->real += sum_of(from, count);
  } else {
    std::int64_t total = into->integer;
    for (std::int64_t i = 0; i < count; ++i) {
      total = plus(total, static_cast<std::int64_t>(from[i]));
    }
    into->integer = total;
  }
}

template <Extreme extreme, class T>
void extreme_row(Accumulator* into, const void* in, std::int64_t count) {
  if (count > 0) {
    Wide<T>& best = value_of<T>(*into);
    const T found = extreme_of<extreme>(static_cast<const T*>(in), count);
    best = chosen<extreme>(best, static_cast<Wide<T>>(found));
  }
}

// Multiplies in order: separate lanes of large and of small factors could overflow.
template <class T>
void product_row(Accumulator* into, const void* in, std::int64_t count) {
  const auto* from = static_cast<const T*>(in);
  Wide<T> product = value_of<T>(*into);
  for (std::int64_t i = 0; i < count; ++i) {
    product = times(product, static_cast<Wide<T>>(from[i]));
  }
  value_of<T>(*into) = product;
}

template <class T>
void sum_columns(Accumulator* into,
                 const void* const* rows,
                 std::int64_t row_count,
                 std::int64_t count) {
  auto* sums = reinterpret_cast<Wide<T>*>(into);
  if (row_count == kRowBatch) {
    const T* row[kRowBatch];
    for (std::int64_t r = 0; r < kRowBatch; ++r) {
      row[r] = static_cast<const T*>(rows[r]);
    }
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) {
      if constexpr (is_real<T>) {
        const T low = (row[0][c] + row[1][c]) + (row[2][c] + row[3][c]);
        const T high = (row[4][c] + row[5][c]) + (row[6][c] + row[7][c]);
        sums[c] += static_cast<double>(low + high);
      } else {
        std::int64_t sum = sums[c];
        for (const T* const from : row) {
          sum = plus(sum, static_cast<std::int64_t>(from[c]));
        }
        sums[c] = sum;
      }
    }
    return;
  }
  for (std::int64_t r = 0; r < row_count; ++r) {
    const auto* row = static_cast<const T*>(rows[r]);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) {
      sums[c] = plus(sums[c], static_cast<Wide<T>>(row[c]));
    }
  }
}

template <class T>
bool is_unordered(T a, T b) noexcept {
  if constexpr (is_real<T>) {
    return __builtin_isunordered(a, b);
  } else {
    return false;
  }
}

template <class T>
void product_columns(Accumulator* into,
                     const void* const* rows,
                     std::int64_t row_count,
                     std::int64_t count) {
  auto* products = reinterpret_cast<Wide<T>*>(into);
  for (std::int64_t r = 0; r < row_count; ++r) {
    const auto* row = static_cast<const T*>(rows[r]);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) {
      products[c] = times(products[c], static_cast<Wide<T>>(row[c]));
    }
  }
}

template <Extreme extreme, class T>
void extreme_columns(Accumulator* into,
                     const void* const* rows,
                     std::int64_t row_count,
                     std::int64_t count) {
  auto* bests = reinterpret_cast<Wide<T>*>(into);
  if (row_count == kRowBatch) {
    const T* row[kRowBatch];
    for (std::int64_t r = 0; r < kRowBatch; ++r) {
      row[r] = static_cast<const T*>(rows[r]);
    }
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) {
      // NaN is detected separately: one comparison covers two rows, and each choice stays a single
      // instruction.
      T best = row[0][c];
      bool unordered = is_unordered(row[0][c], row[1][c]);
      for (std::size_t r = 1; r < kRowBatch; ++r) {
        best = better<extreme>(best, row[r][c]);
      }
      for (std::size_t r = 2; r < kRowBatch; r += 2) {
        unordered = unordered || is_unordered(row[r][c], row[r + 1][c]);
      }
      bests[c] =
          chosen<extreme>(bests[c], static_cast<Wide<T>>(unordered ? not_a_number<T>() : best));
    }
    return;
  }
  for (std::int64_t r = 0; r < row_count; ++r) {
    const auto* row = static_cast<const T*>(rows[r]);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) {
      bests[c] = chosen<extreme>(bests[c], static_cast<Wide<T>>(row[c]));
    }
  }
}

template <Extreme extreme, class T>
std::int64_t position(const void* in, std::int64_t count) {
  const auto* from = static_cast<const T*>(in);
  const T best = extreme_of<extreme>(from, count);
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    unsigned found = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      found |= from[i] == best || from[i] != from[i] ? 1U : 0U;
    }
    for (std::int64_t i = begin; found != 0 && i < end; ++i) {
      if (from[i] == best || from[i] != from[i]) {
        return i;
      }
    }
  }
  return 0;
}

template <Extreme extreme, class T>
void champions(
    void* best, std::int64_t* places, const void* row, std::int64_t place, std::int64_t count) {
  auto* bests = static_cast<T*>(best);
  const auto* from = static_cast<const T*>(row);
#pragma GCC ivdep
  for (std::int64_t c = 0; c < count; ++c) {
    const T known = bests[c];
    const T x = from[c];
    const bool is_better = extreme == Extreme::largest ? x > known : x < known;
    const bool wins = known == known && (is_better || x != x);
    bests[c] = wins ? x : known;
    places[c] = wins ? place : places[c];
  }
}

}  // namespace

// Columns f32, f64, i32, i64, u8, i8.
extern const ReduceLoops reduce_loops_table = {
    {sum_row<float>,
     sum_row<double>,
     sum_row<std::int32_t>,
     sum_row<std::int64_t>,
     sum_row<std::uint8_t>,
     sum_row<std::int8_t>},
    {extreme_row<Extreme::largest, float>,
     extreme_row<Extreme::largest, double>,
     extreme_row<Extreme::largest, std::int32_t>,
     extreme_row<Extreme::largest, std::int64_t>,
     extreme_row<Extreme::largest, std::uint8_t>,
     extreme_row<Extreme::largest, std::int8_t>},
    {extreme_row<Extreme::smallest, float>,
     extreme_row<Extreme::smallest, double>,
     extreme_row<Extreme::smallest, std::int32_t>,
     extreme_row<Extreme::smallest, std::int64_t>,
     extreme_row<Extreme::smallest, std::uint8_t>,
     extreme_row<Extreme::smallest, std::int8_t>},
    {product_row<float>,
     product_row<double>,
     product_row<std::int32_t>,
     product_row<std::int64_t>,
     product_row<std::uint8_t>,
     product_row<std::int8_t>},
    {sum_columns<float>,
     sum_columns<double>,
     sum_columns<std::int32_t>,
     sum_columns<std::int64_t>,
     sum_columns<std::uint8_t>,
     sum_columns<std::int8_t>},
    {extreme_columns<Extreme::largest, float>,
     extreme_columns<Extreme::largest, double>,
     extreme_columns<Extreme::largest, std::int32_t>,
     extreme_columns<Extreme::largest, std::int64_t>,
     extreme_columns<Extreme::largest, std::uint8_t>,
     extreme_columns<Extreme::largest, std::int8_t>},
    {extreme_columns<Extreme::smallest, float>,
     extreme_columns<Extreme::smallest, double>,
     extreme_columns<Extreme::smallest, std::int32_t>,
     extreme_columns<Extreme::smallest, std::int64_t>,
     extreme_columns<Extreme::smallest, std::uint8_t>,
     extreme_columns<Extreme::smallest, std::int8_t>},
    {product_columns<float>,
     product_columns<double>,
     product_columns<std::int32_t>,
     product_columns<std::int64_t>,
     product_columns<std::uint8_t>,
     product_columns<std::int8_t>},
    {position<Extreme::largest, float>,
     position<Extreme::largest, double>,
     position<Extreme::largest, std::int32_t>,
     position<Extreme::largest, std::int64_t>,
     position<Extreme::largest, std::uint8_t>,
     position<Extreme::largest, std::int8_t>},
    {position<Extreme::smallest, float>,
     position<Extreme::smallest, double>,
     position<Extreme::smallest, std::int32_t>,
     position<Extreme::smallest, std::int64_t>,
     position<Extreme::smallest, std::uint8_t>,
     position<Extreme::smallest, std::int8_t>},
    {champions<Extreme::largest, float>,
     champions<Extreme::largest, double>,
     champions<Extreme::largest, std::int32_t>,
     champions<Extreme::largest, std::int64_t>,
     champions<Extreme::largest, std::uint8_t>,
     champions<Extreme::largest, std::int8_t>},
    {champions<Extreme::smallest, float>,
     champions<Extreme::smallest, double>,
     champions<Extreme::smallest, std::int32_t>,
     champions<Extreme::smallest, std::int64_t>,
     champions<Extreme::smallest, std::uint8_t>,
     champions<Extreme::smallest, std::int8_t>},
};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
