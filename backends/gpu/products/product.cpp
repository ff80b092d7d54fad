// Splits products. The tile with the shortest estimated time of the whole grid wins. That time is
// rounds of workgroups times the area of a tile and its part of the depth, over the efficiency of
// its threads. The cost of joining the parts is added. For few groups and a long depth, the depth
// is split too, into about two groups for each multiprocessor. The split depends on sizes and the
// device alone, so sums are reproducible.
#include "product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "backends/gpu/space/axis_list.hpp"
#include "cooperative_tiles.hpp"

namespace hearth::gpu {
namespace {

constexpr int kThinSteps = 4;             // STEPS of the shader
constexpr std::int64_t kLeastPart = 256;  // of the depth of other kernels than tiles

/// A split of the depth into parts of whole units.
struct Cut {
  std::int64_t splits = 1;
  std::int64_t part = 0;
};

enum class Unit : std::uint8_t { thin, tile, cooperative };

// Longest part of a depth that stays below kSoftwareLoopSteps on a driver in software. Steps: 49
// for each 16 of a tile, 41 for each 4 of eight thin rows, 1,200 for each 32 of emulated matrix
// units.
std::int64_t longest_in_software(Unit kind) noexcept {
  switch (kind) {
    case Unit::tile:
      return 16384;
    case Unit::thin:
      return 4096;
    default:
      return 1024;
  }
}

// The longest part of a depth whose products are summed in f32; parts are joined by compensated
// sums. Matrix units add sixteen products at a time.
std::int64_t longest_part(Unit kind) noexcept {
  return kind == Unit::cooperative ? 32768 : 4096;
}

// Number of parts of a depth, so that no f32 sum exceeds longest_part(). The sums of all parts take
// no more memory than the operands, nor than kMostPartBytes: parts of a large result are longer.
constexpr double kMostPartBytes = 0x1p28;
std::int64_t needed_parts(const ProductRequest& request, Unit kind) noexcept {
  if (request.dtype == DType::i8 || request.dtype == DType::f64) {
    return 1;
  }
  const auto matrices = static_cast<double>(request.matrices);
  const double operands = matrices * static_cast<double>(request.rows + request.columns) *
                          static_cast<double>(request.depth) *
                          static_cast<double>(size_bytes(request.dtype));
  const double sums =
      4.0 * matrices * static_cast<double>(request.rows) * static_cast<double>(request.columns);
  const double most_bytes = std::min(operands, kMostPartBytes);
  const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(most_bytes / sums));
  return std::min(most, quotient_up(request.depth, longest_part(kind)));
}

// Splits the depth until each multiprocessor has the groups that it runs at a time. Thin groups
// wait for memory, a tile on matrix units fills a multiprocessor, and smaller tiles share one.
// Parts cost a pass over all sums.
Cut product_cut(const ProductRequest& request,
                std::int64_t groups,
                std::int64_t unit,
                Unit kind,
                const DeviceLimits& limits) noexcept {
  const bool is_thin = kind == Unit::thin;
  const std::int64_t at_a_time = is_thin || limits.is_cpu ? 2 : kind == Unit::tile ? 3 : 1;
  const std::int64_t wanted = at_a_time * std::max(1, limits.multiprocessors);
  const std::int64_t sums = request.matrices * request.rows * request.columns;
  const std::int64_t least_part = kind == Unit::tile ? limits.least_part : kLeastPart;
  std::int64_t splits = 1;
  if (groups < wanted) {
    splits = std::min(is_thin ? quotient_up(wanted, groups) : wanted / groups,
                      std::max<std::int64_t>(1, request.depth / std::max(least_part, unit)));
  }
  splits = std::max(splits, needed_parts(request, kind));
  splits = std::min(splits, std::max<std::int64_t>(1, kMostProductAxis / sums));
  if (limits.is_cpu) {
    splits = std::max(splits, quotient_up(request.depth, longest_in_software(kind)));
  }
  const std::int64_t part = quotient_up(quotient_up(request.depth, splits), unit) * unit;
  return {.splits = part == 0 ? 1 : quotient_up(request.depth, part), .part = part};
}

/// Costs of a tile beside its multiplications, in multiplications of one multiprocessor.
struct Pace {
  Unit kind;
  double byte;    // of parts' sums
  double launch;  // of the kernel that adds them
};
constexpr Pace kFloatPace{.kind = Unit::tile, .byte = 0.07, .launch = 5e5};
constexpr Pace kCooperativePace{.kind = Unit::cooperative, .byte = 0.5, .launch = 4e6};

struct TileUse {
  int rows;
  int columns;
  int unit;
  double use;         // arithmetic rate, relative to the best tile
  double more_depth;  // depth that takes as long as begin and stores of a tile
  int threads;        // of a group, if a multiprocessor needs several groups, else 0
};

// Threads that fill a multiprocessor: 128 of them reached 0.87 of its rate on an H100.
constexpr double kFillingThreads = 150;

// Estimated time of the whole product, in multiplications of one multiprocessor.
double time_of(const ProductRequest& request,
               const TileUse& tile,
               const Pace& pace,
               const DeviceLimits& limits) noexcept {
  const std::int64_t tiles = request.matrices * quotient_up(request.rows, tile.rows) *
                             quotient_up(request.columns, tile.columns);
  const Cut cut = product_cut(request, tiles, tile.unit, pace.kind, limits);
  const auto rounds =
      static_cast<double>(quotient_up(tiles * cut.splits, std::max(1, limits.multiprocessors)));
  const double fill =
      tile.threads == 0 ? 1.0 : std::min(1.0, rounds * tile.threads / kFillingThreads);
  const double time = rounds * tile.rows * tile.columns *
                      (static_cast<double>(cut.part) + tile.more_depth) / (tile.use * fill);
  if (cut.splits == 1) {
    return time;
  }
  const double bytes = 8.0 * static_cast<double>(cut.splits) *
                       static_cast<double>(request.matrices * request.rows * request.columns);
  return time + bytes * pace.byte + pace.launch;
}

struct Candidate {
  ProductTile tile;
  double use = 1;  // arithmetic rate, relative to the best tile
};

// Measured on an H100 by bench/gpu/tile_bench.cpp, at 4096 x 4096 x 4096.
constexpr std::array kFloatTiles{
    Candidate{{128, 64, 16, 8, 8, 2}, 1.0},
    Candidate{{96, 128, 16, 12, 8, 2}, 1.0},
    Candidate{{64, 128, 16, 8, 8, 2}, 0.98},
    Candidate{{64, 64, 16, 8, 8, 2}, 0.95},
    Candidate{{64, 64, 16, 4, 4, 2}, 0.78},
    Candidate{{32, 32, 16, 4, 4, 2}, 0.65},
};
constexpr std::array kSoftwareTiles{
    Candidate{{32, 32, 16, 4, 4, 1}, 1.0},
    Candidate{{32, 32, 8, 4, 4, 1}, 0.9},
};
constexpr std::array kSoftwareLanes{
    ThinLanes{1, 32, 1}, ThinLanes{1, 4, 8}, ThinLanes{8, 32, 1}, ThinLanes{8, 4, 8}};
constexpr std::array kDoubleTiles{
    Candidate{{64, 64, 8, 4, 4, 2}, 1.0},
    Candidate{{32, 32, 16, 4, 4, 2}, 0.8},
    Candidate{{32, 32, 8, 4, 4, 1}, 0.5},
};

std::int64_t tile_bytes(const ProductTile& tile, DType dtype) noexcept {
  const std::int64_t quad = dtype == DType::f64 ? 32 : 16;
  return std::int64_t{tile.buffers} * tile.depth * ((tile.rows / 4 + 1) + (tile.columns / 4 + 1)) *
         quad;
}

std::span<const Candidate> tiles_of(DType dtype, const DeviceLimits& limits) noexcept {
  if (limits.is_cpu) {
    return kSoftwareTiles;
  }
  if (dtype == DType::f64) {
    return kDoubleTiles;
  }
  return kFloatTiles;
}

// Falls back to the last tile, which fits on every device.
ProductTile choose_tile(const ProductRequest& request, const DeviceLimits& limits) noexcept {
  const std::span<const Candidate> all = tiles_of(request.dtype, limits);
  ProductTile best = all.back().tile;
  if (limits.only_tile >= 0 && limits.only_tile < static_cast<int>(all.size())) {
    return all[static_cast<std::size_t>(limits.only_tile)].tile;
  }
  double best_time = 0;
  for (const Candidate& candidate : all) {
    const ProductTile& tile = candidate.tile;
    if (tile_bytes(tile, request.dtype) > limits.shared_bytes ||
        tile.threads() > static_cast<int>(limits.most_group_threads)) {
      continue;
    }
    const double time = time_of(request,
                                {.rows = tile.rows,
                                 .columns = tile.columns,
                                 .unit = tile.depth,
                                 .use = candidate.use,
                                 .more_depth = 32,
                                 .threads = tile.threads()},
                                kFloatPace,
                                limits);
    if (best_time == 0 || time < best_time) {
      best = tile;
      best_time = time;
    }
  }
  return best;
}

// Falls back to the last tile, which is smaller than the limits of every device.
CooperativeTile choose_cooperative(const ProductRequest& request,
                                   const DeviceLimits& limits) noexcept {
  CooperativeTile best = tile_for(kCooperativeTiles.back().tile, request, limits);
  if (limits.is_cpu) {
    return best;
  }
  if (limits.only_tile >= 0 && limits.only_tile < static_cast<int>(kCooperativeTiles.size())) {
    return tile_for(
        kCooperativeTiles[static_cast<std::size_t>(limits.only_tile)].tile, request, limits);
  }
  double best_time = 0;
  for (const CooperativeCandidate& candidate : kCooperativeTiles) {
    const CooperativeTile tile = tile_for(candidate.tile, request, limits);
    const double use = candidate.use_for(request, tile);
    if (use == 0 || shared_bytes(tile, request) > limits.shared_bytes ||
        tile.threads() > static_cast<int>(limits.most_group_threads)) {
      continue;
    }
    const double time = time_of(request,
                                {.rows = tile.rows,
                                 .columns = tile.columns,
                                 .unit = tile.depth,
                                 .use = use,
                                 .more_depth = candidate.more_depth,
                                 .threads = 0},
                                kCooperativePace,
                                limits);
    if (best_time == 0 || time < best_time) {
      best = tile;
      best_time = time;
    }
  }
  return best;
}

int power_above(std::int64_t value, int most) noexcept {
  const auto capped = static_cast<std::uint64_t>(std::clamp<std::int64_t>(value, 1, most));
  return static_cast<int>(std::bit_ceil(capped));
}

// Columns first, because they are neighbours in memory; then as much of the depth as leaves a
// thread a few steps.
ThinLanes choose_lanes(const ProductRequest& request, const DeviceLimits& limits) noexcept {
  if (limits.is_cpu) {
    const std::size_t place = (request.rows > 1 ? 2U : 0U) + (request.depth > request.columns);
    return kSoftwareLanes[place];
  }
  const int most = std::min(256, static_cast<int>(std::bit_floor(limits.most_group_threads)));
  const int across = request.b.along_depth ? 1 : request.b.width;
  const int deep = request.b.along_depth ? request.b.width : 1;
  const std::int64_t chunks = quotient_up(request.columns, across);
  const std::int64_t steps = quotient_up(request.depth, std::int64_t{deep} * kThinSteps);
  ThinLanes lanes{.rows = power_above(request.rows, 8)};
  if (request.b.along_depth) {
    const bool is_busy = chunks * request.matrices >= 8LL * limits.multiprocessors;
    lanes.depth = power_above(steps, is_busy ? std::min(most, 32) : most);
    lanes.columns = power_above(chunks, most / lanes.depth);
  } else {
    lanes.columns = power_above(chunks, most);
    while (lanes.columns > 32 &&
           quotient_up(chunks, lanes.columns) * request.matrices < 2LL * limits.multiprocessors) {
      lanes.columns /= 2;
    }
    lanes.depth = power_above(steps / 4, most / lanes.columns);
  }
  lanes.columns = std::max(lanes.columns, 32 / lanes.depth);
  return lanes;
}

// Limits the number of shaders, where compiling one takes longer than running it.
void limit_forms(ProductRequest& request) noexcept {
  if (request.a.width == 4 && request.b.width == 4) {
    return;
  }
  request.a = {.along_depth = true, .width = 1};
  request.b.width = 1;
}

// Splits the depth into parts of whole `unit`s.
void choose_splits(const ProductRequest& request,
                   std::int64_t unit,
                   const DeviceLimits& limits,
                   ProductPlan& plan) noexcept {
  const std::int64_t groups = std::int64_t{plan.tiles_down} * plan.tiles_across * request.matrices;
  const std::int64_t sums = request.matrices * request.rows * request.columns;
  const Unit kind = plan.is_thin          ? Unit::thin
                    : plan.is_cooperative ? Unit::cooperative
                                          : Unit::tile;
  const Cut cut = product_cut(request, groups, unit, kind, limits);
  plan.splits = static_cast<int>(cut.splits);
  plan.split_depth = static_cast<int>(cut.part);
  plan.groups = groups * cut.splits;
  plan.scratch_bytes =
      cut.splits == 1 ? 0 : cut.splits * sums * (request.dtype == DType::f64 ? 8 : 4);
}

}  // namespace

