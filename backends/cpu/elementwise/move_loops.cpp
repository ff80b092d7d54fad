#include "move_loops.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstring>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

using Word = std::uint32_t;

// Side of the square blocks of transposes.
constexpr std::int64_t kSide = 8;

template <class T>
void transpose_block(T* to, std::int64_t to_stride, const T* from, std::int64_t column_stride) {
  for (std::int64_t r = 0; r < kSide; ++r) {
    for (std::int64_t c = 0; c < kSide; ++c) {
      to[r * to_stride + c] = from[r + c * column_stride];
    }
  }
}

#ifdef __AVX2__
// Transposes eight columns in eight vectors: pairs words within the halves of a vector, then pairs
// of words, then exchanges the halves.
void transpose_block(Word* to,
                     std::int64_t to_stride,
                     const Word* from,
                     std::int64_t column_stride) {
  const auto load = [&](std::int64_t c) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + c * column_stride));
  };
  const auto store = [&](std::int64_t r, __m256i a, __m256i b) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * to_stride),
                        _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (r + 4) * to_stride),
                        _mm256_permute2x128_si256(a, b, 0x31));
  };
  const __m256i c01 = _mm256_unpacklo_epi32(load(0), load(1));
  const __m256i c01_high = _mm256_unpackhi_epi32(load(0), load(1));
  const __m256i c23 = _mm256_unpacklo_epi32(load(2), load(3));
  const __m256i c23_high = _mm256_unpackhi_epi32(load(2), load(3));
  const __m256i c45 = _mm256_unpacklo_epi32(load(4), load(5));
  const __m256i c45_high = _mm256_unpackhi_epi32(load(4), load(5));
  const __m256i c67 = _mm256_unpacklo_epi32(load(6), load(7));
  const __m256i c67_high = _mm256_unpackhi_epi32(load(6), load(7));
  store(0, _mm256_unpacklo_epi64(c01, c23), _mm256_unpacklo_epi64(c45, c67));
  store(1, _mm256_unpackhi_epi64(c01, c23), _mm256_unpackhi_epi64(c45, c67));
  store(2, _mm256_unpacklo_epi64(c01_high, c23_high), _mm256_unpacklo_epi64(c45_high, c67_high));
  store(3, _mm256_unpackhi_epi64(c01_high, c23_high), _mm256_unpackhi_epi64(c45_high, c67_high));
}
#endif

template <class T>
void transpose_edge(T* to,
                    std::int64_t to_stride,
                    const T* from,
                    std::int64_t column_stride,
                    std::int64_t rows,
                    std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      to[r * to_stride + c] = from[r + c * column_stride];
    }
  }
}

template <class T>
void transpose(T* to,
               std::int64_t to_stride,
               const T* from,
               std::int64_t column_stride,
               std::int64_t rows,
               std::int64_t columns) {
  const std::int64_t whole_rows = rows - rows % kSide;
  const std::int64_t whole_columns = columns - columns % kSide;
  for (std::int64_t r = 0; r < whole_rows; r += kSide) {
    for (std::int64_t c = 0; c < whole_columns; c += kSide) {
      transpose_block(
          to + r * to_stride + c, to_stride, from + r + c * column_stride, column_stride);
    }
  }
  transpose_edge(to + whole_columns,
                 to_stride,
                 from + whole_columns * column_stride,
                 column_stride,
                 whole_rows,
                 columns - whole_columns);
  transpose_edge(to + whole_rows * to_stride,
                 to_stride,
                 from + whole_rows,
                 column_stride,
                 rows - whole_rows,
                 columns);
}

// Copies a short row of whole lines, in less time than a call.
[[gnu::always_inline]] inline void copy_lines(std::byte* to,
                                              const std::byte* from,
                                              std::size_t size) {
  for (std::size_t at = 0; at < size; at += 64) {
    __builtin_memcpy(to + at, from + at, 64);
  }
}

template <class T>
void gather(std::byte* to_bytes,
            std::int64_t to_stride,
            const std::byte* from_bytes,
            std::int64_t row_stride,
            std::int64_t column_stride,
            std::int64_t rows,
            std::int64_t columns) {
  auto* to = reinterpret_cast<T*>(to_bytes);
  const auto* from = reinterpret_cast<const T*>(from_bytes);
  if (column_stride == 1) {
    const std::size_t size = static_cast<std::size_t>(columns) * sizeof(T);
    const auto size_bytes = static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* const row = to_bytes + r * to_stride * size_bytes;
      const std::byte* const first = from_bytes + r * row_stride * size_bytes;
      if (size % 64 == 0 && size <= 512) {
        copy_lines(row, first, size);
      } else {
        std::memcpy(row, first, size);
      }
    }
    return;
  }
  if (row_stride == 1 && rows > 1) {
    transpose(to, to_stride, from, column_stride, rows, columns);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = to + r * to_stride;
    const T* first = from + r * row_stride;
    if (column_stride == 0) {
      const T value = *first;
      for (std::int64_t c = 0; c < columns; ++c) {
        row[c] = value;
      }
      continue;
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      row[c] = first[c * column_stride];
    }
  }
}

template <class T>
void fill(std::byte* to_bytes, const std::byte* element, std::int64_t count) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  auto* to = reinterpret_cast<T*>(to_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = value;
  }
}

template <class T, bool one_a, bool one_b>
void select(void* out, const void* condition, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* take = static_cast<const std::uint8_t*>(condition);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const T first_x = *x;
  const T first_y = *y;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T from_x = one_a ? first_x : x[i];
    const T from_y = one_b ? first_y : y[i];
    to[i] = take[i] != 0 ? from_x : from_y;
  }
}

void stream(std::byte* to, const std::byte* from, std::int64_t size_bytes) {
#ifdef __SSE2__
  constexpr std::int64_t kLine = 64;
  const auto misplaced = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::int64_t i = misplaced == 0 ? 0 : kLine - misplaced;
  i = i < size_bytes ? i : size_bytes;
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + kLine <= size_bytes; i += kLine) {
    // Stores a whole line at a time, so that no partly filled write buffer is flushed.
#ifdef __AVX512F__
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
#else
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
#endif
  }
  std::memcpy(to + i, from + i, static_cast<std::size_t>(size_bytes - i));
#else
  std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
#endif
}

void fence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

template <class T>
constexpr std::array<SelectLoop, 4> selects() {
  return {select<T, false, false>,
          select<T, true, false>,
          select<T, false, true>,
          select<T, true, true>};
}

}  // namespace

extern const MoveLoops move_loops_table = {
    {gather<std::uint8_t>, gather<std::uint16_t>, gather<Word>, gather<std::uint64_t>},
    {fill<std::uint8_t>, fill<std::uint16_t>, fill<Word>, fill<std::uint64_t>},
    {selects<std::uint8_t>(), selects<std::uint16_t>(), selects<Word>(), selects<std::uint64_t>()},
    stream,
    fence};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
