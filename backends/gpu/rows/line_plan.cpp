#include "line_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "backends/gpu/space/packs.hpp"

namespace hearth::gpu {
namespace {

constexpr std::int64_t kNarrowLineIndex = std::int64_t{1} << 30;
constexpr std::int64_t kKeptLineElements = 32;  // of a thread, in registers
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostLineSplits = 256;
constexpr std::int64_t kLeastLineLoads = 16;    // of a thread, that pay for a split's second pass
constexpr std::int64_t kLineGroupsAtATime = 4;  // on a multiprocessor
constexpr std::int64_t kRaggedLoads = 16;       // of a line, that pay for two partial loads

// True if contiguous lines begin at the same distance from a whole pack in each operand. A driver
// in software reads elements as fast as packs.
bool can_be_ragged(const LinePlan& plan,
                   DType dtype,
                   std::span<const LineOperand> operands,
                   std::int64_t pack,
                   const DeviceLimits& limits) noexcept {
  bool can = !limits.is_cpu && !plan.is_columns && pack > 1 && plan.length >= kRaggedLoads * pack;
  for (std::size_t i = 0; can && i < operands.size(); ++i) {
    const int operand = static_cast<int>(i);
    can = is_pack_aligned(operands[i].data, dtype, pack) && plan.step[i] == 1;
    for (int axis = 0; can && axis < plan.lines.rank(); ++axis) {
      const std::int64_t stride = plan.lines.stride(axis, operand);
      can = stride >= 0 && stride % pack == plan.lines.stride(axis, 0) % pack;
    }
  }
  return can;
}

void choose_line_pack(LinePlan& plan,
                      DType dtype,
                      std::span<const LineOperand> operands,
                      const DeviceLimits& limits) noexcept {
  const std::int64_t pack = pack_of(dtype, plan.is_columns ? 4 : 8);
  bool fits = pack > 1 && (plan.is_columns || plan.length % pack == 0);
  for (std::size_t i = 0; fits && i < operands.size(); ++i) {
    const int operand = static_cast<int>(i);
    fits = is_pack_aligned(operands[i].data, dtype, pack) &&
           (plan.is_columns ? plan.lines.has_packs(operand, pack) && plan.step[i] % pack == 0
                            : plan.lines.steps_packs(operand, pack) && plan.step[i] == 1);
  }
  plan.is_ragged = !fits && can_be_ragged(plan, dtype, operands, pack, limits);
  plan.pack = fits || plan.is_ragged ? static_cast<int>(pack) : 1;
}

/// Plans lines that no thread has to read twice: the rounds, and the threads that they need.
void keep_lines(LinePlan& plan, std::int64_t most_threads, std::int64_t most_kept) noexcept {
  const std::int64_t more = plan.is_ragged ? plan.pack - 1 : 0;
  const std::int64_t loads = quotient_up(plan.length + more, plan.is_columns ? 1 : plan.pack);
  const std::int64_t least_across =
      plan.is_columns
          ? std::min<std::int64_t>(8, power_from(quotient_up(plan.lines.count(), plan.pack)))
          : 1;
  std::int64_t lanes = plan.lanes;
  while (lanes * most_kept < loads * plan.pack) {
    lanes *= 2;
  }
  if (lanes * least_across > most_threads) {
    return;
  }
  plan.lanes = static_cast<int>(lanes);
  plan.threads = static_cast<int>(std::max<std::int64_t>(plan.threads, lanes * least_across));
  plan.rounds = static_cast<int>(power_from(quotient_up(loads, lanes)));
}

void cut_line_rows(LinePlan& plan,
                   std::int64_t wanted_threads,
                   std::int64_t row_elements) noexcept {
  const std::int64_t loads = quotient_up(plan.length, plan.pack);
  const std::int64_t most = std::min<std::int64_t>(power_from(loads), plan.threads);
  std::int64_t lanes = std::min<std::int64_t>(8, most);
  while (lanes < most && (lanes * row_elements < loads * plan.pack ||
                          plan.lines.count() * lanes < wanted_threads)) {
    lanes *= 2;
  }
  plan.lanes = static_cast<int>(lanes);
}

void cut_line_columns(LinePlan& plan, std::int64_t wanted_threads) noexcept {
  const std::int64_t columns = quotient_up(plan.lines.count(), plan.pack);
  const std::int64_t least_across = std::min<std::int64_t>(8, power_from(columns));
  std::int64_t lanes = 1;
  while (lanes * least_across < plan.threads && lanes * 4 <= plan.length &&
         columns * lanes < wanted_threads) {
    lanes *= 2;
  }
  plan.lanes = static_cast<int>(lanes);
}

void split_line(LinePlan& plan, std::int64_t wanted_groups) noexcept {
  const std::int64_t of_pass = plan.lanes * (plan.is_columns ? 1 : plan.pack);
  const std::int64_t splits = std::min(
      {wanted_groups / plan.groups(), plan.length / (of_pass * kLeastLineLoads), kMostLineSplits});
  if (splits > 1) {
    plan.chunk = quotient_up(quotient_up(plan.length, splits), of_pass) * of_pass;
    plan.splits = quotient_up(plan.length, plan.chunk);
  }
}

}  // namespace

LinePlan plan_lines(const Shape& shape,
                    int axis,
                    DType dtype,
                    std::span<const LineOperand> operands,
                    int kept,
                    const DeviceLimits& limits) noexcept {
  const int count = static_cast<int>(operands.size());
  LinePlan plan(count);
  std::array<std::int64_t, AxisList::kMostOperands> strides;
  for (int i = 0; i < shape.rank(); ++i) {
    for (std::size_t operand = 0; operand < operands.size(); ++operand) {
      strides[operand] = operands[operand].strides[static_cast<std::size_t>(i)];
    }
    if (i == axis) {
      std::copy_n(strides.begin(), operands.size(), plan.step.begin());
    } else {
      plan.lines.push(shape[i], std::span(strides).first(operands.size()));
    }
  }
  plan.length = shape[axis];
  plan.chunk = plan.length;
  plan.wide = plan.lines.count() >= kNarrowLineIndex || plan.length >= kNarrowLineIndex;
  for (int i = 0; i < count; ++i) {
    const std::int64_t along = std::abs(plan.step[static_cast<std::size_t>(i)]) * plan.length;
    plan.wide = plan.wide || plan.lines.reach(i) + along >= kNarrowLineIndex;
  }
  plan.is_columns = plan.step[operands.size() - 1] > 1 && plan.lines.rank() > 0;
  choose_line_pack(plan, dtype, operands, limits);
  const auto most_threads = std::min<std::int64_t>(kMostThreads, limits.most_group_threads);
  plan.threads = static_cast<int>(std::min<std::int64_t>(256, most_threads));
  const std::int64_t wanted = kLineGroupsAtATime * limits.multiprocessors;
  if (plan.is_columns) {
    cut_line_columns(plan, wanted * plan.threads);
  } else {
    cut_line_rows(plan, wanted * plan.threads, limits.row_elements);
  }
  const std::int64_t bytes = dtype == DType::f64 ? 8 : 4;
  keep_lines(plan, most_threads, kKeptLineElements * 4 / (bytes * std::max(kept, 1)));
  if (plan.rounds == 0) {
    split_line(plan, 2 * wanted);
  }
  return plan;
}

}  // namespace hearth::gpu
