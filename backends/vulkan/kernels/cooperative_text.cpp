// Products of 16-bit factors on matrix units, in the frame of product_text.cpp. What was measured
// on an H200 to matter: one padded buffer of slices in shared memory, loads of 16 bytes, the next
// slice's fragments read before this one's products, and the last products of a slice around the
// two barriers between which the next slice is laid down. Sums go to memory by way of shared
// memory, strip by strip, so that rows and columns of each are known there: edges, bias and
// epilogues are as in the other kernels.
//
// Without the hardware the same text runs with fragments in the registers of 32 threads in a row,
// which multiply by way of shared memory: slow, but each index is the one that the hardware gets.
#include "product.hpp"

#include <fmt/format.h>

namespace hearth::vulkan::detail {
namespace {

constexpr std::string_view kHead = R"(
#define WARPS_DOWN (TILE_ROWS / WARP_ROWS)
#define WARPS (WARPS_DOWN * (TILE_COLUMNS / WARP_COLUMNS))
#define THREADS (WARPS * 32)
#define FRAGMENTS_A (WARP_ROWS / 16)
#define FRAGMENTS_B (WARP_COLUMNS / 16)
// In words of 16 bytes, one more than a line has: lines then begin in different banks.
#if A_ALONG_DEPTH
#define A_LINES TILE_ROWS
#define A_LINE (TILE_DEPTH / 8)
#else
#define A_LINES TILE_DEPTH
#define A_LINE (TILE_ROWS / 8)
#endif
#if B_ALONG_DEPTH
#define B_LINES TILE_COLUMNS
#define B_LINE (TILE_DEPTH / 8)
#else
#define B_LINES TILE_DEPTH
#define B_LINE (TILE_COLUMNS / 8)
#endif
#define A_PITCH (A_LINE + 1)
#define B_PITCH (B_LINE + 1)
#define B_FIRST (A_LINES * A_PITCH)
#define SLICE_WORDS (B_FIRST + B_LINES * B_PITCH)
#define STRIP_WORDS (WARPS * 16 * WARP_COLUMNS / 4)
shared uvec4 slices[SLICE_WORDS > STRIP_WORDS ? SLICE_WORDS : STRIP_WORDS];
#define A_LOADS ((A_LINES * A_LINE + THREADS - 1) / THREADS)
#define B_LOADS ((B_LINES * B_LINE + THREADS - 1) / THREADS)
#define A_GOES(e) (A_LINES * A_LINE % THREADS == 0 || (e) < A_LINES * A_LINE)
#define B_GOES(e) (B_LINES * B_LINE % THREADS == 0 || (e) < B_LINES * B_LINE)
)";

constexpr std::string_view kHardware = R"(
layout(constant_id = 100) const uint kRows = 16u;
layout(constant_id = 101) const uint kColumns = 16u;
layout(constant_id = 102) const uint kDepth = 16u;
#define FRAGMENT_A fcoopmatNV<16, gl_ScopeSubgroup, kRows, kDepth>
#define FRAGMENT_B fcoopmatNV<16, gl_ScopeSubgroup, kDepth, kColumns>
#define FRAGMENT_SUM fcoopmatNV<32, gl_ScopeSubgroup, kRows, kColumns>
#define NO_SUM FRAGMENT_SUM(0.0)
#define LOAD_FRAGMENT(to, at, pitch, by_columns) coopMatLoadNV(to, slices, uint(at), uint(pitch), by_columns)
#define STORE_FRAGMENT(from, at, pitch) coopMatStoreNV(from, slices, uint(at), uint(pitch), false)
#define MULTIPLY(a, b, sum) sum = coopMatMulAddNV(a, b, sum)
)";

