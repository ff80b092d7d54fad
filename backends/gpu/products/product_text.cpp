// The GLSL of tile and fold products. All threads load the next slices of both sides to registers
// while they multiply the current ones from shared memory. The slices lie there depth by depth, so
// a thread reads its rows and columns four at a time. A thread's block is scattered over the tile
// in chunks of 4 x 4, and 32 consecutive threads cover 4 x 8 chunks. One read of theirs is thus 64
// and 128 bytes, without bank conflicts. Threads 2i and 2i + 1 share a column, i and i + 2 mostly a
// row, so NVIDIA's GPUs serve 16 at once.
#include <string>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "product.hpp"

namespace hearth::gpu::products {
namespace {

constexpr std::string_view kWork = R"(
int tile_down, tile_across, matrix_number, part_number;
FN bool find_work() {
  uint id = GROUP;
  if (id >= uint(p.groups)) {
    return false;
  }
  const uint tiles = uint(p.tiles_down) * uint(p.tiles_across);
  const uint tile = id % tiles;
  id /= tiles;
  part_number = int(id % uint(p.splits));
  matrix_number = int(id / uint(p.splits));
  // Eight rows of tiles at a time, column by column: neighbours in time share what they read.
  const uint band = 8u * uint(p.tiles_across);
  const uint first = tile / band * 8u;
  const uint inside = tile % band;
  const uint height = min(8u, uint(p.tiles_down) - first);
  tile_down = int(first + inside % height);
  tile_across = int(inside / height);
  set_matrix(matrix_number);
  return true;
}
)";

constexpr std::string_view kPutParts = R"(
WRITE_BUFFER(Parts, C, 4);
FN int kept_place(int row, int column) {
  const int matrices = p.groups / (p.tiles_down * p.tiles_across * p.splits);
  const int plane = part_number * matrices + matrix_number;
  return (plane * p.rows + row) * p.columns + column;
}
FN void keep(int row, int column, C sum) { Parts(p.partial).v[kept_place(row, column)] = sum; }
#if PUT_WIDTH > 1
WRITE_BUFFER_ONE(Parts4, V4, 16);
FN void keep_many(int row, int column, C sums[PUT_WIDTH]) {
  const int at = kept_place(row, column);
  UNROLLED for (int i = 0; i < PUT_WIDTH; i += 4) {
    Parts4(p.partial + uint64_t(at + i) * C_BYTES).v =
        V4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
  }
}
#endif
)";
constexpr std::string_view kPutWhole = R"(
#define keep put
#define keep_many put_many
#define kept_place place_of
)";
// An exact product's last tiles are moved back; rows and columns that they share with other tiles
// are stored by those.
constexpr std::string_view kTilePlace = R"(
int own_row, own_column, first_row, first_column;
FN void find_tile() {
  own_row = tile_down * TILE_ROWS;
  own_column = tile_across * TILE_COLUMNS;
#if EXACT
  own_row += p.first_row;
  first_row = min(own_row, p.read_rows - TILE_ROWS);
  first_column = min(own_column, p.read_columns - TILE_COLUMNS);
#else
  first_row = own_row;
  first_column = own_column;
#endif
}
#if EXACT
#define OWN_COLUMN own_column
#define IS_OWN_ROW(row) ((row) >= own_row && (READS_ROWS_ALONE || (row) < p.end_row))
#define IS_OWN_COLUMN(column) \
  ((column) >= own_column && (READS_COLUMNS_ALONE || (column) < p.columns))
#else
#define OWN_COLUMN 0
#define IS_OWN_ROW(row) ((row) < p.rows)
#define IS_OWN_COLUMN(column) ((column) < p.columns)
#endif
#define IS_OWN(row, column) (IS_OWN_ROW(row) && IS_OWN_COLUMN(column))
)";

constexpr std::string_view kTileHead = R"(
#define TX (TILE_COLUMNS / THREAD_COLUMNS)
#define TY (TILE_ROWS / THREAD_ROWS)
#define THREADS (TX * TY)
#define A_PITCH (TILE_ROWS / 4 + 1)
#define B_PITCH (TILE_COLUMNS / 4 + 1)
#define A_BUFFER (TILE_DEPTH * A_PITCH)
#define B_BUFFER (TILE_DEPTH * B_PITCH)
#define A_CHUNKS (TILE_ROWS * TILE_DEPTH / A_WIDTH)
#define B_CHUNKS (TILE_COLUMNS * TILE_DEPTH / B_WIDTH)
#define A_LOADS ((A_CHUNKS + THREADS - 1) / THREADS)
#define B_LOADS ((B_CHUNKS + THREADS - 1) / THREADS)
SHARED(V4, a_tile, BUFFERS * A_BUFFER);
SHARED(V4, b_tile, BUFFERS * B_BUFFER);