// A software driver emulates matrix units where hardware would use them, to test each kernel
// without the hardware.
bool can_cooperate(DType dtype,
                   std::int64_t rows,
                   std::int64_t columns,
                   const DeviceLimits& limits) noexcept {
  const bool has_units =
      limits.has_cooperative_matrix && (dtype == DType::bf16 ? limits.has_cooperative_bf16
                                        : dtype == DType::i8 ? limits.has_cooperative_i8
                                                             : dtype == DType::f16);
  const bool is_emulated = limits.emulates_matrix_units &&
                           (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i8);
  return ((has_units && limits.subgroup_size == 32) || is_emulated) && rows > 8 && columns > 8;
}

int tile_count(DType dtype, bool cooperates, const DeviceLimits& limits) noexcept {
  return static_cast<int>(cooperates ? kCooperativeTiles.size() : tiles_of(dtype, limits).size());
}

Result<ProductPlan> plan_product(ProductRequest& request, const DeviceLimits& limits) {
  ProductPlan plan{.is_thin = request.rows <= 8, .is_rolled = limits.is_cpu};
  std::int64_t unit = 0;
  int tile_rows = 0;
  int tile_columns = 0;
  const bool is_cooperative = request.a.width == unit_word(request.dtype);
  if (limits.is_cpu && !is_cooperative) {
    limit_forms(request);
  }
  if (plan.is_thin) {
    const bool by_fours = request.a.along_depth && request.b.along_depth && request.b.width == 4;
    request.a.width = by_fours ? request.a.width : 1;
    request.put_width = 1;
    plan.lanes = choose_lanes(request, limits);
    const int across = request.b.along_depth ? 1 : request.b.width;
    const int deep = request.b.along_depth ? request.b.width : 1;
    plan.tiles_down = static_cast<int>(quotient_up(request.rows, plan.lanes.rows));
    plan.tiles_across =
        static_cast<int>(quotient_up(request.columns, std::int64_t{plan.lanes.columns} * across));
    unit = std::int64_t{plan.lanes.depth} * deep * kThinSteps;
  } else if (is_cooperative) {
    plan.is_cooperative = true;
    plan.cooperative = choose_cooperative(request, limits);
    tile_rows = plan.cooperative.rows;
    tile_columns = plan.cooperative.columns;
    unit = plan.cooperative.depth;
  } else {
    plan.tile = choose_tile(request, limits);
    tile_rows = plan.tile.rows;
    tile_columns = plan.tile.columns;
    unit = plan.tile.depth;
  }
  if (!plan.is_thin) {
    plan.tiles_down = static_cast<int>(quotient_up(request.rows, tile_rows));
    plan.tiles_across = static_cast<int>(quotient_up(request.columns, tile_columns));
    plan.is_exact = request.is_baked && request.has_offsets && request.a.width > 1 &&
                    request.b.width > 1 && request.rows >= tile_rows &&
                    request.columns >= tile_columns && request.depth > 0 &&
                    request.depth % unit == 0;
  }
  plan.end_row = static_cast<int>(request.rows);
  choose_splits(request, unit, limits, plan);
  if (plan.groups > kMostProductAxis) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("{} products of {} x {} elements are more than one launch can "
                                     "make on this device",
                                     request.matrices,
                                     request.rows,
                                     request.columns)};
  }
  return plan;
}

