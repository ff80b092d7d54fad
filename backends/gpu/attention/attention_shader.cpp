// Tiles of attention. Scores are products of 16 columns at a time. Both operands lie in shared
// memory with their rows side by side, so a thread reads 4 rows of each at once for 16 products.
// The weights pass through shared memory to the second product, which keeps up to 128 columns of
// the result in registers. Wider results are split among workgroups, each of which computes the
// scores. Loads are of four elements where the layout allows it.
// Tiles have 64 rows (32 of doubles: half the shared memory of lavapipe), or fewer for fewer rows:
// single queries have tiles of 16. Where 16-bit operands lie in groups of eight, tiles of 64 use
// matrix units (attention_units_text.hpp), or units whose fragments lie in registers
// (attention_warps_text.hpp). On CUDA, f32 takes kernels that read several rows a thread
// (attention_floats_text.hpp).
#include "attention_shader.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "attention_floats_text.hpp"
#include "attention_text.hpp"
#include "attention_tiles_text.hpp"
#include "attention_units_text.hpp"
#include "attention_warps_text.hpp"
#include "backends/gpu/products/matrix_units_text.hpp"
#include "backends/gpu/products/product.hpp"
#include "backends/gpu/space/packs.hpp"
#include "backends/gpu/space/quads.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

using Operands = AttentionOperands;

constexpr int kSlice = 16;                   // SLICE of the text
constexpr int kMostColumns = 128;            // of a result in a workgroup's registers
constexpr std::int64_t kNarrowColumns = 64;  // columns that leave room for two results in registers
constexpr int kFlatThreads = 128;            // of kernels without tiles
/// Rows of both sides of a tile on drivers in software, if one side has at most 32 rows. Their
/// compilers take seconds for a shader.
constexpr int kSoftwareTile = 16;
/// Rows that such tiles loop over at most: drivers leave longer loops early (LoopWatch).
constexpr std::int64_t kShortInSoftware = 512;
constexpr std::int64_t kMostKeySplits = 64;
constexpr std::int64_t kLeastChunk = 256;  // keys that are worth a separate part

/// The kernels of this file; the first three are those of AttentionPass.
enum class Kernel : std::uint32_t { forward, query_grads, key_grads, partial, join, means };

struct Tiling {
  int own = 64;    ///< Rows of a tile.
  int other = 64;  ///< Rows of the other side's tiles.
  int blocks = 1;  ///< Blocks of 4 columns of the result, in a thread.
  std::int64_t tiles = 1;
  std::int64_t column_blocks = 1;
  std::int64_t splits = 1;
  std::int64_t chunk = 0;
  bool on_units = false;  ///< Products on matrix units.
  int warps = 0;          ///< Warps of kernels whose rows lie in registers; 0: other kernels.
  int rows = 0;           ///< Rows of a thread in such kernels of f32; 0: matrix units.
  bool by_fours = false;  ///< Loads and stores of four elements.

  [[nodiscard]] int threads() const noexcept {
    return warps > 0 ? 32 * warps : own / 4 * (other / 4);
  }
  [[nodiscard]] int columns() const noexcept { return other * blocks; }
};

int tile_of(std::int64_t rows, int most) noexcept {
  return rows <= 16 ? 16 : std::min(rows <= 32 ? 32 : 64, most);
}

// Shared memory of attention_units_text.hpp, in bytes.
std::int64_t unit_bytes(int blocks) noexcept {
  constexpr std::int64_t kLine = 9 * 16;
  return (blocks > 1 ? 256 : 192) * kLine + 16 * 17 * 16;
}

