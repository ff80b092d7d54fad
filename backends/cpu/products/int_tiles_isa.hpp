// The tiles of i8, as templates over a type that multiplies words; each including source defines
// that type. Included by sources of ISA_SOURCES only. Threads: any; pure functions.
#pragma once

#include "int_tiles.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace hearth::cpu::HEARTH_CPU_ISA {

#if defined(__AVX512BW__)
inline constexpr int kVectorBytes = 64;
using Native = __m512i;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
using Native = __m256i;
#else
inline constexpr int kVectorBytes = 16;
#ifdef __x86_64__
using Native = __m128i;
#endif
#endif

// Unsigned: with an offset in b, intermediate sums may wrap.
using Words [[gnu::vector_size(kVectorBytes)]] = std::uint32_t;
inline constexpr std::size_t kLanes = kVectorBytes / 4;
inline constexpr std::size_t kVectors = 2;  // of a panel
inline constexpr std::size_t kPanelColumns = kVectors * kLanes;

template <class T>
[[gnu::always_inline]] inline Words load(const T* from) {
  Words words;
  __builtin_memcpy(&words, from, sizeof(words));
  return words;
}

// ---- tiles ----

template <std::size_t kColumns>
[[gnu::always_inline]] inline void store_tile_row(std::int32_t* to,
                                                  const Words* sums,
                                                  std::size_t columns) {
  if (columns == kColumns * kLanes) {
    __builtin_memcpy(to, sums, sizeof(Words) * kColumns);
  } else {
    __builtin_memcpy(to, sums, columns * sizeof(std::int32_t));
  }
}

template <class How, std::size_t kRows, std::size_t kColumns>
[[gnu::always_inline]] inline void tile_of(const IntTile& tile) {
  Words sums[kRows][kColumns];
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto start =
        static_cast<std::uint32_t>(tile.row_start == nullptr ? 0 : tile.row_start[i]);
    for (std::size_t j = 0; j < kColumns; ++j) {
      sums[i][j] = Words{} + start;
    }
  }
  const auto columns = static_cast<std::size_t>(tile.columns);
  const std::uint32_t* a = tile.a;
  const std::uint32_t* b = tile.b;
  for (std::int64_t g = 0; g < tile.group_count; ++g) {
    Words of_b[kColumns];
    for (std::size_t j = 0; j < kColumns; ++j) {
      of_b[j] = load(b + j * kLanes);
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      const Words of_a = Words{} + a[i];
      for (std::size_t j = 0; j < kColumns; ++j) {
        sums[i][j] = How::add(sums[i][j], of_b[j], of_a);
      }
    }
    a += tile.a_step;
    b += kPanelColumns;
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    std::int32_t* const to = tile.c + static_cast<std::int64_t>(i) * tile.c_step;
    if (tile.row_start == nullptr) {
      std::int32_t known[kColumns * kLanes] = {};
      __builtin_memcpy(known, to, columns * sizeof(std::int32_t));
      for (std::size_t j = 0; j < kColumns; ++j) {
        sums[i][j] += load(known + j * kLanes);
      }
    }
    store_tile_row<kColumns>(to, sums[i], columns);
  }
}

template <class How, std::size_t kRows>
[[gnu::always_inline]] inline void tile_of_rows(const IntTile& tile) {
  if (static_cast<std::size_t>(tile.columns) <= kLanes) {
    tile_of<How, kRows, 1>(tile);
  } else {
    tile_of<How, kRows, kVectors>(tile);
  }
}

using IntTileFn = void (*)(const IntTile& tile);

template <class How, std::size_t kRows>
void int_tile(const IntTile& tile) {
  tile_of_rows<How, kRows>(tile);
}
template <class How, std::size_t... kRows>
constexpr std::array<IntTileFn, sizeof...(kRows)> int_tile_functions(
    std::index_sequence<kRows...> /*rows*/) {
  return {int_tile<How, kRows + 1>...};
}
template <class How>
void multiply_words(const IntTile& tile) {
  static constexpr auto kTiles = int_tile_functions<How>(std::make_index_sequence<How::kRows>());
  kTiles[static_cast<std::size_t>(tile.rows - 1)](tile);
}

// ---- packing ----

