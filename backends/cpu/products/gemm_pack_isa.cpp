#include "gemm_tiles_isa.hpp"
#include "gemm_vector.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// A block of kSide × kSide elements, read by rows and written by columns. Rows beyond `rows` repeat
// the last one and are not written.
template <class T>
struct Square {
  static constexpr int kSide = 16 / static_cast<int>(sizeof(T));
  using Lanes [[gnu::vector_size(16)]] = T;

  [[gnu::always_inline]] static void transpose(
      const T* from, std::int64_t from_step, T* to, std::int64_t to_step, int rows) {
    Lanes row[std::size_t{kSide}];
    for (int i = 0; i < kSide; ++i) {
      __builtin_memcpy(&row[i], from + (i < rows ? i : rows - 1) * from_step, sizeof(Lanes));
    }
    Lanes column[std::size_t{kSide}];
    if constexpr (kSide == 4) {
      const Lanes low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
      const Lanes low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
      const Lanes high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      const Lanes high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      column[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      column[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      column[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      column[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    } else {
      column[0] = __builtin_shufflevector(row[0], row[1], 0, 2);
      column[1] = __builtin_shufflevector(row[0], row[1], 1, 3);
    }
    for (int i = 0; i < kSide; ++i) {
      if (rows >= kSide) {
        __builtin_memcpy(to + i * to_step, &column[i], sizeof(Lanes));
      } else {
        __builtin_memcpy(to + i * to_step, &column[i], static_cast<std::size_t>(rows) * sizeof(T));
      }
    }
  }
};

#ifdef __AVX512F__
// Loads rows j, j + 4, j + 8, j + 12 side by side: a transposition of 4 × 4 within the lanes then
// gives whole columns. Twice as fast as four lanes at a time.
template <>
struct Square<float> {
  static constexpr int kSide = 16;

  // Masked forms with full masks: g++ 12 warns about the unmasked ones.
  static constexpr __mmask16 kAll = 0xffff;

  [[gnu::always_inline]] static __m512 gather(const float* const* row, int column) {
    __m512 value = _mm512_zextps128_ps512(_mm_loadu_ps(row[0] + column));
    value = _mm512_maskz_insertf32x4(kAll, value, _mm_loadu_ps(row[4] + column), 1);
    value = _mm512_maskz_insertf32x4(kAll, value, _mm_loadu_ps(row[8] + column), 2);
    return _mm512_maskz_insertf32x4(kAll, value, _mm_loadu_ps(row[12] + column), 3);
  }
  [[gnu::always_inline]] static __m512d low(__m512 a, __m512 b) {
    return _mm512_castps_pd(_mm512_maskz_unpacklo_ps(kAll, a, b));
  }
  [[gnu::always_inline]] static __m512d high(__m512 a, __m512 b) {
    return _mm512_castps_pd(_mm512_maskz_unpackhi_ps(kAll, a, b));
  }
  [[gnu::always_inline]] static __m512 low(__m512d a, __m512d b) {
    return _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, a, b));
  }
  [[gnu::always_inline]] static __m512 high(__m512d a, __m512d b) {
    return _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, a, b));
  }

  [[gnu::always_inline]] static void transpose(
      const float* from, std::int64_t from_step, float* to, std::int64_t to_step, int rows) {
    const float* row[16];
    for (int i = 0; i < 16; ++i) {
      row[i] = from + (i < rows ? i : rows - 1) * from_step;
    }
    for (int column = 0; column < 16; column += 4) {
      const __m512 a = gather(row, column);
      const __m512 b = gather(row + 1, column);
      const __m512 c = gather(row + 2, column);
      const __m512 d = gather(row + 3, column);
      store_part<float>(to + column * to_step, low(low(a, b), low(c, d)), rows);
      store_part<float>(to + (column + 1) * to_step, high(low(a, b), low(c, d)), rows);
      store_part<float>(to + (column + 2) * to_step, low(high(a, b), high(c, d)), rows);
      store_part<float>(to + (column + 3) * to_step, high(high(a, b), high(c, d)), rows);
    }
  }
};
#endif

template <class S, class T>
void widen_row(const S* from, T* to, std::int64_t count) {
  std::int64_t at = 0;
  for (; at + kLanes<T> <= count; at += kLanes<T>) {
    store(to + at, load_wide(from + at));
  }
  for (; at < count; ++at) {
    to[at] = widen(from[at]);
  }
}

template <class S, class T>
void pack_rows(const Pack& pack, const S* from, T* to) {
  for (std::int64_t k = 0; k < pack.depth; ++k) {
    const S* row = from + k * pack.depth_step;
    T* out = to + k * pack.width;
    for (std::int64_t first = 0; first < pack.items; first += pack.width, out += pack.panel_step) {
      const std::int64_t items = pack.items - first < pack.width ? pack.items - first : pack.width;
      std::int64_t i = 0;
      for (; i + kLanes<T> <= items; i += kLanes<T>) {
        store(out + i, load_wide(row + first + i));
      }
      if (i < items) {
        const int tail = static_cast<int>(items - i);
        store_part(out + i, load_wide_part(row + first + i, tail), tail);
      }
    }
  }
}

template <class S, class T>
void pack_scalars(const Pack& panel, const S* from, T* to) {
  for (std::int64_t i = 0; i < panel.items; ++i) {
    for (std::int64_t k = 0; k < panel.depth; ++k) {
      to[k * panel.width + i] = widen(from[i * panel.item_step + k * panel.depth_step]);
    }
  }
}