// True if all loads and stores are aligned packs of `pack` elements.
bool lies_in(std::int64_t pack,
             AttentionPass pass,
             const Operands& operands,
             const AttentionResults& results) noexcept {
  const bool is_forward = pass == AttentionPass::forward;
  if (operands.width % pack != 0 || operands.value_width % pack != 0 || results.first % 16 != 0 ||
      (!is_forward && results.second % 16 != 0)) {
    return false;
  }
  constexpr Operands::Place kLoaded[] = {Operands::q, Operands::k, Operands::v, Operands::grad};
  const std::size_t loaded = is_forward ? 3 : 4;
  return std::all_of(std::begin(kLoaded), std::begin(kLoaded) + loaded, [&](Operands::Place place) {
    const AttentionMatrix& matrix = operands.matrix(place);
    return matrix.address % 16 == 0 && matrix.head % pack == 0 && matrix.row % pack == 0 &&
           matrix.column == 1 && operands.heads.steps_packs(static_cast<int>(place), pack);
  });
}

// Loop steps of the forward pass on a driver in software, for each pair of tiles. They are loads
// and products of slices, the combined maxima, and the second product.
std::int64_t steps_of(const Operands& operands, const Tiling& tiling) noexcept {
  const std::int64_t loads = std::int64_t{4 * kSlice} / tiling.threads() + 1;
  const std::int64_t slice = 1 + loads * (tiling.own + tiling.other) / 4 + kSlice;
  const std::int64_t second =
      1 + std::int64_t{kSlice} * tiling.columns() / tiling.threads() + kSlice;
  return quotient_up(operands.width, kSlice) * slice + quotient_up(tiling.other, kSlice) * second +
         tiling.other;
}

// True if emulated matrix units stay below the step limit. The gradient of keys takes the most
// steps: 1,150 for a product of 64 columns.
bool emulates_in_time(std::int64_t other, const Operands& operands, const Tiling& tiling) noexcept {
  const std::int64_t widths = quotient_up(std::max(operands.width, operands.value_width), 64);
  const std::int64_t products = 2 * widths + 4 * std::int64_t{tiling.blocks};
  return quotient_up(other, 64) * products * 1150 <= kSoftwareLoopSteps;
}

std::int64_t whole_steps(std::int64_t width) noexcept {
  return quotient_up(width, 16) * 16;
}
std::int64_t whole_lines(std::int64_t width) noexcept {
  return quotient_up(width, 32) * 32;
}

// Tiles of warps; none if the operands do not fit into registers. The gradient of keys keeps two
// results in them. Sizes measured on an H200, as the blocks of warp_text().
Tiling warp_tiling(AttentionPass pass,
                   const Operands& operands,
                   const AttentionResults& results,
                   const DeviceLimits& limits) noexcept {
  constexpr std::int64_t kFewRows = 32;
  const bool has_keys = pass == AttentionPass::key_grads;
  const std::int64_t own = has_keys ? operands.keys : operands.rows();
  const std::int64_t other = has_keys ? operands.rows() : operands.keys;
  const std::int64_t widest = std::max(operands.width, operands.value_width);
  const bool is_short = operands.dtype == DType::f16 || operands.dtype == DType::bf16;
  if (!limits.has_warp_products || !is_short || operands.wide || own < kFewRows ||
      other < kFewRows || operands.width < 8 || operands.value_width < 8 ||
      widest > (has_keys ? kNarrowColumns : kMostColumns) || !lies_in(8, pass, operands, results)) {
    return {};
  }
  const bool is_wide = widest > kNarrowColumns || pass != AttentionPass::forward;
  Tiling tiling{.own = 64, .other = is_wide ? 32 : 64, .warps = 4};
  tiling.tiles = quotient_up(own, tiling.own);
  tiling.chunk = operands.keys;
  return tiling;
}

// Parts of the keys that forward passes with so few groups compute side by side.
std::int64_t wanted_splits(const Operands& operands,
                           std::int64_t groups,
                           const DeviceLimits& limits) noexcept {
  const std::int64_t wanted = 2 * std::int64_t{limits.multiprocessors};
  return std::min(
      {wanted / std::max<std::int64_t>(groups, 1), operands.keys / kLeastChunk, kMostKeySplits});
}

