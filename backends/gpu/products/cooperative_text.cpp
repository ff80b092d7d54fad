// Products of 16-bit factors, and of i8, on matrix units, in the frame of product_text.cpp.
// Measurements on an H200 favoured one padded buffer of slices in shared memory and loads of 16
// bytes. The next slice's fragments are read before this slice's products. The last products of a
// slice surround the two barriers between which the next slice is stored. The loads of the slice
// after next come between these barriers or after both, as a tile's registers allow. Sums go to
// memory through shared memory, strip by strip, so the row and column of each sum are known. Edges,
// bias and epilogues therefore work as in the other kernels. Each warp has a strip of its own, and
// waits for no other.
//
// Without the hardware the same text runs with fragments in the registers of 32 consecutive
// threads, which multiply through shared memory. That is slow, but every index is the hardware's.
#include <fmt/format.h>

#include "matrix_units_text.hpp"
#include "product.hpp"

namespace hearth::gpu::products {
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
#define A_LINE (TILE_DEPTH / WORD)
#else
#define A_LINES TILE_DEPTH
#define A_LINE (TILE_ROWS / WORD)
#endif
#if B_ALONG_DEPTH
#define B_LINES TILE_COLUMNS
#define B_LINE (TILE_DEPTH / WORD)
#else
#define B_LINES TILE_DEPTH
#define B_LINE (TILE_COLUMNS / WORD)
#endif
#define A_PITCH (A_LINE + 1)
#define B_PITCH (B_LINE + 1)
#define B_FIRST (A_LINES * A_PITCH)
#define SLICE_WORDS (B_FIRST + B_LINES * B_PITCH)
#define STRIP_PITCH (WARP_COLUMNS / 4 + 1)
#define STRIP_WORDS (WARPS * 16 * STRIP_PITCH)
SHARED(uvec4, slices, SLICE_WORDS > STRIP_WORDS ? SLICE_WORDS : STRIP_WORDS);
// Threads lie over lines and, A_ACROSS or B_ACROSS of them, along a line: each loads the words
// (line i, word j) that are so many lines or words apart, so that one place and constants say where.
// Four threads a line: eight of them, which store at once, take lines that are four apart, for two
// in a row would share banks.
#define TURNED(line) ((line) / 8 * 8 + (line) % 8 / 2 + (line) % 2 * 4)
#define A_APART (THREADS / A_ACROSS)
#define B_APART (THREADS / B_ACROSS)
#define A_DOWN ((A_LINES + A_APART - 1) / A_APART)
#define B_DOWN ((B_LINES + B_APART - 1) / B_APART)
#define A_WORDS (A_LINE / A_ACROSS)
#define B_WORDS (B_LINE / B_ACROSS)
#define A_GOES(i) (((i) + 1) * A_APART <= A_LINES || a_line + (i) * A_APART < A_LINES)
#define B_GOES(i) (((i) + 1) * B_APART <= B_LINES || b_line + (i) * B_APART < B_LINES)
)";

constexpr std::string_view kCooperativeReals = R"(
FN vec4 as_sums(uvec4 bits) { return uintBitsToFloat(bits); }
)";
constexpr std::string_view kCooperativeIntegers = R"(
FN ivec4 as_sums(uvec4 bits) { return ivec4(bits); }
)";

constexpr std::string_view kHardware = R"(
#define MEMORY slices
#define WARP_BARRIER warp_barrier()
)";

// Emulation: the lanes, the fragments and loads of one type of factors, then what both types share.
// A thread has the elements lane, lane + 32, ... of a fragment. These are 16 x FRAGMENT_DEPTH or
// FRAGMENT_DEPTH x 16 factors, or 16 x 16 sums.
constexpr std::string_view kEmulatedLanes = R"(
#define LANE (int(THREAD) % 32)
SHARED(C, factors, WARPS * 32 * FRAGMENT_DEPTH);
)";

