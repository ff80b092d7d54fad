#include "int_tiles_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

/// Adds the two products of 16-bit elements in each word.
struct Pairs {
  static constexpr int kElements = 2;
#ifdef __AVX512BW__
  static constexpr int kRows = 12;  // with two vectors of b, one of a and a product: 28 registers
#else
  static constexpr int kRows = 6;
#endif

  [[gnu::always_inline]] static Words add(Words sum, Words b, Words a) {
#if defined(__AVX512BW__)
    return sum + __builtin_bit_cast(Words,
                                    _mm512_madd_epi16(__builtin_bit_cast(Native, b),
                                                      __builtin_bit_cast(Native, a)));
#elif defined(__AVX2__)
    return sum + __builtin_bit_cast(Words,
                                    _mm256_madd_epi16(__builtin_bit_cast(Native, b),
                                                      __builtin_bit_cast(Native, a)));
#elif defined(__x86_64__)
    return sum +
           __builtin_bit_cast(
               Words, _mm_madd_epi16(__builtin_bit_cast(Native, b), __builtin_bit_cast(Native, a)));
#else
    for (std::size_t i = 0; i < kLanes; ++i) {
      const auto product = [&](unsigned shift) {
        return static_cast<std::int16_t>(a[i] >> shift) * static_cast<std::int16_t>(b[i] >> shift);
      };
      sum[i] += static_cast<std::uint32_t>(product(0)) + static_cast<std::uint32_t>(product(16));
    }
    return sum;
#endif
  }
  [[gnu::always_inline]] static std::uint32_t word(std::uint8_t a,
                                                   std::uint8_t b,
                                                   std::uint8_t /*c*/,
                                                   std::uint8_t /*d*/) {
    const auto wide = [](std::uint8_t byte) {
      return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int8_t>(byte)});
    };
    return (wide(a) & 0xFFFFU) | wide(b) << 16U;
  }
};

void no_row_starts(const IntPack& pack, std::int32_t* starts) {
  for (std::int64_t i = 0; i < pack.items; ++i) {
    starts[i] = 0;
  }
}

// Loads kVectorBytes / 2 elements, widened to 16 bits.
[[gnu::always_inline]] inline Words widened(const std::int8_t* from) {
#if defined(__AVX512BW__)
  __m256i half;
  __builtin_memcpy(&half, from, sizeof(half));
  return __builtin_bit_cast(Words, _mm512_cvtepi8_epi16(half));
#elif defined(__AVX2__)
  __m128i half;
  __builtin_memcpy(&half, from, sizeof(half));
  return __builtin_bit_cast(Words, _mm256_cvtepi8_epi16(half));
#elif defined(__x86_64__)
  __m128i half{};
  __builtin_memcpy(&half, from, sizeof(half) / 2);
  return __builtin_bit_cast(Words, _mm_srai_epi16(_mm_unpacklo_epi8(half, half), 8));
#else
  Words words;
  for (std::size_t i = 0; i < kLanes; ++i) {
    words[i] = Pairs::word(
        static_cast<std::uint8_t>(from[2 * i]), static_cast<std::uint8_t>(from[2 * i + 1]), 0, 0);
  }
  return words;
#endif
}

struct ThinPairs {
  static constexpr std::int64_t kStep = kVectorBytes / 2;
  [[gnu::always_inline]] static Words of_w(const std::int8_t* from) { return widened(from); }
  [[gnu::always_inline]] static Words add(Words sum, Words w, const std::int8_t* x) {
    return Pairs::add(sum, w, widened(x));
  }
};
void thin_pairs(const IntThin& thin) {
  const std::int32_t starts[kMaxIntThinRows] = {};
  thin_of_rows<ThinPairs>(thin, starts);
}

}  // namespace

extern const IntTileKernels int_tiles_table{.max_rows = Pairs::kRows,
                                            .panel_columns = static_cast<int>(kPanelColumns),
                                            .word_elements = Pairs::kElements,
                                            .multiply = multiply_words<Pairs>,
                                            .pack_a = pack_words<Pairs, 0>,
                                            .pack_b = pack_words<Pairs, 0>,
                                            .row_starts = no_row_starts,
                                            .thin = thin_pairs};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