// Tiles of f32 whose threads keep several rows; none if the operands do not fit into registers, or
// keys are split. Sizes measured on an H200.
Tiling float_tiling(AttentionPass pass,
                    const Operands& operands,
                    const AttentionResults& results,
                    const DeviceLimits& limits) noexcept {
  constexpr std::int64_t kFewRows = 32;
  const bool is_forward = pass == AttentionPass::forward;
  const bool has_keys = pass == AttentionPass::key_grads;
  const std::int64_t own = has_keys ? operands.keys : operands.rows();
  const std::int64_t other = has_keys ? operands.rows() : operands.keys;
  Tiling tiling{.own = 64, .other = is_forward ? 64 : 32, .warps = 4, .rows = 4, .by_fours = true};
  tiling.tiles = quotient_up(own, tiling.own);
  tiling.chunk = operands.keys;
  const bool splits =
      is_forward && wanted_splits(operands, operands.heads.count() * tiling.tiles, limits) > 1;
  if (!limits.has_warp_products || operands.dtype != DType::f32 || operands.wide ||
      std::min(own, other) < kFewRows || std::min(operands.width, operands.value_width) < 8 ||
      std::max(operands.width, operands.value_width) > kNarrowColumns || splits ||
      !lies_in(4, pass, operands, results)) {
    return {};
  }
  return tiling;
}

Tiling tiling_of(AttentionPass pass,
                 const Operands& operands,
                 const AttentionResults& results,
                 const DeviceLimits& limits) {
  if (const Tiling tiling = warp_tiling(pass, operands, results, limits); tiling.warps > 0) {
    return tiling;
  }
  if (const Tiling tiling = float_tiling(pass, operands, results, limits); tiling.warps > 0) {
    return tiling;
  }
  const bool is_forward = pass == AttentionPass::forward;
  const bool has_keys = pass == AttentionPass::key_grads;
  const std::int64_t own = has_keys ? operands.keys : operands.rows();
  const std::int64_t other = has_keys ? operands.rows() : operands.keys;
  const std::int64_t columns = has_keys     ? std::max(operands.width, operands.value_width)
                               : is_forward ? operands.value_width
                                            : operands.width;
  const int most = operands.dtype == DType::f64 || limits.most_group_threads < 256 ? 32 : 64;
  Tiling tiling{.own = tile_of(own, most), .other = tile_of(other, most)};
  if (limits.is_cpu && (own <= 32 || other <= 32) && other <= kShortInSoftware) {
    tiling.own = tiling.other = kSoftwareTile;
  }
  const std::int64_t fitting = std::min(4, kMostColumns / tiling.other);
  tiling.blocks =
      static_cast<int>(std::clamp<std::int64_t>(quotient_up(columns, tiling.other), 1, fitting));
  if (operands.dtype == DType::f64) {
    tiling.blocks = std::min(tiling.blocks, 2);
  }
  tiling.blocks = tiling.blocks == 3 ? 4 : tiling.blocks;
  tiling.on_units = tiling.own == 64 && tiling.other == 64 && !operands.wide &&
                    (!limits.is_cpu || emulates_in_time(other, operands, tiling)) &&
                    unit_bytes(tiling.blocks) <= limits.shared_bytes &&
                    can_cooperate(operands.dtype, own, other, limits) &&
                    lies_in(8, pass, operands, results);
  tiling.by_fours = (operands.dtype == DType::f32 || operands.dtype == DType::f64) &&
                    lies_in(4, pass, operands, results);
  tiling.tiles = quotient_up(own, tiling.own);
  tiling.column_blocks = std::max<std::int64_t>(1, quotient_up(columns, tiling.columns()));
  tiling.chunk = std::max<std::int64_t>(operands.keys, 1);
  if (is_forward) {
    const std::int64_t groups = operands.heads.count() * tiling.tiles * tiling.column_blocks;
    std::int64_t splits = wanted_splits(operands, groups, limits);
    if (limits.is_cpu) {
      splits = std::max(splits,
                        quotient_up(operands.keys * steps_of(operands, tiling),
                                    kSoftwareLoopSteps * tiling.other));
    }
    if (splits > 1) {
      tiling.chunk = quotient_up(quotient_up(operands.keys, splits), tiling.other) * tiling.other;
      tiling.splits = quotient_up(operands.keys, tiling.chunk);
    }
  }
  return tiling;
}