// 16 x 16 by 16 x 16.
constexpr std::string_view kEmulatedReals = R"(
struct Fragment { float v[8]; };
#define FRAGMENT_A Fragment
#define FRAGMENT_B Fragment
#define FRAGMENT_SUM Fragment
#define SUM_WORD(sum) floatBitsToUint(sum)
FN void load_fragment(OUT(Fragment) to, int at, int pitch, bool by_columns) {
  ROLLED for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    const int line = by_columns ? e % 16 : e / 16;
    const int place = by_columns ? e / 16 : e % 16;
    const uint pair = slices[at + line * pitch + place / 8][place % 8 / 2];
    to.v[j] = FACTOR(place % 2 == 0 ? pair & 0xffffu : pair >> 16);
  }
}
)";

// 16 x 32 by 32 x 16.
constexpr std::string_view kEmulatedIntegers = R"(
struct FragmentA { int v[16]; };
struct FragmentB { int v[16]; };
struct FragmentSum { int v[8]; };
#define FRAGMENT_A FragmentA
#define FRAGMENT_B FragmentB
#define FRAGMENT_SUM FragmentSum
#define SUM_WORD(sum) uint(sum)
FN int factor_at(int line_at, int place) {
  return int(slices[line_at + place / 16][place % 16 / 4] << (24 - place % 4 * 8)) >> 24;
}
FN void load_fragment(OUT(FragmentA) to, int at, int pitch, bool by_columns) {
  ROLLED for (int j = 0; j < 16; ++j) {
    const int e = LANE + 32 * j;
    const int row = e / 32;
    const int k = e % 32;
    to.v[j] = by_columns ? factor_at(at + k * pitch, row) : factor_at(at + row * pitch, k);
  }
}
FN void load_fragment(OUT(FragmentB) to, int at, int pitch, bool by_columns) {
  ROLLED for (int j = 0; j < 16; ++j) {
    const int e = LANE + 32 * j;
    const int k = e / 16;
    const int column = e % 16;
    to.v[j] = by_columns ? factor_at(at + column * pitch, k) : factor_at(at + k * pitch, column);
  }
}
)";

constexpr std::string_view kEmulation = R"(
#define NO_SUM NEW_LIST8(FRAGMENT_SUM, C, 0, 0, 0, 0, 0, 0, 0, 0)
FN void store_fragment(FRAGMENT_SUM from, int at, int pitch) {
  ROLLED for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    slices[at + e / 16 * pitch + e % 16 / 4][e % 4] = SUM_WORD(from.v[j]);
  }
}
FN void multiply(FRAGMENT_A a, FRAGMENT_B b, IN_OUT(FRAGMENT_SUM) sum) {
  const int mine = int(THREAD) / 32 * (32 * FRAGMENT_DEPTH);
  barrier();
  ROLLED for (int j = 0; j < FRAGMENT_DEPTH / 2; ++j) {
    factors[mine + LANE + 32 * j] = a.v[j];
    factors[mine + 16 * FRAGMENT_DEPTH + LANE + 32 * j] = b.v[j];
  }
  barrier();
  ROLLED for (int j = 0; j < 8; ++j) {
    const int e = LANE + 32 * j;
    ROLLED for (int k = 0; k < FRAGMENT_DEPTH; ++k) {
      sum.v[j] += factors[mine + e / 16 * FRAGMENT_DEPTH + k] *
                  factors[mine + 16 * FRAGMENT_DEPTH + k * 16 + e % 16];
    }
#if SUM_BITS == 16
    sum.v[j] = f16_to_f32(f32_to_f16(sum.v[j]));
#endif
  }
}
#define LOAD_FRAGMENT(to, at, pitch, by_columns) load_fragment(to, at, pitch, by_columns)
#define STORE_FRAGMENT(from, at, pitch) store_fragment(from, at, pitch)
#define MULTIPLY(a, b, sum) multiply(a, b, sum)
#define WARP_BARRIER barrier()
)";