template <class S, class T>
void pack_columns(const Pack& panel, const S* from, T* to) {
  if constexpr (sizeof(S) == sizeof(T)) {
    transpose<T>(from, panel.item_step, to, panel.width, panel.items, panel.depth);
  } else {
    constexpr int kChunk = 4 * kLanes<T>;
    T wide[16][std::size_t{kChunk}];
    for (std::int64_t k = 0; k < panel.depth; k += kChunk) {
      const std::int64_t count = panel.depth - k < kChunk ? panel.depth - k : kChunk;
      for (std::int64_t first = 0; first < panel.items; first += 16) {
        const std::int64_t rows = panel.items - first < 16 ? panel.items - first : 16;
        for (std::int64_t i = 0; i < rows; ++i) {
          widen_row(from + (first + i) * panel.item_step + k, wide[i], count);
        }
        transpose<T>(&wide[0][0], kChunk, to + k * panel.width + first, panel.width, rows, count);
      }
    }
  }
}

template <class S, class T>
void pack_from(const Pack& pack, T* to) {
  const S* from = reinterpret_cast<const S*>(pack.from);
  if (pack.item_step == 1) {
    pack_rows(pack, from, to);
  }
  for (std::int64_t first = 0; first < pack.items; first += pack.width) {
    Pack panel = pack;
    panel.items = pack.items - first < pack.width ? pack.items - first : pack.width;
    T* panel_to = to + first / pack.width * pack.panel_step;
    if (pack.item_step != 1 && pack.depth_step == 1) {
      pack_columns(panel, from + first * pack.item_step, panel_to);
    } else if (pack.item_step != 1) {
      pack_scalars(panel, from + first * pack.item_step, panel_to);
    }
    for (std::int64_t k = 0; k < pack.depth && panel.items < pack.width; ++k) {
      for (std::int64_t i = panel.items; i < pack.width; ++i) {
        panel_to[k * pack.width + i] = T{};
      }
    }
  }
}

void narrow(const float* from, Half* to, std::int64_t count) {
  std::int64_t at = 0;
#ifdef __F16C__
  for (; at + 8 <= count; at += 8) {
    __m256 wide;
    __builtin_memcpy(&wide, from + at, sizeof(wide));
    const __m128i bits = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __builtin_memcpy(to + at, &bits, sizeof(bits));
  }
#endif
  for (; at < count; ++at) {
    to[at] = to_half(from[at]);
  }
}

void narrow(const float* from, Brain* to, std::int64_t count) {
  for (std::int64_t at = 0; at < count; ++at) {
    const auto word = __builtin_bit_cast(std::uint32_t, from[at]);
    const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U;
    const std::uint32_t quiet = (word >> 16U) | 0x40U;
    to[at].bits = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
  }
}

}  // namespace

template <class T>
void transpose(const T* from,
               std::int64_t from_step,
               T* to,
               std::int64_t to_step,
               std::int64_t rows,
               std::int64_t columns) {
  constexpr int kSide = Square<T>::kSide;
  if (columns < kSide) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        to[j * to_step + i] = from[i * from_step + j];
      }
    }
    return;
  }
  for (std::int64_t column = 0; column < columns; column += kSide) {
    const std::int64_t j = column + kSide <= columns
                               ? column
                               : columns - kSide;  // the last block may overlap the one before
    for (std::int64_t i = 0; i < rows; i += kSide) {
      const int count = static_cast<int>(rows - i < kSide ? rows - i : kSide);
      Square<T>::transpose(
          from + i * from_step + j, from_step, to + j * to_step + i, to_step, count);
    }
  }
}

template <class T>
void pack(const Pack& pack, DType from, T* to) {
  if constexpr (sizeof(T) == 8) {
    pack_from<double>(pack, to);
  } else if (from == DType::f16) {
    pack_from<Half>(pack, to);
  } else if (from == DType::bf16) {
    pack_from<Brain>(pack, to);
  } else {
    pack_from<float>(pack, to);
  }
}

template <class T>
void load_elements(const std::byte* from, DType dtype, T* to, std::int64_t count) {
  if constexpr (sizeof(T) == 8) {
    widen_row(reinterpret_cast<const double*>(from), to, count);
  } else if (dtype == DType::f16) {
    widen_row(reinterpret_cast<const Half*>(from), to, count);
  } else if (dtype == DType::bf16) {
    widen_row(reinterpret_cast<const Brain*>(from), to, count);
  } else {
    widen_row(reinterpret_cast<const float*>(from), to, count);
  }
}

template <class T>
void store_elements(const T* from, std::byte* to, DType dtype, std::int64_t count) {
  if constexpr (sizeof(T) == 4) {
    if (dtype == DType::f16) {
      narrow(from, reinterpret_cast<Half*>(to), count);
      return;
    }
    if (dtype == DType::bf16) {
      narrow(from, reinterpret_cast<Brain*>(to), count);
      return;
    }
  }
  __builtin_memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

template void pack<float>(const Pack&, DType, float*);
template void pack<double>(const Pack&, DType, double*);
template void transpose<float>(
    const float*, std::int64_t, float*, std::int64_t, std::int64_t, std::int64_t);
template void transpose<double>(
    const double*, std::int64_t, double*, std::int64_t, std::int64_t, std::int64_t);
template void load_elements<float>(const std::byte*, DType, float*, std::int64_t);
template void load_elements<double>(const std::byte*, DType, double*, std::int64_t);
template void store_elements<float>(const float*, std::byte*, DType, std::int64_t);
template void store_elements<double>(const double*, std::byte*, DType, std::int64_t);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