// Chunk `e` of a slice: its place along the side, and along the depth.
#if A_ALONG_DEPTH
#define A_SIDE(e) ((e) / (TILE_DEPTH / A_WIDTH))
#define A_DEPTH(e) ((e) % (TILE_DEPTH / A_WIDTH) * A_WIDTH)
#define A_SIDES A_LOADS
#else
#define A_SIDE(e) ((e) % (TILE_ROWS / A_WIDTH) * A_WIDTH)
#define A_DEPTH(e) ((e) / (TILE_ROWS / A_WIDTH))
#define A_SIDES (THREADS % (TILE_ROWS / A_WIDTH) == 0 ? 1 : A_LOADS)
#endif
#if B_ALONG_DEPTH
#define B_SIDE(e) ((e) / (TILE_DEPTH / B_WIDTH))
#define B_DEPTH(e) ((e) % (TILE_DEPTH / B_WIDTH) * B_WIDTH)
#define B_SIDES B_LOADS
#else
#define B_SIDE(e) ((e) % (TILE_COLUMNS / B_WIDTH) * B_WIDTH)
#define B_DEPTH(e) ((e) / (TILE_COLUMNS / B_WIDTH))
#define B_SIDES (THREADS % (TILE_COLUMNS / B_WIDTH) == 0 ? 1 : B_LOADS)
#endif
#define A_GOES(i) (A_CHUNKS % THREADS == 0 || int(THREAD) + (i) * THREADS < A_CHUNKS)
#define B_GOES(i) (B_CHUNKS % THREADS == 0 || int(THREAD) + (i) * THREADS < B_CHUNKS)

#if EXACT
#define A_FETCHED(i, k) \
  a_from(a_base + uint64_t(a_sides[A_SIDES == 1 ? 0 : i] + uint(k) * uint(A_DEPTH_BYTES)))
#define B_FETCHED(i, k) \
  b_from(b_base + uint64_t(b_sides[B_SIDES == 1 ? 0 : i] + uint(k) * uint(B_DEPTH_BYTES)))
#define A_SIDE_AT(row) uint(row) * uint(A_SIDE_BYTES)
#define B_SIDE_AT(column) uint(column) * uint(B_SIDE_BYTES)
uint a_sides[A_SIDES];
uint b_sides[B_SIDES];
#else
#define A_FETCHED(i, k) a_at(a_sides[A_SIDES == 1 ? 0 : i], k)
#if HAS_SLICES
#define B_FETCHED(i, k) b_in(b_slices[B_SIDES == 1 ? 0 : i], k)
#else
#define B_FETCHED(i, k) b_at(b_sides[B_SIDES == 1 ? 0 : i], k)
#endif
#define A_SIDE_AT(row) a_side(row)
#define B_SIDE_AT(column) b_side(column)
ASide a_sides[A_SIDES];
BSide b_sides[B_SIDES];
#endif
AVALUE a_next[A_LOADS];
BVALUE b_next[B_LOADS];
V4 sums[THREAD_ROWS][THREAD_COLUMNS / 4];

FN void fetch(int k) {
  const int t = int(THREAD);
#if HAS_SLICES
  begin_slice(k);
  BSlice b_slices[B_SIDES];
  MAYBE_UNROLLED for (int i = 0; i < B_SIDES; ++i) {
    b_slices[i] = b_slice(b_sides[i]);
  }
#endif
  MAYBE_UNROLLED for (int i = 0; i < A_LOADS; ++i) {
    if (A_GOES(i)) {
      a_next[i] = A_FETCHED(i, k + A_DEPTH(t + i * THREADS));
    }
  }
  MAYBE_UNROLLED for (int i = 0; i < B_LOADS; ++i) {
    if (B_GOES(i)) {
      b_next[i] = B_FETCHED(i, k + B_DEPTH(t + i * THREADS));
    }
  }
}

#if A_WIDTH == 4
#define PART_A(i, j) a_next[i][j]
#else
#define PART_A(i, j) a_next[i]
#endif
#if B_WIDTH == 4
#define PART_B(i, j) b_next[i][j]
#else
#define PART_B(i, j) b_next[i]
#endif