// Stores a strip of 16 rows. Words of memory begin at different columns in each row. The whole
// words are stored first, then the columns before the first and behind the last. These are 4 in all
// if the strip's own columns are a multiple of 4, else up to 6.
constexpr std::string_view kStores = R"(
#if HAS_EPILOGUE
#define UNROLL_STORES ROLLED
#else
#define UNROLL_STORES MAYBE_UNROLLED
#endif
#if PUTS_RAGGED
FN C strip_sum(int strip, int down, int across) {
  return as_sums(slices[strip + down * STRIP_PITCH + across / 4])[across % 4];
}
// Four sums that begin anywhere in a row of the strip, out of the two words that hold them.
FN V4 strip_sums(int strip, int down, int across) {
  const int at = strip + down * STRIP_PITCH + across / 4;
  const V4 low = as_sums(slices[at]);
  const V4 high = as_sums(slices[at + 1]);
  const bool has_two = (across & 2) != 0;
  const V4 near = has_two ? V4(ZW(low), XY(high)) : low;
  const C next = has_two ? high.z : high.x;
  return (across & 1) != 0 ? V4(YZW(near), next) : near;
}
FN void put_ragged(int strip_row, int strip_column, int strip) {
  const int low = max(0, OWN_COLUMN - strip_column);
  const int high = min(WARP_COLUMNS, p.columns - strip_column);
  const int own = max(0, high - low);
  UNROLL_STORES
  for (int e = int(THREAD) % 32; e < 16 * WARP_COLUMNS / PUT_WIDTH; e += 32) {
    const int down = e / (WARP_COLUMNS / PUT_WIDTH);
    const int row = strip_row + down;
    const int before = -int(kept_place(row, strip_column + low)) & (PUT_WIDTH - 1);
    const int across = low + before + e % (WARP_COLUMNS / PUT_WIDTH) * PUT_WIDTH;
    if (IS_OWN_ROW(row) && across + PUT_WIDTH <= high) {
      const V4 four = strip_sums(strip, down, across);
      keep_many(row, strip_column + across, ARRAY4(C)(four.x, four.y, four.z, four.w));
    }
  }
  const int most = own % PUT_WIDTH == 0 ? PUT_WIDTH : 2 * PUT_WIDTH;
  ROLLED for (int e = int(THREAD) % 32; e < 16 * most; e += 32) {
    const int down = e % 16;
    const int number = e / 16;
    const int row = strip_row + down;
    const int before =
        min(own, -int(kept_place(row, strip_column + low)) & (PUT_WIDTH - 1));
    const int ends = before + (own - before) % PUT_WIDTH;
    if (IS_OWN_ROW(row) && number < ends) {
      const int across = number < before ? low + number : high - (ends - number);
      keep(row, strip_column + across, strip_sum(strip, down, across));
    }
  }
}
#endif
)";

constexpr std::string_view kCooperativeMain = R"(
int a_line, a_word, b_line, b_word;
uvec4 a_next[A_DOWN * A_WORDS];
uvec4 b_next[B_DOWN * B_WORDS];
FRAGMENT_SUM sums[FRAGMENTS_A][FRAGMENTS_B];
FRAGMENT_A a_now[2][FRAGMENTS_A];
FRAGMENT_B b_now[2][FRAGMENTS_B];

// Where word j of line i begins, along the side and along the depth.
#if A_ALONG_DEPTH
#define A_SIDE(i, j) (a_line + (i) * A_APART)
#define A_DEPTH(i, j) ((a_word + (j) * A_ACROSS) * WORD)
#define A_SIDES A_DOWN
#define A_NUMBER(i, j) (i)
#define A_LINE_BYTES A_SIDE_BYTES
#else
#define A_SIDE(i, j) ((a_word + (j) * A_ACROSS) * WORD)
#define A_DEPTH(i, j) (a_line + (i) * A_APART)
#define A_SIDES A_WORDS
#define A_NUMBER(i, j) (j)
#define A_LINE_BYTES A_DEPTH_BYTES
#endif
#if B_ALONG_DEPTH
#define B_SIDE(i, j) (b_line + (i) * B_APART)
#define B_DEPTH(i, j) ((b_word + (j) * B_ACROSS) * WORD)
#define B_SIDES B_DOWN
#define B_NUMBER(i, j) (i)
#define B_LINE_BYTES B_SIDE_BYTES
#else
#define B_SIDE(i, j) ((b_word + (j) * B_ACROSS) * WORD)
#define B_DEPTH(i, j) (b_line + (i) * B_APART)
#define B_SIDES B_WORDS
#define B_NUMBER(i, j) (j)
#define B_LINE_BYTES B_DEPTH_BYTES
#endif