constexpr std::string_view kAttentionMembers =
    "uint64_t q; uint64_t k; uint64_t v; uint64_t mask; uint64_t grad; uint64_t statistics; "
    "uint64_t y; "
    "uint64_t first; uint64_t second; uint64_t means; "
    "INDEX q_head; INDEX q_row; INDEX q_column; INDEX k_head; INDEX k_row; INDEX k_column; "
    "INDEX v_head; INDEX v_row; INDEX v_column; INDEX mask_head; INDEX mask_row; "
    "INDEX mask_column; INDEX grad_head; INDEX grad_row; INDEX grad_column; "
    "INDEX statistics_head; INDEX statistics_row; INDEX statistics_column; INDEX y_head; INDEX "
    "y_row; INDEX y_column; "
    "INDEX heads; INDEX rows; INDEX queries; INDEX keys; INDEX width; INDEX value_width; "
    "INDEX lag; INDEX chunk; int tiles; int blocks; int splits; uint queries_m; uint queries_h; "
    "uint form; VALUE scale; ";

// The text's GROUPED, CAUSAL and MASK: whether heads share keys, and which keys a query attends to.
std::uint32_t attention_form(const Operands& operands) noexcept {
  return (operands.group != 1 ? 1U : 0U) | (operands.is_causal ? 2U : 0U) |
         static_cast<std::uint32_t>(operands.mask_kind) << 2U;
}

void add_attention_parameters(ParameterBlock& parameters,
                              const Operands& operands,
                              const AttentionResults& results,
                              const Tiling& tiling) noexcept {
  const bool wide = operands.wide;
  for (const AttentionMatrix& matrix : operands.matrices) {
    parameters.add(matrix.address);
  }
  parameters.add(results.first).add(results.second).add(results.means);
  for (const AttentionMatrix& matrix : operands.matrices) {
    add_index(parameters, wide, matrix.head);
    add_index(parameters, wide, matrix.row);
    add_index(parameters, wide, matrix.column);
  }
  for (const std::int64_t value : {operands.heads.count(),
                                   operands.rows(),
                                   operands.queries,
                                   operands.keys,
                                   operands.width,
                                   operands.value_width,
                                   operands.keys - operands.queries,
                                   tiling.chunk}) {
    add_index(parameters, wide, value);
  }
  const Divisor queries(wide ? 1 : std::max<std::int64_t>(operands.queries, 1));
  parameters.add(static_cast<std::int32_t>(tiling.tiles))
      .add(static_cast<std::int32_t>(tiling.column_blocks))
      .add(static_cast<std::int32_t>(tiling.splits))
      .add(queries.factor)
      .add(queries.shift)
      .add(attention_form(operands));
  if (operands.dtype == DType::f64) {
    parameters.add(operands.scale);
  } else {
    parameters.add(static_cast<float>(operands.scale));
  }
  operands.heads.add_to(parameters, wide);
}

// Drivers in software take seconds for a shader, so one shader has all forms there.
std::string form_defines(const Operands& operands, const DeviceLimits& limits) {
  if (limits.is_cpu) {
    return "#define GROUPED ((p.form & 1u) != 0u)\n#define CAUSAL ((p.form & 2u) != 0u)\n"
           "#define MASK (p.form >> 2)\n";
  }
  return fmt::format("#define GROUPED {}\n#define CAUSAL {}\n#define MASK {}u\n",
                     operands.group != 1,
                     operands.is_causal,
                     static_cast<std::uint32_t>(operands.mask_kind));
}