// A thread has the elements lane, lane + 32, ... of a fragment's 16 x 16.
constexpr std::string_view kEmulation = R"(
struct Fragment { float v[8]; };
#define FRAGMENT_A Fragment
#define FRAGMENT_B Fragment
#define FRAGMENT_SUM Fragment
#define NO_SUM Fragment(float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
#define LANE (int(THREAD) % 32)
shared float factors[WARPS * 512];
void load_fragment(out Fragment to, int at, int pitch, bool by_columns) {
  [[unroll]] for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    const int line = by_columns ? e % 16 : e / 16;
    const int place = by_columns ? e / 16 : e % 16;
    const uint pair = slices[at + line * pitch + place / 8][place % 8 / 2];
    to.v[j] = FACTOR(place % 2 == 0 ? pair & 0xffffu : pair >> 16);
  }
}
void store_fragment(Fragment from, int at, int pitch) {
  [[unroll]] for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    slices[at + e / 16 * pitch + e % 16 / 4][e % 4] = floatBitsToUint(from.v[j]);
  }
}
void multiply(Fragment a, Fragment b, inout Fragment sum) {
  const int mine = int(THREAD) / 32 * 512;
  barrier();
  [[unroll]] for (int j = 0; j < 8; ++j) {
    factors[mine + LANE + 32 * j] = a.v[j];
    factors[mine + 256 + LANE + 32 * j] = b.v[j];
  }
  barrier();
  [[unroll]] for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    [[dont_unroll]] for (int k = 0; k < 16; ++k) {
      sum.v[j] += factors[mine + e / 16 * 16 + k] * factors[mine + 256 + k * 16 + e % 16];
    }
  }
}
#define LOAD_FRAGMENT(to, at, pitch, by_columns) load_fragment(to, at, pitch, by_columns)
#define STORE_FRAGMENT(from, at, pitch) store_fragment(from, at, pitch)
#define MULTIPLY(a, b, sum) multiply(a, b, sum)
)";

constexpr std::string_view kMain = R"(
ASide a_sides[A_LOADS];
BSide b_sides[B_LOADS];
uvec4 a_next[A_LOADS];
uvec4 b_next[B_LOADS];
FRAGMENT_SUM sums[FRAGMENTS_A][FRAGMENTS_B];
FRAGMENT_A a_now[2][FRAGMENTS_A];
FRAGMENT_B b_now[2][FRAGMENTS_B];

// Word e of a slice: its line, and its place in there.
#if A_ALONG_DEPTH
#define A_SIDE(e) ((e) / A_LINE)
#define A_DEPTH(e) ((e) % A_LINE * 8)
#else
#define A_SIDE(e) ((e) % A_LINE * 8)
#define A_DEPTH(e) ((e) / A_LINE)
#endif
#if B_ALONG_DEPTH
#define B_SIDE(e) ((e) / B_LINE)
#define B_DEPTH(e) ((e) % B_LINE * 8)
#else
#define B_SIDE(e) ((e) % B_LINE * 8)
#define B_DEPTH(e) ((e) / B_LINE)
#endif

#define FETCH(k) { \
  [[unroll]] for (int i = 0; i < A_LOADS; ++i) { \
    const int e = int(THREAD) + i * THREADS; \
    if (A_GOES(e)) { a_next[i] = a_at(a_sides[i], (k) + A_DEPTH(e)); } \
  } \
  [[unroll]] for (int i = 0; i < B_LOADS; ++i) { \
    const int e = int(THREAD) + i * THREADS; \
    if (B_GOES(e)) { b_next[i] = b_at(b_sides[i], (k) + B_DEPTH(e)); } \
  } \
}
#define LAY { \
  [[unroll]] for (int i = 0; i < A_LOADS; ++i) { \
    const int e = int(THREAD) + i * THREADS; \
    if (A_GOES(e)) { slices[e / A_LINE * A_PITCH + e % A_LINE] = a_next[i]; } \
  } \
  [[unroll]] for (int i = 0; i < B_LOADS; ++i) { \
    const int e = int(THREAD) + i * THREADS; \
    if (B_GOES(e)) { slices[B_FIRST + e / B_LINE * B_PITCH + e % B_LINE] = b_next[i]; } \
  } \
}
#if A_ALONG_DEPTH
#define A_AT(row, k) (row) * A_PITCH + (k) * 2
#else
#define A_AT(row, k) (k) * 16 * A_PITCH + (row) / 8
#endif
#if B_ALONG_DEPTH
#define B_AT(column, k) B_FIRST + (column) * B_PITCH + (k) * 2
#else
#define B_AT(column, k) B_FIRST + (k) * 16 * B_PITCH + (column) / 8
#endif
#define READ(set, k) { \
  [[unroll]] for (int i = 0; i < FRAGMENTS_A; ++i) { \
    LOAD_FRAGMENT(a_now[set][i], A_AT(warp_row + i * 16, k), A_PITCH, A_ALONG_DEPTH == 0); \
  } \
  [[unroll]] for (int j = 0; j < FRAGMENTS_B; ++j) { \
    LOAD_FRAGMENT(b_now[set][j], B_AT(warp_column + j * 16, k), B_PITCH, B_ALONG_DEPTH == 1); \
  } \
}
#define ADD(set, from, to) { \
  [[unroll]] for (int j = from; j < to; ++j) { \
    [[unroll]] for (int i = 0; i < FRAGMENTS_A; ++i) { \
      MULTIPLY(a_now[set][i], b_now[set][j], sums[i][j]); \
    } \
  } \
}