#if EXACT
uint a_first_bytes, b_first_bytes;
// What lies behind the last slice is never used: the last one is fetched in its place.
#define BEGIN_FETCH(k) \
  const uint slice = uint(min(k, end - TILE_DEPTH)); \
  const uint64_t a_at_slice = a_base + uint64_t(a_first_bytes + slice * uint(A_DEPTH_BYTES)); \
  const uint64_t b_at_slice = b_base + uint64_t(b_first_bytes + slice * uint(B_DEPTH_BYTES));
#define A_FETCHED(i, j, k) \
  a_from(a_at_slice + uint64_t((i) * A_APART) * uint64_t(A_LINE_BYTES) + uint64_t((j) * A_ACROSS * 16))
#define B_FETCHED(i, j, k) \
  b_from(b_at_slice + uint64_t((i) * B_APART) * uint64_t(B_LINE_BYTES) + uint64_t((j) * B_ACROSS * 16))
#else
ASide a_sides[A_SIDES];
BSide b_sides[B_SIDES];
#define BEGIN_FETCH(k)
#define A_FETCHED(i, j, k) a_at(a_sides[A_NUMBER(i, j)], (k) + A_DEPTH(i, j))
#define B_FETCHED(i, j, k) b_at(b_sides[B_NUMBER(i, j)], (k) + B_DEPTH(i, j))
#endif

#define FETCH(k) { \
  BEGIN_FETCH(k) \
  UNROLLED for (int i = 0; i < A_DOWN; ++i) { \
    if (A_GOES(i)) { \
      UNROLLED for (int j = 0; j < A_WORDS; ++j) { \
        a_next[i * A_WORDS + j] = A_FETCHED(i, j, k); \
      } \
    } \
  } \
  UNROLLED for (int i = 0; i < B_DOWN; ++i) { \
    if (B_GOES(i)) { \
      UNROLLED for (int j = 0; j < B_WORDS; ++j) { \
        b_next[i * B_WORDS + j] = B_FETCHED(i, j, k); \
      } \
    } \
  } \
}
#define LAY { \
  const int a_to = a_line * A_PITCH + a_word; \
  const int b_to = B_FIRST + b_line * B_PITCH + b_word; \
  UNROLLED for (int i = 0; i < A_DOWN; ++i) { \
    if (A_GOES(i)) { \
      UNROLLED for (int j = 0; j < A_WORDS; ++j) { \
        slices[a_to + i * A_APART * A_PITCH + j * A_ACROSS] = a_next[i * A_WORDS + j]; \
      } \
    } \
  } \
  UNROLLED for (int i = 0; i < B_DOWN; ++i) { \
    if (B_GOES(i)) { \
      UNROLLED for (int j = 0; j < B_WORDS; ++j) { \
        slices[b_to + i * B_APART * B_PITCH + j * B_ACROSS] = b_next[i * B_WORDS + j]; \
      } \
    } \
  } \
}
#if A_ALONG_DEPTH
#define A_AT(row, k) (row) * A_PITCH + (k) * 2
#else
#define A_AT(row, k) (k) * FRAGMENT_DEPTH * A_PITCH + (row) / WORD
#endif
#if B_ALONG_DEPTH
#define B_AT(column, k) B_FIRST + (column) * B_PITCH + (k) * 2
#else
#define B_AT(column, k) B_FIRST + (k) * FRAGMENT_DEPTH * B_PITCH + (column) / WORD
#endif
#define READ(set, k) { \
  UNROLLED for (int i = 0; i < FRAGMENTS_A; ++i) { \
    LOAD_FRAGMENT(a_now[set][i], A_AT(warp_row + i * 16, k), A_PITCH, A_ALONG_DEPTH == 0); \
  } \
  UNROLLED for (int j = 0; j < FRAGMENTS_B; ++j) { \
    LOAD_FRAGMENT(b_now[set][j], B_AT(warp_column + j * 16, k), B_PITCH, B_ALONG_DEPTH == 1); \
  } \
}
#define ADD(set, from, to) { \
  UNROLLED for (int j = from; j < to; ++j) { \
    UNROLLED for (int i = 0; i < FRAGMENTS_A; ++i) { \
      MULTIPLY(a_now[set][i], b_now[set][j], sums[i][j]); \
    } \
  } \
}