FN void lay(int buffer_number) {
  const int t = int(THREAD);
  MAYBE_UNROLLED for (int i = 0; i < A_LOADS; ++i) {
    if (A_GOES(i)) {
      const int side = A_SIDE(t + i * THREADS);
      const int at = buffer_number * A_BUFFER + A_DEPTH(t + i * THREADS) * A_PITCH + side / 4;
#if A_WIDTH == 4 && !A_ALONG_DEPTH
      a_tile[at] = a_next[i];
#else
      UNROLLED for (int j = 0; j < A_WIDTH; ++j) {
        a_tile[at + j * A_PITCH][side % 4] = PART_A(i, j);
      }
#endif
    }
  }
  MAYBE_UNROLLED for (int i = 0; i < B_LOADS; ++i) {
    if (B_GOES(i)) {
      const int side = B_SIDE(t + i * THREADS);
      const int at = buffer_number * B_BUFFER + B_DEPTH(t + i * THREADS) * B_PITCH + side / 4;
#if B_WIDTH == 4 && !B_ALONG_DEPTH
      b_tile[at] = b_next[i];
#else
      UNROLLED for (int j = 0; j < B_WIDTH; ++j) {
        b_tile[at + j * B_PITCH][side % 4] = PART_B(i, j);
      }
#endif
    }
  }
}
)";

constexpr std::string_view kTileMain = R"(
FN void multiply(int buffer_number, int tx, int ty) {
  MAYBE_UNROLLED for (int k = 0; k < TILE_DEPTH; ++k) {
    V4 a[THREAD_ROWS / 4];
    V4 b[THREAD_COLUMNS / 4];
    UNROLLED for (int i = 0; i < THREAD_ROWS / 4; ++i) {
      a[i] = a_tile[buffer_number * A_BUFFER + k * A_PITCH + ty + i * TY];
    }
    UNROLLED for (int j = 0; j < THREAD_COLUMNS / 4; ++j) {
      b[j] = b_tile[buffer_number * B_BUFFER + k * B_PITCH + tx + j * TX];
    }
    UNROLLED for (int i = 0; i < THREAD_ROWS; ++i) {
      UNROLLED for (int j = 0; j < THREAD_COLUMNS / 4; ++j) {
        sums[i][j] = FMA(V4(a[i / 4][i % 4]), b[j], sums[i][j]);
      }
    }
  }
}

#if IS_DIRECT
FN void finish(int tx, int ty) {
  UNROLLED for (int i = 0; i < THREAD_ROWS; ++i) {
    const int row = first_row + (i / 4 * TY + ty) * 4 + i % 4;
    UNROLLED for (int j = 0; j < THREAD_COLUMNS / 4; ++j) {
      const int column = first_column + (j * TX + tx) * 4;
      if (IS_OWN(row, column)) {
        const V4 four = sums[i][j];
        keep_many(row, column, ARRAY4(C)(four.x, four.y, four.z, four.w));
      }
    }
  }
}
#else
// By way of shared memory, so that the code of a store is there once for each row of a thread, and
// neighbouring threads store neighbours.
FN void finish(int tx, int ty) {
  MAYBE_UNROLLED for (int i = 0; i < THREAD_ROWS; ++i) {
    barrier();
    UNROLLED for (int j = 0; j < THREAD_COLUMNS / 4; ++j) {
      stage[ty * (TILE_COLUMNS / 4) + tx + j * TX] = sums[i][j];
    }
    barrier();
    ROLLED for (int e = int(THREAD) * PUT_WIDTH; e < TY * TILE_COLUMNS;
                         e += THREADS * PUT_WIDTH) {
      const int row = first_row + (i / 4 * TY + e / TILE_COLUMNS) * 4 + i % 4;
      const int column = first_column + e % TILE_COLUMNS;
      if (IS_OWN(row, column)) {
#if PUT_WIDTH == 4
        const V4 four = stage[e / 4];
        keep_many(row, column, ARRAY4(C)(four.x, four.y, four.z, four.w));
#else
        keep(row, column, stage[e / 4][e % 4]);
#endif
      }
    }
  }
}
#endif