void main() {
  if (!find_work()) {
    return;
  }
  const int warp = int(THREAD) / 32;
  const int warp_row = warp % WARPS_DOWN * WARP_ROWS;
  const int warp_column = warp / WARPS_DOWN * WARP_COLUMNS;
  const int first_row = tile_down * TILE_ROWS;
  const int first_column = tile_across * TILE_COLUMNS;
  [[unroll]] for (int i = 0; i < A_LOADS; ++i) {
    a_sides[i] = a_side(first_row + A_SIDE(int(THREAD) + i * THREADS));
  }
  [[unroll]] for (int i = 0; i < B_LOADS; ++i) {
    b_sides[i] = b_side(first_column + B_SIDE(int(THREAD) + i * THREADS));
  }
  [[unroll]] for (int i = 0; i < FRAGMENTS_A; ++i) {
    [[unroll]] for (int j = 0; j < FRAGMENTS_B; ++j) {
      sums[i][j] = NO_SUM;
    }
  }
  const int begin = part_number * p.split_depth;
  const int end = min(p.depth, begin + p.split_depth);
  FETCH(begin)
  LAY
  FETCH(begin + TILE_DEPTH)
  barrier();
  READ(0, 0)
  [[dont_unroll]] for (int k = begin; k < end; k += TILE_DEPTH) {
#if TILE_DEPTH == 64
    READ(1, 1)
    ADD(0, 0, FRAGMENTS_B)
    READ(0, 2)
    ADD(1, 0, FRAGMENTS_B)
    READ(1, 3)
    ADD(0, 0, FRAGMENTS_B)
#else
    READ(1, 1)
    ADD(0, 0, FRAGMENTS_B)
#endif
    barrier();
    LAY
    FETCH(k + 2 * TILE_DEPTH)
    ADD(1, 0, FRAGMENTS_B / 2)
    barrier();
    READ(0, 0)
    ADD(1, FRAGMENTS_B / 2, FRAGMENTS_B)
  }
  [[unroll]] for (int i = 0; i < FRAGMENTS_A; ++i) {
    const int strip = warp * (16 * WARP_COLUMNS / 4);
    barrier();
    [[unroll]] for (int j = 0; j < FRAGMENTS_B; ++j) {
      STORE_FRAGMENT(sums[i][j], strip + j * 4, WARP_COLUMNS / 4);
    }
    barrier();
    [[dont_unroll]] for (int e = int(THREAD) % 32; e < 16 * WARP_COLUMNS; e += 32) {
      const int row = first_row + warp_row + i * 16 + e / WARP_COLUMNS;
      const int column = first_column + warp_column + e % WARP_COLUMNS;
      if (row < p.rows && column < p.columns) {
        keep(row, column, uintBitsToFloat(slices[strip + e / 4][e % 4]));
      }
    }
  }
}
)";

}  // namespace

std::string_view cooperative_extensions(bool is_emulated) noexcept {
  return is_emulated ? ""
                     : "#extension GL_KHR_memory_scope_semantics : require\n"
                       "#extension GL_NV_cooperative_matrix : require\n"
                       "#pragma use_vulkan_memory_model\n";
}

std::string cooperative_main(const CooperativeTile& tile, DType dtype) {
  // The compiling side looks for the name of the second macro, see cooperative_matrix.hpp.
  return fmt::format(
      "#define TILE_ROWS {}\n#define TILE_COLUMNS {}\n#define TILE_DEPTH {}\n"
      "#define WARP_ROWS {}\n#define WARP_COLUMNS {}\n#define FACTOR(bits) {}(bits)\n{}{}{}{}",
      tile.rows,
      tile.columns,
      tile.depth,
      tile.warp_rows,
      tile.warp_columns,
      dtype == DType::bf16 ? "bf16_to_f32" : "f16_to_f32",
      dtype == DType::bf16 ? "#define COOPERATIVE_BF16\n" : "",
      kHead,
      tile.is_emulated ? kEmulation : kHardware,
      kMain);
}

}  // namespace hearth::vulkan::detail
