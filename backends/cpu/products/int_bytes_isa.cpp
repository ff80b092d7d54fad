// Tiles of i8 for processors with AVX512_VNNI, at the level avx512.
#include "int_tiles_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

/// Adds the four products of bytes in each word; the bytes of b are unsigned, with an offset of
/// 128.
struct Bytes {
  static constexpr int kElements = 4;
  static constexpr int kRows = 14;

  [[gnu::always_inline]] static Words add(Words sum, Words b, Words a) {
    return __builtin_bit_cast(Words,
                              _mm512_dpbusd_epi32(__builtin_bit_cast(Native, sum),
                                                  __builtin_bit_cast(Native, b),
                                                  __builtin_bit_cast(Native, a)));
  }
  [[gnu::always_inline]] static std::uint32_t word(std::uint8_t a,
                                                   std::uint8_t b,
                                                   std::uint8_t c,
                                                   std::uint8_t d) {
    return static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b) << 8U |
           static_cast<std::uint32_t>(c) << 16U | static_cast<std::uint32_t>(d) << 24U;
  }
};
struct ThinBytes {
  static constexpr std::int64_t kStep = kVectorBytes;
  [[gnu::always_inline]] static Words of_w(const std::int8_t* from) {
    return load(from) ^ 0x80808080U;
  }
  [[gnu::always_inline]] static Words add(Words sum, Words w, const std::int8_t* x) {
    return Bytes::add(sum, w, load(x));
  }
};
// Row starts: b is packed with 128 added to each element, so the result is Σ a·(b + 128) - 128·Σ a.
void byte_row_starts(const IntPack& pack, std::int32_t* starts) {
  for (std::int64_t i = 0; i < pack.items; ++i) {
    starts[i] = 0;
  }
  if (pack.depth_step == 1) {
    for (std::int64_t i = 0; i < pack.items; ++i) {
      const std::int8_t* const item = pack.from + i * pack.item_step;
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < pack.depth; ++k) {
        sum += item[k];
      }
      starts[i] = -128 * sum;
    }
    return;
  }
  for (std::int64_t k = 0; k < pack.depth; ++k) {
    for (std::int64_t i = 0; i < pack.items; ++i) {
      starts[i] -= 128 * pack.from[i * pack.item_step + k * pack.depth_step];
    }
  }
}

void thin_bytes(const IntThin& thin) {
  std::int32_t starts[kMaxIntThinRows] = {};
  byte_row_starts({.from = thin.x,
                   .item_step = thin.x_step,
                   .depth_step = 1,
                   .depth = thin.depth,
                   .items = thin.rows},
                  starts);
  thin_of_rows<ThinBytes>(thin, starts);
}
}  // namespace

extern const IntTileKernels int_byte_tiles_table{.max_rows = Bytes::kRows,
                                                 .panel_columns = static_cast<int>(kPanelColumns),
                                                 .word_elements = Bytes::kElements,
                                                 .multiply = multiply_words<Bytes>,
                                                 .pack_a = pack_words<Bytes, 0>,
                                                 .pack_b = pack_words<Bytes, 0x80808080U>,
                                                 .row_starts = byte_row_starts,
                                                 .thin = thin_bytes};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