FN void main() {
  if (!find_work()) {
    return;
  }
  const int t = int(THREAD);
#if TX % 8 == 0 && TY % 4 == 0
  const int tx = t / 2 % 8 + t / 32 % (TX / 8) * 8;
  const int ty = t % 2 + t / 16 % 2 * 2 + t / 32 / (TX / 8) * 4;
#else
  const int tx = t % TX;
  const int ty = t / TX;
#endif
  find_tile();
  MAYBE_UNROLLED for (int i = 0; i < A_SIDES; ++i) {
    a_sides[i] = A_SIDE_AT(first_row + A_SIDE(t + i * THREADS));
  }
  MAYBE_UNROLLED for (int i = 0; i < B_SIDES; ++i) {
    b_sides[i] = B_SIDE_AT(first_column + B_SIDE(t + i * THREADS));
  }
  UNROLLED for (int i = 0; i < THREAD_ROWS; ++i) {
    UNROLLED for (int j = 0; j < THREAD_COLUMNS / 4; ++j) {
      sums[i][j] = V4(0);
    }
  }
  const int begin = part_number * p.split_depth;
  const int end = min(p.depth, begin + p.split_depth);
  int buffer_number = 0;
  if (begin < end) {
    fetch(begin);
    lay(0);
  }
  barrier();
  ROLLED for (int k = begin; k < end; k += TILE_DEPTH) {
    const bool goes_on = k + TILE_DEPTH < end;
    if (goes_on) {
      fetch(k + TILE_DEPTH);
    }
    multiply(buffer_number, tx, ty);
#if BUFFERS == 2
    buffer_number ^= 1;
#else
    barrier();
#endif
    if (goes_on) {
      lay(buffer_number);
    }
    barrier();
  }
  finish(tx, ty);
}
)";

constexpr std::string_view kFoldMain = R"(
READ_BUFFER(Parts, C, 4);
FN void main() {
  const int matrices = p.groups / (p.tiles_down * p.tiles_across * p.splits);
  const int plane = p.rows * p.columns;
  const int at = int(GROUP * GROUP_SIZE + THREAD) * FOLD_WIDTH;
  if (at >= matrices * plane) {
    return;
  }
  C sums[FOLD_WIDTH], lost[FOLD_WIDTH];
  UNROLLED for (int i = 0; i < FOLD_WIDTH; ++i) sums[i] = lost[i] = C(0);
  for (int part = 0; part < p.splits; ++part) {
    UNROLLED for (int i = 0; i < FOLD_WIDTH; ++i)
      ADD(sums[i], lost[i], Parts(p.partial).v[part * matrices * plane + at + i]);
  }
  UNROLLED for (int i = 0; i < FOLD_WIDTH; ++i) sums[i] = TOTAL(sums[i], lost[i]);
  set_matrix(at / plane);
#if FOLD_WIDTH > 1
  put_many(at % plane / p.columns, at % plane % p.columns, sums);
#else
  put(at % plane / p.columns, at % plane % p.columns, sums[0]);
#endif
}
)";

constexpr std::string_view kReals = R"(
#define FMA(a, b, sum) fma(a, b, sum)
#define DOT(a, b) dot(a, b)
)";
constexpr std::string_view kIntegers = R"(
#define FMA(a, b, sum) ((a) * (b) + (sum))
FN int DOT(ivec4 a, ivec4 b) {
  const ivec4 products = a * b;
  return products.x + products.y + products.z + products.w;
}
)";

std::string_view side_value(SideForm form) noexcept {
  if (form.width > 4) {
    return "uvec4";
  }
  return form.width == 4 ? "V4" : "C";
}

// Elements of a side that an exact product reads: whole words, if words lie across the depth.
std::int64_t read_size(SideForm form, std::int64_t size) noexcept {
  return form.along_depth ? size : (size + form.width - 1) / form.width * form.width;
}

// True if no word of an exact product's sides ends behind the elements that the product stores.
std::string read_alone(const ProductRequest& request, const ProductPlan& plan) {
  return fmt::format("#define READS_ROWS_ALONE {}\n#define READS_COLUMNS_ALONE {}\n",
                     read_size(request.a, plan.end_row) == plan.end_row,
                     read_size(request.b, request.columns) == request.columns);
}

// Replaces baked sizes by numbers.
std::string with_sizes(const ProductRequest& request, const ProductPlan& plan, std::string text) {
  if (!request.is_baked) {
    return text;
  }
  const auto put = [&text](std::string_view name, std::int64_t size) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.replace(at, name.size(), std::to_string(size));
    }
  };
  put("p.rows", request.rows);
  put("p.first_row", plan.first_row);
  put("p.end_row", plan.end_row);
  put("p.read_rows", read_size(request.a, plan.end_row));
  put("p.columns", request.columns);
  put("p.read_columns", read_size(request.b, request.columns));
  put("p.depth", request.depth);
  return text;
}