std::string attention_defines(const Operands& operands,
                              const Tiling& tiling,
                              Kernel kernel,
                              int threads) {
  const bool is_f64 = operands.dtype == DType::f64;
  const int ty = tiling.own / 4;
  const int tx = tiling.other / 4;
  const int tiles = kSlice * std::max(ty + 1 + tx + 1, tiling.columns() / 4 + 1);
  const std::string_view value = is_f64 ? "f64" : "f32";
  return fmt::format(
      "#define VALUE {}\n#define VALUE4 {}\n#define THREADS {}\n#define OWN {}\n#define OTHER {}\n"
      "#define TY {}\n#define TX {}\n#define BLOCKS {}\n#define COLUMNS {}\n#define TILES {}\n"
      "#define PARTIAL {:d}\n#define SIZE {}\n#define MASK_SIZE (MASK == 1u ? 1 : SIZE)\n"
      "#define VALUE_SIZE {}\n#define NEVER {}\n"
      "#define load_element load_{}\n#define store_element store_{}\n#define load_value load_{}\n"
      "#define store_value store_{}\n#define QUERY_HEAD(r) {}\n",
      is_f64 ? "double" : "float",
      is_f64 ? "dvec4" : "vec4",
      threads,
      tiling.own,
      tiling.other,
      ty,
      tx,
      tiling.blocks,
      tiling.columns(),
      tiles,
      kernel == Kernel::partial,
      size_bytes(operands.dtype),
      is_f64 ? 8 : 4,
      glsl_lowest(operands.dtype),
      glsl_suffix(operands.dtype),
      glsl_suffix(operands.dtype),
      value,
      value,
      operands.wide ? "((r) / p.queries)" : "int(divide(uint(r), p.queries_m, p.queries_h))");
}

// Elements of 16 bits, eight or two at a time.
std::string short_elements(const Operands& operands) {
  const bool is_f16 = operands.dtype == DType::f16;
  return fmt::format(
             "#define load_eight load8_{}\n#define FACTOR(bits) {}_to_f32(bits)\n"
             "#define PACKED(xy) {}\n#define KEPT_BITS {}\n"
             "#define ROUNDED(x) f32_to_{}(x)\n",
             glsl_suffix(operands.dtype),
             glsl_suffix(operands.dtype),
             is_f16 ? "packHalf2x16(xy)"
                    : "(floatBitsToUint((xy).x) >> 16 | floatBitsToUint((xy).y) & 0xffff0000u)",
             is_f16 ? "0xffffe000u" : "0xffff0000u",
             glsl_suffix(operands.dtype)) +
         std::string(glsl_quads(operands.dtype));
}

// Shared memory and products on matrix units.
std::string unit_tiles(const Operands& operands, const DeviceLimits& limits) {
  return short_elements(operands) +
         (operands.dtype == DType::f16 ? "" : "#define COOPERATIVE_BF16\n") +
         std::string(attention_text::kUnitWords) +
         (limits.emulates_matrix_units
              ? std::string(attention_text::kEmulatedUnits)
              : "#define MEMORY words\n#define SUM_BITS 32\n" + std::string(kMatrixUnits)) +
         std::string(attention_text::kMatrix) + std::string(attention_text::kUnitTiles);
}

std::string warp_text(const Operands& operands, Kernel kernel) {
  const auto main = kernel == Kernel::query_grads ? attention_text::kWarpQueryGrads
                    : kernel == Kernel::key_grads ? attention_text::kWarpKeyGrads
                                                  : attention_text::kWarpForward;
  const bool is_narrow = std::max(operands.width, operands.value_width) <= kNarrowColumns;
  const int blocks = !is_narrow ? 2 : kernel == Kernel::forward ? 4 : 3;
  return short_elements(operands) +
         fmt::format(
             "#define WIDTH {}\n#define VALUES {}\n#define multiply_16 multiply_{}\n"
             "#define GROUP_BLOCKS {}\n",
             whole_steps(operands.width),
             whole_steps(operands.value_width),
             glsl_suffix(operands.dtype),
             blocks) +
         std::string(attention_text::kMatrix) + std::string(attention_text::kScores) +
         std::string(attention_text::kWarpTiles) + std::string(main);
}

