// GLSL of tiles of attention on matrix units. It replaces attention_text::kTiles with the same
// functions, for 16-bit elements in groups of eight. Texts behind macros that attention_shader.cpp
// defines. Constants. Threads: any.
//
// Tiles are 64 x 64, of 8 warps; a warp computes 16 rows times 32 columns of a product. Both
// factors and the weights lie in shared memory as 16-bit operands. A product passes through shared
// memory to the threads. As in the other tiles, each thread owns a 4 x 4 block, with its masks,
// maxima and sums. Weights are the sum of two 16-bit numbers, so results equal those of weights in
// f32. Without the hardware a fragment is the place that it is read from.
#pragma once

#include <string_view>

namespace hearth::gpu::attention_text {

inline constexpr std::string_view kEmulatedUnits = R"(
struct Fragment { float v[8]; };
#define FRAGMENT_A ivec3
#define FRAGMENT_B ivec3
#define FRAGMENT_SUM Fragment
#define NO_SUM NEW_LIST8(Fragment, float, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
FN float factor(ivec3 from, int row, int column) {
  const int line = from.z == 0 ? row : column;
  const int place = from.z == 0 ? column : row;
  const uint pair = words[from.x + line * from.y + place / 8][place % 8 / 2];
  return FACTOR(place % 2 == 0 ? pair & 0xffffu : pair >> 16);
}
FN void store_fragment(Fragment from, int at, int pitch) {
  ROLLED for (int j = 0; j < 8; ++j) {
    const int e = int(THREAD) % 32 + 32 * j;
    words[at + e / 16 * pitch + e % 16 / 4][e % 4] = floatBitsToUint(from.v[j]);
  }
}
FN void multiply(ivec3 a, ivec3 b, IN_OUT(Fragment) sum) {
  ROLLED for (int j = 0; j < 8; ++j) {
    const int e = int(THREAD) % 32 + 32 * j;
    ROLLED for (int k = 0; k < 16; ++k) {
      sum.v[j] += factor(a, e / 16, k) * factor(b, k, e % 16);
    }
  }
}
#define LOAD_FRAGMENT(to, at, pitch, by_columns) to = ivec3(at, pitch, by_columns ? 1 : 0)
#define STORE_FRAGMENT(from, at, pitch) store_fragment(from, at, pitch)
#define MULTIPLY(a, b, sum) multiply(a, b, sum)
)";

/// Shared memory, in front of the fragments: two factors, or a product of 32 bits, and weights.
/// Regions that do not fit overlay the second factor, or lie behind it where several blocks need
/// it. A line is padded by one word of 16 bytes.
inline constexpr std::string_view kUnitWords = R"(
#define LINE 9
#define SUM_LINE 17
#define SECOND (64 * LINE)
#define WEIGHTS (128 * LINE)
#define RESTS (BLOCKS > 1 ? 192 * LINE : SECOND)
SHARED(uvec4, words, (BLOCKS > 1 ? 256 : 192) * LINE);
SHARED(VALUE4, tiles, TX * (TY + 1));
)";

inline constexpr std::string_view kUnitTiles = R"(
// 64 rows of 64 columns.
FN void load_rows(int to, Matrix m, INDEX first_row, INDEX first_column) {
  MAYBE_UNROLLED for (int i = 0; i < 512 / THREADS; ++i) {
    const int e = int(THREAD) + i * THREADS;
    const INDEX row = first_row + INDEX(e / 8);
    const INDEX column = first_column + INDEX(e % 8 * 8);
    uvec4 word = uvec4(0);
    if (row < m.rows && column < m.width) {
      word = load_eight(m.at, row_place(m, row) + column);
    }
    words[to + e / 8 * LINE + e % 8] = word;
  }
}

// A warp's 16 rows times 32 columns, from 64 x 64 and 64 x 64.
FN void multiply_tiles(int a, int b, bool by_columns, IN_OUT_ARRAY(FRAGMENT_SUM, sums, 2)) {
  const int warp = int(THREAD) / 32;
  MAYBE_UNROLLED for (int k = 0; k < 4; ++k) {
    FRAGMENT_A left;
    LOAD_FRAGMENT(left, a + warp % 4 * 16 * LINE + k * 2, LINE, false);
    MAYBE_UNROLLED for (int j = 0; j < 2; ++j) {
      const int column = warp / 4 * 2 + j;
      FRAGMENT_B right;
      if (by_columns) {
        LOAD_FRAGMENT(right, b + column * 16 * LINE + k * 2, LINE, true);
      } else {
        LOAD_FRAGMENT(right, b + k * 16 * LINE + column * 2, LINE, false);
      }
      MULTIPLY(left, right, sums[j]);
    }
  }
}