// Words of an item are `width` apart; contiguous neighbours are read as a group.
template <class How, std::uint32_t kFlip>
void pack_words(const IntPack& pack) {
  constexpr std::int64_t kElements = How::kElements;
  const std::int64_t groups = (pack.depth + kElements - 1) / kElements;
  const std::int64_t whole = pack.depth / kElements;
  for (std::int64_t first = 0; first < pack.items; first += pack.width) {
    std::uint32_t* const to = pack.to + first / pack.width * pack.panel_step;
    const std::int64_t count = pack.items - first < pack.width ? pack.items - first : pack.width;
    const auto* const from =
        reinterpret_cast<const std::uint8_t*>(pack.from) + first * pack.item_step;
    const auto one = [&](std::int64_t g, std::int64_t i) {
      std::uint8_t bytes[4] = {};
      for (std::int64_t e = 0; e < kElements && g * kElements + e < pack.depth; ++e) {
        bytes[e] = from[i * pack.item_step + (g * kElements + e) * pack.depth_step];
      }
      return How::word(bytes[0], bytes[1], bytes[2], bytes[3]) ^ kFlip;
    };
    if (pack.depth_step == 1) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint8_t* const item = from + i * pack.item_step;
        for (std::int64_t g = 0; g < whole; ++g) {
          std::uint8_t bytes[4] = {};
          __builtin_memcpy(bytes, item + g * kElements, kElements);
          to[g * pack.width + i] = How::word(bytes[0], bytes[1], bytes[2], bytes[3]) ^ kFlip;
        }
      }
    } else if (pack.item_step == 1) {
      for (std::int64_t g = 0; g < whole; ++g) {
        const std::uint8_t* const row = from + g * kElements * pack.depth_step;
        std::uint32_t* const words = to + g * pack.width;
        const std::uint8_t* const second = row + pack.depth_step;
        const std::uint8_t* const third = kElements > 2 ? second + pack.depth_step : row;
        const std::uint8_t* const fourth = kElements > 2 ? third + pack.depth_step : row;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < count; ++i) {
          words[i] = How::word(row[i], second[i], third[i], fourth[i]) ^ kFlip;
        }
      }
    } else {
      for (std::int64_t g = 0; g < whole; ++g) {
        for (std::int64_t i = 0; i < count; ++i) {
          to[g * pack.width + i] = one(g, i);
        }
      }
    }
    for (std::int64_t g = whole; g < groups; ++g) {
      for (std::int64_t i = 0; i < count; ++i) {
        to[g * pack.width + i] = one(g, i);
      }
    }
    for (std::int64_t g = 0; g < groups && count < pack.width; ++g) {
      for (std::int64_t i = count; i < pack.width; ++i) {
        to[g * pack.width + i] = 0;
      }
    }
  }
}

// ---- thin products ----

[[gnu::always_inline]] inline std::uint32_t sum_of_lanes(Words words) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kLanes; ++i) {
    sum += words[i];
  }
  return sum;
}

template <class How, std::size_t kRows>
[[gnu::always_inline]] inline void thin_of(const IntThin& thin, const std::int32_t* starts) {
  const std::int64_t whole = thin.depth / How::kStep * How::kStep;
  std::int8_t x_tail[kRows][static_cast<std::size_t>(How::kStep)] = {};
  const auto rest = static_cast<std::size_t>(thin.depth - whole);
  for (std::size_t r = 0; r < kRows && rest != 0; ++r) {
    __builtin_memcpy(x_tail[r], thin.x + static_cast<std::int64_t>(r) * thin.x_step + whole, rest);
  }
  for (std::int64_t j = 0; j < thin.columns; ++j) {
    const std::int8_t* const w = thin.w + j * thin.w_step;
    Words sums[kRows] = {};
    for (std::int64_t k = 0; k < whole; k += How::kStep) {
      const Words of_w = How::of_w(w + k);
      for (std::size_t r = 0; r < kRows; ++r) {
        sums[r] = How::add(sums[r], of_w, thin.x + static_cast<std::int64_t>(r) * thin.x_step + k);
      }
    }
    if (rest != 0) {
      std::int8_t w_tail[static_cast<std::size_t>(How::kStep)] = {};
      __builtin_memcpy(w_tail, w + whole, rest);
      const Words of_w = How::of_w(w_tail);
      for (std::size_t r = 0; r < kRows; ++r) {
        sums[r] = How::add(sums[r], of_w, x_tail[r]);
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      thin.y[static_cast<std::int64_t>(r) * thin.y_row + j * thin.y_column] =
          static_cast<std::int32_t>(sum_of_lanes(sums[r]) + static_cast<std::uint32_t>(starts[r]));
    }
  }
}

template <class How>
[[gnu::always_inline]] inline void thin_of_rows(const IntThin& thin, const std::int32_t* starts) {
  switch (thin.rows) {
    case 1:
      return thin_of<How, 1>(thin, starts);
    case 2:
      return thin_of<How, 2>(thin, starts);
    case 3:
      return thin_of<How, 3>(thin, starts);
    default:
      return thin_of<How, 4>(thin, starts);
  }
}

}  // namespace hearth::cpu::HEARTH_CPU_ISA
