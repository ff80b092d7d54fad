// Splits a product on matrix units between two kinds of tiles, so that the last round of workgroups
// is full.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "backends/gpu/space/axis_list.hpp"
#include "cooperative_tiles.hpp"

namespace hearth::gpu {
namespace {

// Estimated time of one tile, in the units of time_of().
double tile_time(const ProductRequest& request, const CooperativeTile& tile) noexcept {
  const auto* const known =
      std::ranges::find_if(kCooperativeTiles, [&](const CooperativeCandidate& each) {
        return each.tile.rows == tile.rows && each.tile.columns == tile.columns &&
               each.tile.depth * (unit_word(request.dtype) / 8) == tile.depth &&
               each.tile.warp_columns == tile.warp_columns;
      });
  return tile.rows * tile.columns * (static_cast<double>(request.depth) + known->more_depth) /
         known->use_for(request, tile);
}

// Estimated time of groups of two kinds, the second behind the first: whole rounds, a mixed round,
// and the rest of the second.
double time_of_both(double groups, double time, double more, double more_time, double processors) {
  const double whole = std::floor(groups / processors);
  const double left = groups - whole * processors;
  const double beside = left == 0 ? 0 : (processors - left) * std::floor(time / more_time);
  const double behind = std::ceil(std::max(0.0, more - beside) / processors);
  return (whole + (left == 0 ? 0 : 1)) * time + behind * more_time;
}

// Rounds of workgroups above which leave_rows() compares work instead of time.
constexpr int kFewestRounds = 8;
// Threads of a group that fills a multiprocessor: rounds are then whole.
constexpr int kFillingGroup = 256;

// The plan with the whole depth in one part.
ProductPlan in_one_part(ProductPlan plan, const ProductRequest& request) noexcept {
  plan.splits = 1;
  plan.split_depth = static_cast<int>(request.depth);
  plan.groups = std::int64_t{plan.tiles_down} * plan.tiles_across * request.matrices;
  plan.scratch_bytes = 0;
  return plan;
}

// Splits the rows of a product that runs alone, whose last round of groups may be nearly empty. One
// kind of tile gets about whole rounds; another kind gets the other rows, beside and behind them,
// if that takes less time. `plan` becomes the first kind's.
std::optional<ProductPlan> pair_tiles(const ProductRequest& request,
                                      ProductPlan& plan,
                                      const DeviceLimits& limits) noexcept {
  struct Offer {
    int number;
    CooperativeTile tile;
    double time;
    std::int64_t across;
  };
  constexpr double kWorth = 0.97;
  std::array<Offer, kCooperativeTiles.size()> all{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < kCooperativeTiles.size(); ++i) {
    const CooperativeTile tile = tile_for(kCooperativeTiles[i].tile, request, limits);
    if (kCooperativeTiles[i].use_for(request, tile) > 0 && request.columns >= tile.columns &&
        request.depth % tile.depth == 0 && shared_bytes(tile, request) <= limits.shared_bytes &&
        tile.threads() <= static_cast<int>(limits.most_group_threads)) {
      all[count++] = {static_cast<int>(i),
                      tile,
                      tile_time(request, tile),
                      quotient_up(request.columns, tile.columns)};
    }
  }
  const std::span<const Offer> offers(all.data(), count);
  const std::int64_t processors = limits.multiprocessors;
  double best_time = kWorth * static_cast<double>(quotient_up(plan.groups, processors)) *
                     tile_time(request, plan.cooperative);
  const Offer* first = nullptr;
  const Offer* second = nullptr;
  std::int64_t first_tiles = 0;
  for (const Offer& one : offers) {
    for (std::int64_t tries = 0; tries < std::int64_t{2} * kFewestRounds; ++tries) {
      const std::int64_t kept = (tries / 2 + 1) * processors / one.across - tries % 2;
      const std::int64_t left = request.rows - kept * one.tile.rows;
      for (const Offer& other : offers) {
        if (kept < 1 || left < other.tile.rows) {
          continue;
        }
        const std::int64_t rest = quotient_up(left, other.tile.rows) * other.across;
        const double time = time_of_both(static_cast<double>(kept * one.across),
                                         one.time,
                                         static_cast<double>(rest),
                                         other.time,
                                         static_cast<double>(processors));
        if (time < best_time) {
          best_time = time;
          first = &one;
          second = &other;
          first_tiles = kept;
        }
      }
    }
  }
  if (first == nullptr) {
    return std::nullopt;
  }
  const auto plan_of = [&](const Offer& offer, std::int64_t rows) -> std::optional<ProductPlan> {
    DeviceLimits only = limits;
    only.only_tile = offer.number;
    ProductRequest part = request;
    part.rows = rows;
    const Result<ProductPlan> made = plan_product(part, only);
    return made.has_value() && made.value().is_exact
               ? std::optional(in_one_part(made.value(), part))
               : std::nullopt;
  };
  const std::int64_t kept_rows = first_tiles * first->tile.rows;
  const std::optional<ProductPlan> head = plan_of(*first, kept_rows);
  std::optional<ProductPlan> rest = plan_of(*second, request.rows - kept_rows);
  if (!head || !rest) {
    return std::nullopt;
  }
  plan = *head;
  rest->first_row = plan.end_row;
  rest->end_row = static_cast<int>(request.rows);
  return rest;
}

}  // namespace

// Tries to leave up to kMostLeft rows of tiles to whole tiles of another kind, and takes the
// variant with the least work. It must save a hundredth, because the card's power is the limit, and
// need no more rounds. The next launch fills the last of few rounds, unless the product is alone.
std::optional<ProductPlan> leave_rows(const ProductRequest& request,
                                      ProductPlan& plan,
                                      const DeviceLimits& limits) noexcept {
  constexpr int kMostLeft = 8;
  constexpr double kWorth = 0.99;
  const CooperativeTile& tile = plan.cooperative;
  if (!plan.is_exact || !plan.is_cooperative || limits.is_cpu || limits.only_tile >= 0 ||
      plan.splits > 1 || request.matrices > 1) {
    return std::nullopt;
  }
  if (plan.groups < std::int64_t{kFewestRounds} * limits.multiprocessors) {
    const bool fills = tile.threads() >= kFillingGroup;
    return request.is_alone && fills ? pair_tiles(request, plan, limits) : std::nullopt;
  }
  if (request.rows % tile.rows == 0) {
    return std::nullopt;
  }
  const double own_time = tile_time(request, tile);
  const auto processors = static_cast<double>(limits.multiprocessors);
  const auto groups = static_cast<double>(plan.groups);
  const double most_time = std::ceil(groups / processors) * own_time;
  double least_work = kWorth * groups * own_time;
  std::optional<ProductPlan> best;
  for (int kept = std::max(1, plan.tiles_down - kMostLeft); kept < plan.tiles_down; ++kept) {
    ProductRequest left = request;
    left.rows = request.rows - std::int64_t{kept} * tile.rows;
    for (std::size_t i = 0; i < kCooperativeTiles.size(); ++i) {
      const CooperativeTile other = tile_for(kCooperativeTiles[i].tile, request, limits);
      if (kCooperativeTiles[i].use_for(request, other) == 0 || left.rows % other.rows != 0 ||
          shared_bytes(other, request) > limits.shared_bytes ||
          other.threads() > static_cast<int>(limits.most_group_threads)) {
        continue;
      }
      DeviceLimits only = limits;
      only.only_tile = static_cast<int>(i);
      const Result<ProductPlan> rest = plan_product(left, only);
      if (!rest.has_value() || !rest.value().is_exact || rest.value().splits > 1) {
        continue;
      }
      const double kept_groups = static_cast<double>(std::int64_t{kept} * plan.tiles_across);
      const auto rest_groups = static_cast<double>(rest.value().groups);
      const double rest_time = tile_time(request, rest.value().cooperative);
      const double work = kept_groups * own_time + rest_groups * rest_time;
      if (work < least_work &&
          time_of_both(kept_groups, own_time, rest_groups, rest_time, processors) <= most_time) {
        least_work = work;
        best = rest.value();
        best->first_row = kept * tile.rows;
      }
    }
  }
  if (best) {
    plan.end_row = best->first_row;
    plan.tiles_down = plan.end_row / tile.rows;
    plan.groups = std::int64_t{plan.tiles_down} * plan.tiles_across;
    best->end_row = static_cast<int>(request.rows);
  }
  return best;
}

}  // namespace hearth::gpu