// The threads' weights follow the tiles: of the forward pass the queries' and one more, of the
// others two of each side.
std::string float_text(const Operands& operands, const Tiling& tiling, Kernel kernel) {
  const auto main = kernel == Kernel::query_grads ? attention_text::kFloatQueryGrads
                    : kernel == Kernel::key_grads ? attention_text::kFloatKeyGrads
                                                  : attention_text::kFloatForward;
  constexpr int kWordBytes = 16;
  constexpr int kGroupsAtOnce = 3;  // on a multiprocessor: 168 registers a thread
  const bool is_forward = kernel == Kernel::forward;
  const std::int64_t width = whole_lines(operands.width);
  const std::int64_t values = whole_lines(operands.value_width);
  const std::int64_t line = std::max(width, values) / 4 + 1;
  const std::int64_t words = (is_forward ? 1 : 2) * (tiling.own + tiling.other) * line +
                             std::int64_t{tiling.threads()} * (tiling.rows + 1);
  return fmt::format("#define load_four load4_{0}\n#define store_four store4_{0}\n{1}",
                     glsl_suffix(operands.dtype),
                     glsl_quads(operands.dtype)) +
         fmt::format(
             "#define WIDTH {}\n#define VALUES {}\n#define ROWS {}\n#define WORDS {}\n"
             "#define GROUP_SHARED_BYTES {}\n#define GROUP_BLOCKS {}\n",
             width,
             values,
             tiling.rows,
             words,
             words * kWordBytes,
             kGroupsAtOnce) +
         std::string(attention_text::kMatrix) + std::string(attention_text::kScores) +
         std::string(attention_text::kFloatTiles) + std::string(main);
}

std::string attention_text(const Operands& operands,
                           const Tiling& tiling,
                           Kernel kernel,
                           int threads,
                           const DeviceLimits& limits,
                           std::size_t parameter_bytes) {
  const bool has_tiles = kernel != Kernel::join && kernel != Kernel::means;
  MathUse math;
  for (const MathFunction function : {MathFunction::exp, MathFunction::div}) {
    math.add(function, operands.dtype == DType::f64);
  }
  const bool on_units = has_tiles && tiling.on_units;
  std::string text =
      glsl_prelude({.threads = threads,
                    .wide_index = operands.wide,
                    .more_extensions = on_units ? products::cooperative_extensions(
                                                      operands.dtype, limits.emulates_matrix_units)
                                                : std::string_view()});
  // LLVM's coroutine passes take time quadratic in a shader's blocks.
  text += limits.is_cpu ? "#define MAYBE_UNROLLED ROLLED\n" : "#define MAYBE_UNROLLED UNROLLED\n";
  text += form_defines(operands, limits) + attention_defines(operands, tiling, kernel, threads);
  text += glsl_parameters(
      std::string(kAttentionMembers) + operands.heads.glsl_members("head", operands.wide),
      parameter_bytes);
  text += glsl_divide();
  text += glsl_math(math);
  text += operands.heads.glsl_places("head", operands.wide);
  if (has_tiles && tiling.warps > 0) {
    return text +
           (tiling.rows > 0 ? float_text(operands, tiling, kernel) : warp_text(operands, kernel));
  }
  if (on_units) {
    text += unit_tiles(operands, limits);
  } else {
    if (has_tiles && tiling.by_fours) {
      text += fmt::format("#define load_four load4_{0}\n#define store_four store4_{0}\n{1}",
                          glsl_suffix(operands.dtype),
                          glsl_quads(operands.dtype));
    }
    text += fmt::format("#define FOURS {:d}\n", tiling.by_fours);
    if (has_tiles) {
      text += attention_text::kMatrix;
      text += attention_text::kTiles;
    }
  }
  text += has_tiles ? attention_text::kScores : "";
  // All shaders of a device have the same limits, so the key omits them.
  text += fmt::format("#define HAS_SHUFFLES {:d}\n", limits.subgroup_size == 32 && !limits.is_cpu);
  switch (kernel) {
    case Kernel::query_grads:
      return text += attention_text::kQueryGrads;
    case Kernel::key_grads:
      return text += attention_text::kKeyGrads;
    case Kernel::join:
      return text += attention_text::kJoin;
    case Kernel::means:
      return text += attention_text::kMeans;
    default:
      return text += attention_text::kForward;
  }
}