FN void main() {
  if (!find_work()) {
    return;
  }
  const int warp = int(THREAD) / 32;
  const int warp_row = warp % WARPS_DOWN * WARP_ROWS;
  const int warp_column = warp / WARPS_DOWN * WARP_COLUMNS;
  find_tile();
  a_line = A_ACROSS == 4 ? TURNED(int(THREAD) / A_ACROSS) : int(THREAD) / A_ACROSS;
  a_word = int(THREAD) % A_ACROSS;
  b_line = B_ACROSS == 4 ? TURNED(int(THREAD) / B_ACROSS) : int(THREAD) / B_ACROSS;
  b_word = int(THREAD) % B_ACROSS;
#if EXACT
  a_first_bytes = uint(first_row + A_SIDE(0, 0)) * uint(A_SIDE_BYTES) +
                  uint(A_DEPTH(0, 0)) * uint(A_DEPTH_BYTES);
  b_first_bytes = uint(first_column + B_SIDE(0, 0)) * uint(B_SIDE_BYTES) +
                  uint(B_DEPTH(0, 0)) * uint(B_DEPTH_BYTES);
#else
  UNROLLED for (int i = 0; i < A_SIDES; ++i) {
    a_sides[i] = a_side(first_row + A_SIDE(i, i));
  }
  UNROLLED for (int i = 0; i < B_SIDES; ++i) {
    b_sides[i] = b_side(first_column + B_SIDE(i, i));
  }
#endif
  UNROLLED for (int i = 0; i < FRAGMENTS_A; ++i) {
    UNROLLED for (int j = 0; j < FRAGMENTS_B; ++j) {
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
  ROLLED for (int k = begin; k < end; k += TILE_DEPTH) {
#if TILE_DEPTH == 4 * FRAGMENT_DEPTH
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
#if !FETCHES_LATE
    FETCH(k + 2 * TILE_DEPTH)
#endif
    ADD(1, 0, FRAGMENTS_B / 2)
    barrier();
#if FETCHES_LATE
    FETCH(k + 2 * TILE_DEPTH)
#endif
    READ(0, 0)
    ADD(1, FRAGMENTS_B / 2, FRAGMENTS_B)
  }
  const int strip = warp * 16 * STRIP_PITCH;
  barrier();
  UNROLLED for (int i = 0; i < FRAGMENTS_A; ++i) {
    WARP_BARRIER;
    UNROLLED for (int j = 0; j < FRAGMENTS_B; ++j) {
      STORE_FRAGMENT(sums[i][j], strip + j * 4, STRIP_PITCH);
    }
    WARP_BARRIER;
#if PUTS_RAGGED
    put_ragged(first_row + warp_row + i * 16, first_column + warp_column, strip);
#else
    UNROLL_STORES
    for (int e = int(THREAD) % 32; e < 16 * WARP_COLUMNS / PUT_WIDTH; e += 32) {
      const int down = e / (WARP_COLUMNS / PUT_WIDTH);
      const int across = e % (WARP_COLUMNS / PUT_WIDTH) * PUT_WIDTH;
      const int row = first_row + warp_row + i * 16 + down;
      const int column = first_column + warp_column + across;
      if (IS_OWN(row, column)) {
        const int at = strip + down * STRIP_PITCH + across / 4;
#if PUT_WIDTH > 1
        C many[PUT_WIDTH];
        UNROLLED for (int word = 0; word < PUT_WIDTH / 4; ++word) {
          const V4 four = as_sums(slices[at + word]);
          UNROLLED for (int k = 0; k < 4; ++k) {
            many[word * 4 + k] = four[k];
          }
        }
        keep_many(row, column, many);
#else
        keep(row, column, as_sums(slices[at])[across % 4]);
#endif
      }
    }
#endif
  }
}
)";

// Threads along a line: the largest power of two, up to 32, that divides its words.
int threads_across(int words) noexcept {
  const int power = words & -words;
  return power < 32 ? power : 32;
}

}  // namespace