void add_product(ParameterBlock& parameters,
                 const ProductRequest& request,
                 const ProductPlan& plan,
                 std::uint64_t partial) noexcept {
  parameters.add(partial)
      .add(static_cast<std::int32_t>(request.rows))
      .add(static_cast<std::int32_t>(request.columns))
      .add(static_cast<std::int32_t>(request.depth))
      .add(static_cast<std::int32_t>(plan.tiles_down))
      .add(static_cast<std::int32_t>(plan.tiles_across))
      .add(static_cast<std::int32_t>(plan.splits))
      .add(static_cast<std::int32_t>(plan.split_depth))
      .add(static_cast<std::int32_t>(plan.groups));
}

namespace products {

void add_words(KernelKey& key, const ProductRequest& request, const ProductPlan& plan) noexcept {
  const auto bit = [](bool is_set, unsigned place) { return (is_set ? 1U : 0U) << place; };
  key.add(bit(request.is_wide, 0) | bit(plan.is_exact, 1) | bit(request.a.along_depth, 2) |
          bit(request.b.along_depth, 3) | bit(request.a.width == 4, 4) |
          bit(request.b.width == 4, 5) | bit(plan.is_thin, 6) | bit(plan.splits > 1, 7) |
          bit(plan.is_rolled, 16) | bit(request.has_slices, 19) | bit(plan.is_cooperative, 17) |
          bit(request.is_baked, 18) | bit(plan.is_cooperative && plan.cooperative.sums_f16, 20) |
          bit(request.puts_ragged, 21) | static_cast<std::uint32_t>(request.dtype) << 8U);
  if (request.is_baked) {
    key.add(static_cast<std::uint32_t>(request.rows))
        .add(static_cast<std::uint32_t>(request.columns))
        .add(static_cast<std::uint32_t>(request.depth));
  }
  if (plan.is_cooperative) {
    const CooperativeTile& tile = plan.cooperative;
    if (plan.is_exact) {
      key.add(plan.first_row).add(plan.end_row);
    }
    key.add(static_cast<std::uint32_t>(tile.rows) | static_cast<std::uint32_t>(tile.columns) << 16U)
        .add(static_cast<std::uint32_t>(tile.depth) |
             static_cast<std::uint32_t>(tile.warp_rows) << 8U |
             static_cast<std::uint32_t>(tile.warp_columns) << 16U | bit(tile.fetches_late, 30) |
             bit(tile.is_emulated, 31));
    return;
  }
  if (plan.is_thin) {
    key.add(static_cast<std::uint32_t>(plan.lanes.rows) |
            static_cast<std::uint32_t>(plan.lanes.columns) << 8U |
            static_cast<std::uint32_t>(plan.lanes.depth) << 20U);
    return;
  }
  const ProductTile& tile = plan.tile;
  key.add(static_cast<std::uint32_t>(tile.rows) | static_cast<std::uint32_t>(tile.columns) << 16U);
  key.add(static_cast<std::uint32_t>(tile.depth) |
          static_cast<std::uint32_t>(tile.thread_rows) << 8U |
          static_cast<std::uint32_t>(tile.thread_columns) << 16U |
          static_cast<std::uint32_t>(tile.buffers) << 24U);
}

}  // namespace products
}  // namespace hearth::gpu