Status dispatch_attention(Kernel kernel,
                          const Operands& operands,
                          const AttentionResults& results,
                          const Tiling& tiling,
                          std::int64_t groups,
                          KernelEncoder& encoder) {
  if (groups == 0) {
    return {};
  }
  const bool is_flat = kernel == Kernel::join || kernel == Kernel::means;
  const int threads = is_flat ? kFlatThreads : tiling.threads();
  ParameterBlock parameters;
  add_attention_parameters(parameters, operands, results, tiling);
  KernelKey key(KernelFamily::attention);
  key.add(static_cast<std::uint32_t>(kernel))
      .add(operands.dtype)
      .add(encoder.limits().is_cpu ? 0U : attention_form(operands))
      .add((operands.wide ? 1U : 0U) | (tiling.on_units ? 2U : 0U) | (tiling.by_fours ? 4U : 0U))
      .add(tiling.own)
      .add(tiling.other)
      .add(tiling.blocks)
      .add(tiling.rows)
      .add(tiling.warps == 0 ? 0U : static_cast<std::uint32_t>(whole_steps(operands.width)))
      .add(tiling.warps == 0 ? 0U : static_cast<std::uint32_t>(whole_steps(operands.value_width)))
      .add(operands.heads.rank());
  const auto text = [&] {
    return attention_text(
        operands, tiling, kernel, threads, encoder.limits(), parameters.size_bytes());
  };
  return encoder.dispatch(key, text, parameters, encoder.linear(groups));
}

}  // namespace

Status encode_attention_pass(AttentionPass pass,
                             const Operands& operands,
                             const AttentionResults& results,
                             KernelEncoder& encoder) {
  const Tiling tiling = tiling_of(pass, operands, results, encoder.limits());
  const std::int64_t heads = operands.heads.count();
  const std::int64_t groups = heads * tiling.tiles * tiling.column_blocks * tiling.splits;
  if (tiling.splits == 1) {
    return dispatch_attention(
        static_cast<Kernel>(pass), operands, results, tiling, groups, encoder);
  }
  const std::int64_t value_bytes = operands.dtype == DType::f64 ? 8 : 4;
  const std::int64_t rows = heads * operands.rows();
  AttentionResults parts = results;
  HEARTH_TRY(parts.means,
             encoder.scratch(rows * tiling.splits * (operands.value_width + 2) * value_bytes));
  HEARTH_TRY_STATUS(dispatch_attention(Kernel::partial, operands, parts, tiling, groups, encoder));
  encoder.barrier();
  const std::int64_t elements = rows * std::max<std::int64_t>(operands.value_width, 1);
  return dispatch_attention(
      Kernel::join, operands, parts, tiling, quotient_up(elements, kFlatThreads), encoder);
}

Status encode_attention_means(const Operands& operands,
                              std::uint64_t means,
                              KernelEncoder& encoder) {
  constexpr std::int64_t kRows = kFlatThreads / 8;
  const std::int64_t rows = operands.heads.count() * operands.rows();
  return dispatch_attention(
      Kernel::means, operands, {.means = means}, {}, quotient_up(rows, kRows), encoder);
}

}  // namespace hearth::gpu
