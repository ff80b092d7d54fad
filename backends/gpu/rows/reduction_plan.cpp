#include "reduction_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "backends/gpu/space/packs.hpp"

namespace hearth::gpu {
namespace {

constexpr std::int64_t kNarrowIndex = std::int64_t{1} << 31;
constexpr std::int64_t kLoadsInFlight = 4;     // of a thread, as the shader unrolls them
constexpr std::int64_t kMostSplits = 1024;     // second passes stay short
constexpr std::int64_t kGroupsAtATime = 8;     // on a multiprocessor: 2,048 threads
constexpr std::int64_t kLeastSplitLoads = 16;  // of a thread, that pay for a split's second pass

struct Axis {
  std::int64_t size;
  std::int64_t in;
  std::int64_t out;
};

class Axes {
 public:
  void push(Axis axis) noexcept { all_[static_cast<std::size_t>(count_++)] = axis; }
  // Insertion sort: largest strides first; equal ones keep their order.
  void sort() noexcept {
    for (int i = 1; i < count_; ++i) {
      for (int j = i; j > 0 && std::abs(at(j).in) > std::abs(at(j - 1).in); --j) {
        std::swap(at(j), at(j - 1));
      }
    }
  }
  void put_into(AxisList& list) noexcept {
    for (int i = 0; i < count_; ++i) {
      const std::array strides{at(i).in, at(i).out};
      list.push(at(i).size,
                std::span(strides).first(static_cast<std::size_t>(list.operand_count())));
    }
  }

 private:
  [[nodiscard]] Axis& at(int i) noexcept { return all_[static_cast<std::size_t>(i)]; }

  std::array<Axis, kMaxRank> all_;  // the first count_ have values
  int count_ = 0;
};

void choose_reduction_pack(ReductionPlan& plan, const TensorView& input) noexcept {
  const std::int64_t most = plan.is_columns ? 4 : 8;
  const std::int64_t pack = pack_of(input.dtype, most);
  const AxisList& along = plan.is_columns ? plan.kept : plan.reduced;
  const AxisList& other = plan.is_columns ? plan.reduced : plan.kept;
  const bool fits = pack > 1 && along.has_packs(0, pack) && other.steps_packs(0, pack) &&
                    is_pack_aligned(input.data, input.dtype, pack);
  plan.pack = fits ? static_cast<int>(pack) : 1;
}

// Neighbouring threads take neighbouring results as long as these fill the device; else several
// threads share one.
void cut_reduced_columns(ReductionPlan& plan, std::int64_t wanted_threads) noexcept {
  const std::int64_t columns = quotient_up(plan.kept.count(), plan.pack);
  const std::int64_t least_across = std::min<std::int64_t>(8, power_from(columns));
  std::int64_t lanes = 1;
  while (lanes * least_across < plan.threads && columns * lanes < wanted_threads &&
         plan.reduced.count() >= 2 * kLoadsInFlight * lanes) {
    lanes *= 2;
  }
  plan.lanes = static_cast<int>(lanes);
  plan.group_results = plan.threads / lanes * plan.pack;
}

// Neighbouring threads share a result until each has some loads. A few always share one, so that
// their memory request is whole.
void cut_reduced_rows(ReductionPlan& plan, std::int64_t wanted_threads) noexcept {
  const std::int64_t loads =
      std::max<std::int64_t>(1, quotient_up(plan.reduced.count(), plan.pack));
  std::int64_t lanes = std::min<std::int64_t>(power_from(loads), plan.threads);
  while (lanes > 8 && loads < kLoadsInFlight * lanes &&
         plan.kept.count() * lanes > wanted_threads) {
    lanes /= 2;
  }
  plan.lanes = static_cast<int>(lanes);
  plan.group_results = plan.threads / lanes;
}

void split_reduced(ReductionPlan& plan, std::int64_t wanted_groups) noexcept {
  const std::int64_t of_pass = plan.lanes * (plan.is_columns ? 1 : plan.pack);
  const std::int64_t groups = plan.groups();
  const std::int64_t reduced = plan.reduced.count();
  const std::int64_t splits =
      std::min({wanted_groups / groups, reduced / (of_pass * kLeastSplitLoads), kMostSplits});
  if (splits > 1) {
    plan.chunk = quotient_up(quotient_up(reduced, splits), of_pass) * of_pass;
    plan.splits = quotient_up(reduced, plan.chunk);
  }
}

}  // namespace

ReductionPlan plan_reduction(const TensorView& input,
                             std::uint32_t axes,
                             bool in_order,
                             const DeviceLimits& limits) noexcept {
  ReductionPlan plan;
  const Shape& shape = input.shape();
  Axes kept;
  Axes reduced;
  int reduced_axes = 0;
  std::int64_t out = 1;
  std::array<std::int64_t, kMaxRank> out_strides;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const bool ends = (axes >> static_cast<unsigned>(axis) & 1U) != 0;
    out_strides[static_cast<std::size_t>(axis)] = ends ? 0 : out;
    out *= ends ? 1 : shape[axis];
  }
  bool is_empty = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const bool ends = (axes >> static_cast<unsigned>(axis) & 1U) != 0;
    (ends ? reduced : kept).push({shape[axis], input.strides()[i], out_strides[i]});
    reduced_axes += ends ? 1 : 0;
    is_empty = is_empty || shape[axis] == 0;
  }
  kept.sort();
  kept.put_into(plan.kept);
  if (!in_order || reduced_axes == 1) {
    reduced.sort();
  }
  if (!is_empty) {
    reduced.put_into(plan.reduced);
  }
  const std::int64_t reach = plan.kept.reach(0) + plan.reduced.reach(0);
  plan.wide = reach >= kNarrowIndex / 2 || plan.kept.count() >= kNarrowIndex / 2 ||
              plan.reduced.count() >= kNarrowIndex / 2;
  plan.is_columns = plan.kept.rank() > 0 &&
                    (plan.reduced.rank() == 0 ||
                     std::abs(plan.kept.inner_stride(0)) < std::abs(plan.reduced.inner_stride(0)));
  plan.threads = static_cast<int>(std::min<std::uint32_t>(256, limits.most_group_threads));
  plan.chunk = is_empty ? 0 : plan.reduced.count();
  choose_reduction_pack(plan, input);
  const std::int64_t wanted = kGroupsAtATime * limits.multiprocessors;
  if (plan.is_columns) {
    cut_reduced_columns(plan, 2 * wanted * plan.threads);
  } else {
    cut_reduced_rows(plan, 2 * wanted * plan.threads);
  }
  split_reduced(plan, wanted);
  return plan;
}

ReductionPlan plan_second_pass(const ReductionPlan& first, const DeviceLimits& limits) noexcept {
  ReductionPlan plan;
  std::int64_t in = first.kept.count() * first.splits;
  for (int axis = 0; axis < first.kept.rank(); ++axis) {
    in /= first.kept.size(axis);
    const std::array strides{in, first.kept.stride(axis, 1)};
    plan.kept.push(first.kept.size(axis), strides);
  }
  const std::array<std::int64_t, 1> step{1};
  plan.reduced.push(first.splits, step);
  plan.wide = first.wide;
  plan.threads = first.threads;
  plan.chunk = first.splits;
  cut_reduced_rows(plan, 2 * kGroupsAtATime * limits.multiprocessors * plan.threads);
  return plan;
}

}  // namespace hearth::gpu
