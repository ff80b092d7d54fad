#include "gemm_tiles_isa.hpp"

#include "gemm_vector.hpp"

#include <utility>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

enum class Walk { steps, a_offsets, b_offsets, a_rows };

// Number of rows that one pointer and one step address, by the x86-64 address forms.
constexpr int kRowsOfPointer = 3;

template <class T, int kRows, int kVectors>
struct Accumulators {
  Vector<T> value[std::size_t{kRows}][std::size_t{kVectors}];
};

// Adds the start last: a long sum is then the sum of its blocks, which keeps it accurate for
// longer.
template <class T, int kRows, int kVectors>
[[gnu::always_inline]] inline void add_start(const Tile<T>& tile,
                                             Accumulators<T, kRows, kVectors>& acc) {
  if (tile.start == nullptr) {
    if (tile.row_start == nullptr) {
      return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc.value[i][v] += splat(tile.row_start[i]);
      }
    }
    return;
  }
  const int tail = tile.columns - (kVectors - 1) * kLanes<T>;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const T* from = tile.start + i * tile.start_step;
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; ++v) {
      acc.value[i][v] += load(from + v * kLanes<T>);
    }
    acc.value[i][kVectors - 1] += load_part(from + (kVectors - 1) * kLanes<T>, tail);
  }
}

template <class T, int kRows, int kVectors>
[[gnu::always_inline]] inline void write(const Tile<T>& tile,
                                         const Accumulators<T, kRows, kVectors>& acc) {
  const int tail = tile.columns - (kVectors - 1) * kLanes<T>;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* to = tile.c + i * tile.c_step;
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; ++v) {
      store(to + v * kLanes<T>, acc.value[i][v]);
    }
    store_part(to + (kVectors - 1) * kLanes<T>, acc.value[i][kVectors - 1], tail);
  }
}

template <class T, int kRows, int kVectors, Walk kWalk>
void multiply_tile(const Tile<T>& tile) {
  Accumulators<T, kRows, kVectors> acc{};
  const T* a = tile.a;
  const T* b = tile.b;
  const std::int64_t a_step = tile.a_step;
  const std::int64_t b_step = tile.b_step;
  const std::int64_t depth = tile.depth;
  [[maybe_unused]] const std::int64_t row_step = tile.a_row_step;
  [[maybe_unused]] const T* rows[std::size_t{(kRows + kRowsOfPointer - 1) / kRowsOfPointer}];
  if constexpr (kWalk == Walk::a_rows) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; i += kRowsOfPointer) {
      rows[i / kRowsOfPointer] = tile.a + i * row_step;
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* a_now = kWalk == Walk::a_offsets ? tile.a + tile.a_offsets[k] : a;
    const T* b_now = kWalk == Walk::b_offsets ? tile.b + tile.b_offsets[k] : b;
    Vector<T> b_vectors[std::size_t{kVectors}];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      b_vectors[v] = load(b_now + v * kLanes<T>);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const T* const a_row = kWalk == Walk::a_rows
                                 ? rows[i / kRowsOfPointer] + i % kRowsOfPointer * row_step
                                 : a_now + i;
      const Vector<T> a_vector = splat(*a_row);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc.value[i][v] = multiply_add<T>(a_vector, b_vectors[v], acc.value[i][v]);
      }
    }
    a += a_step;
    b += b_step;
    if constexpr (kWalk == Walk::a_rows) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; i += kRowsOfPointer) {
        ++rows[i / kRowsOfPointer];
      }
    }
  }
  add_start(tile, acc);
  write(tile, acc);
}

template <class T>
using TileFn = void (*)(const Tile<T>&);

template <class T, int kVectors, Walk kWalk, int... kIndex>
TileFn<T> pick(int rows, std::integer_sequence<int, kIndex...> /*all*/) {
  static constexpr TileFn<T> kByRows[] = {&multiply_tile<T, kIndex + 1, kVectors, kWalk>...};
  return kByRows[rows - 1];
}

template <class T, Walk kWalk>
TileFn<T> pick(const Tile<T>& tile) {
  constexpr auto kAll = std::make_integer_sequence<int, kTileRows>{};
  return tile.columns > kLanes<T> ? pick<T, 2, kWalk>(tile.rows, kAll)
                                  : pick<T, 1, kWalk>(tile.rows, kAll);
}

}  // namespace

template <class T>
void multiply(const Tile<T>& tile) {
  if (tile.a_offsets != nullptr) {
    pick<T, Walk::a_offsets>(tile)(tile);
  } else if (tile.b_offsets != nullptr) {
    pick<T, Walk::b_offsets>(tile)(tile);
  } else if (tile.a_row_step != 1) {
    pick<T, Walk::a_rows>(tile)(tile);
  } else {
    pick<T, Walk::steps>(tile)(tile);
  }
}

const TileKernels<float> float_tiles_table = {kTileRows,
                                              2 * kLanes<float>,
                                              kLanes<float>,
                                              &multiply<float>,
                                              &pack<float>,
                                              &thin_dot<float>,
                                              &thin_axpy<float>,
                                              &transpose<float>,
                                              &load_elements<float>,
                                              &store_elements<float>};
const TileKernels<double> double_tiles_table = {kTileRows,
                                                2 * kLanes<double>,
                                                kLanes<double>,
                                                &multiply<double>,
                                                &pack<double>,
                                                &thin_dot<double>,
                                                &thin_axpy<double>,
                                                &transpose<double>,
                                                &load_elements<double>,
                                                &store_elements<double>};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