std::string_view cooperative_extensions(DType dtype, bool is_emulated) noexcept {
  if (is_emulated) {
    return "";
  }
  return dtype == DType::i8 ? "#extension GL_KHR_memory_scope_semantics : require\n"
                              "#extension GL_NV_cooperative_matrix : require\n"
                              "#extension GL_NV_integer_cooperative_matrix : require\n"
                              "#pragma use_vulkan_memory_model\n"
                            : "#extension GL_KHR_memory_scope_semantics : require\n"
                              "#extension GL_NV_cooperative_matrix : require\n"
                              "#pragma use_vulkan_memory_model\n";
}

std::string cooperative_sizes(const ProductRequest& request, const CooperativeTile& tile) {
  const int word = unit_word(request.dtype);
  const int a_words = (request.a.along_depth ? tile.depth : tile.rows) / word;
  const int b_words = (request.b.along_depth ? tile.depth : tile.columns) / word;
  // The compiler's caller searches for the name of the last macro, see cooperative_matrix.hpp.
  return fmt::format(
      "#define TILE_ROWS {}\n#define TILE_COLUMNS {}\n#define TILE_DEPTH {}\n"
      "#define WARP_ROWS {}\n#define WARP_COLUMNS {}\n#define A_ACROSS {}\n#define B_ACROSS {}\n"
      "#define FETCHES_LATE {}\n#define WORD {}\n#define FRAGMENT_DEPTH {}\n#define SUM_BITS {}\n"
      "#define PUTS_RAGGED {}\n#define FACTOR(bits) {}(bits)\n{}",
      tile.rows,
      tile.columns,
      tile.depth,
      tile.warp_rows,
      tile.warp_columns,
      threads_across(a_words),
      threads_across(b_words),
      tile.fetches_late ? 1 : 0,
      word,
      2 * word,
      tile.sums_f16 ? 16 : 32,
      request.puts_ragged ? 1 : 0,
      request.dtype == DType::bf16 ? "bf16_to_f32" : "f16_to_f32",
      request.dtype == DType::bf16 ? "#define COOPERATIVE_BF16\n" : "");
}

std::string cooperative_main(DType dtype, bool is_emulated) {
  const bool is_integer = dtype == DType::i8;
  const std::string_view sums = is_integer ? kCooperativeIntegers : kCooperativeReals;
  if (is_emulated) {
    return fmt::format("{}{}{}{}{}{}{}",
                       kHead,
                       sums,
                       kEmulatedLanes,
                       is_integer ? kEmulatedIntegers : kEmulatedReals,
                       kEmulation,
                       kStores,
                       kCooperativeMain);
  }
  return fmt::format("{}{}{}{}{}{}",
                     kHead,
                     sums,
                     kHardware,
                     is_integer ? kIntegerMatrixUnits : kMatrixUnits,
                     kStores,
                     kCooperativeMain);
}

}  // namespace hearth::gpu::products