FN void put_sums(FRAGMENT_SUM sums[2]) {
  const int warp = int(THREAD) / 32;
  barrier();
  MAYBE_UNROLLED for (int j = 0; j < 2; ++j) {
    STORE_FRAGMENT(sums[j], warp % 4 * 16 * SUM_LINE + (warp / 4 * 2 + j) * 4, SUM_LINE);
  }
  barrier();
}

// s[j][i]: row i of the thread's own ones times row j of its other ones.
FN void product(Matrix own, Matrix other, INDEX own_row, INDEX other_row, OUT_ARRAY(VALUE4, s, 4)) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  FRAGMENT_SUM sums[2];
  sums[0] = NO_SUM;
  sums[1] = NO_SUM;
  for (INDEX column = 0; column < own.width; column += 64) {
    barrier();
    load_rows(0, own, own_row, column);
    load_rows(SECOND, other, other_row, column);
    barrier();
    multiply_tiles(0, SECOND, true, sums);
  }
  put_sums(sums);
  UNROLLED for (int i = 0; i < 4; ++i) {
    const vec4 row = uintBitsToFloat(words[(ty * 4 + i) * SUM_LINE + tx]);
    UNROLLED for (int j = 0; j < 4; ++j) {
      s[j][i] = row[j];
    }
  }
}

// Cut, not rounded: by the bits, so that no compiler takes the rest for nothing.
FN void put_pair(int at, int place, VALUE x, VALUE y) {
  const vec2 all = vec2(x, y);
  const vec2 first = uintBitsToFloat(floatBitsToUint(all) & uvec2(KEPT_BITS));
  vec2 rest = all - first;
  rest.x = abs(x) < 1e38 ? rest.x : 0.0;
  rest.y = abs(y) < 1e38 ? rest.y : 0.0;
  words[WEIGHTS + at][place] = PACKED(first);
  words[RESTS + at][place] = PACKED(rest);
}

FN void put_weights(VALUE4 w[4]) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  barrier();
  MAYBE_UNROLLED for (int i = 0; i < 4; ++i) {
    const int at = (ty * 4 + i) * LINE + tx / 2;
    put_pair(at, tx % 2 * 2, w[0][i], w[1][i]);
    put_pair(at, tx % 2 * 2 + 1, w[2][i], w[3][i]);
  }
}

// sum[b * 4 + i] of row i and the columns of block b: weights times the rows of m.
FN void accumulate(Matrix m, INDEX first_row, INDEX first_column, IN_OUT_ARRAY(VALUE4, sum, BLOCKS * 4)) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  MAYBE_UNROLLED for (int b = 0; b < BLOCKS; ++b) {
    FRAGMENT_SUM sums[2];
    sums[0] = NO_SUM;
    sums[1] = NO_SUM;
    barrier();
    load_rows(0, m, first_row, first_column + b * 64);
    barrier();
    multiply_tiles(WEIGHTS, 0, false, sums);
    multiply_tiles(RESTS, 0, false, sums);
    put_sums(sums);
    UNROLLED for (int i = 0; i < 4; ++i) {
      sum[b * 4 + i] += uintBitsToFloat(words[(ty * 4 + i) * SUM_LINE + tx]);
    }
  }
}

FN void store_block(uint64_t to, INDEX rows, INDEX width, INDEX first_row, INDEX first_column,
                 VALUE4 values[BLOCKS * 4]) {
  const int tx = int(THREAD) % TX;
  MAYBE_UNROLLED for (int b = 0; b < BLOCKS; ++b) {
    const INDEX column = first_column + INDEX((b * TX + tx) * 4);
    MAYBE_UNROLLED for (int i = 0; i < 4; ++i) {
      const INDEX r = first_row + INDEX(i);
      if (r < rows && column < width) {
        const VALUE4 four = values[b * 4 + i];
        Quad(to + uint64_t(r * width + column) * 2ul).v =
            uvec2(ROUNDED(four.x) | ROUNDED(four.y) << 16, ROUNDED(four.z) | ROUNDED(four.w) << 16);
      }
    }
  }
}
)";

}  // namespace hearth::gpu::attention_text