std::string head(const ProductRequest& request,
                 const ProductFunctions& functions,
                 int threads,
                 bool is_rolled,
                 bool is_exact,
                 std::size_t parameter_bytes,
                 std::string_view more,
                 std::string_view extensions = {}) {
  const bool is_double = request.dtype == DType::f64;
  const bool is_integer = request.dtype == DType::i8;
  return fmt::format(
      "{}{}#define C {}\n#define V4 {}\n#define A_WIDTH {}\n#define B_WIDTH {}\n"
      "#define A_ALONG_DEPTH {}\n#define B_ALONG_DEPTH {}\n#define AVALUE {}\n#define BVALUE {}\n"
      "#define EXACT {}\n#define HAS_SLICES {}\n#define MAYBE_UNROLLED {}\n#define C_BYTES "
      "{}ul\n{}{}{}",
      glsl_prelude(
          {.threads = threads, .wide_index = request.is_wide, .more_extensions = extensions}),
      glsl_parameters(fmt::format("{}{}", kProductMembers, functions.members), parameter_bytes),
      is_integer  ? "int"
      : is_double ? "double"
                  : "float",
      is_integer  ? "ivec4"
      : is_double ? "dvec4"
                  : "vec4",
      request.a.width,
      request.b.width,
      request.a.along_depth ? 1 : 0,
      request.b.along_depth ? 1 : 0,
      side_value(request.a),
      side_value(request.b),
      is_exact ? 1 : 0,
      request.has_slices ? 1 : 0,
      is_rolled ? "ROLLED" : "UNROLLED",
      is_double ? 8 : 4,
      is_integer ? kIntegers : kReals,
      more,
      functions.text);
}

}  // namespace

std::string product_text(const ProductRequest& request,
                         const ProductPlan& plan,
                         const ProductFunctions& functions,
                         std::size_t parameter_bytes) {
  const std::string_view keep = plan.splits > 1 ? kPutParts : kPutWhole;
  if (plan.is_thin) {
    const ThinLanes& lanes = plan.lanes;
    const std::string sizes =
        fmt::format("#define ROWS {}\n#define LANE_COLUMNS {}\n#define LANE_DEPTHS {}\n",
                    lanes.rows,
                    lanes.columns,
                    lanes.depth);
    const int threads = lanes.columns * lanes.depth;
    return fmt::format(
        "{}{}{}{}",
        head(request, functions, threads, plan.is_rolled, false, parameter_bytes, sizes),
        kWork,
        keep,
        thin_main());
  }
  if (plan.is_cooperative) {
    const CooperativeTile& tile = plan.cooperative;
    return with_sizes(request,
                      plan,
                      fmt::format("{}{}{}{}{}",
                                  head(request,
                                       functions,
                                       tile.threads(),
                                       plan.is_rolled,
                                       plan.is_exact,
                                       parameter_bytes,
                                       cooperative_sizes(request, tile) + read_alone(request, plan),
                                       cooperative_extensions(request.dtype, tile.is_emulated)),
                                  kWork,
                                  keep,
                                  kTilePlace,
                                  cooperative_main(request.dtype, tile.is_emulated)));
  }
  const ProductTile& tile = plan.tile;
  // The stage of finish() overlays the slices of a side that is large enough.
  const int stage = tile.rows / tile.thread_rows * (tile.columns / 4);
  const bool a_is_enough = tile.buffers * tile.depth * (tile.rows / 4 + 1) >= stage;
  const std::string sizes = fmt::format(
      "#define TILE_ROWS {}\n#define TILE_COLUMNS {}\n#define TILE_DEPTH {}\n"
      "#define THREAD_ROWS {}\n#define THREAD_COLUMNS {}\n#define BUFFERS {}\n#define stage {}\n"
      "#define IS_DIRECT {}\n",
      tile.rows,
      tile.columns,
      tile.depth,
      tile.thread_rows,
      tile.thread_columns,
      tile.buffers,
      a_is_enough ? "a_tile" : "b_tile",
      request.put_width == 4 && (plan.splits > 1 || !request.has_epilogue) ? 1 : 0);
  return with_sizes(request,
                    plan,
                    fmt::format("{}{}{}{}{}{}",
                                head(request,
                                     functions,
                                     tile.threads(),
                                     plan.is_rolled,
                                     plan.is_exact,
                                     parameter_bytes,
                                     sizes + read_alone(request, plan)),
                                kWork,
                                keep,
                                kTilePlace,
                                kTileHead,
                                kTileMain));
}

std::string fold_text(const ProductRequest& request,
                      const ProductFunctions& functions,
                      std::size_t parameter_bytes) {
  const std::string defines =
      fmt::format("#define FOLD_WIDTH {}\n{}",
                  fold_width(request),
                  glsl_adding(request.dtype == DType::i8 ? DType::i32 : request.dtype));
  return head(request, functions, kFoldThreads, true, false, parameter_bytes, defines) +
         std::string(kFoldMain);
}

}  // namespace hearth::gpu::products
