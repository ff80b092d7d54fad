// Steps that move elements: views, joins, and elements at indices.
#include "step_table.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

namespace hearth::onnx {
namespace shape_steps_of {
namespace {

constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();

// A size that differs is that of the same axis of x (0), or the only one left (-1).
std::optional<std::vector<std::int64_t>> simple_target(const std::vector<Sizes>& from,
                                                       const std::vector<Sizes>& to) {
  std::vector<std::int64_t> target;
  bool has_rest = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (is_fixed(to[i])) {
      target.push_back(to[i].front());
    } else if (i < from.size() && from[i] == to[i]) {
      target.push_back(0);
    } else if (!std::exchange(has_rest, true)) {
      target.push_back(-1);
    } else {
      return std::nullopt;
    }
    if (is_fixed(to[i]) && to[i].front() == 0) {
      return std::nullopt;  // a 0 would mean the size of x
    }
  }
  return target;
}

void reshape(StepCall& call) {
  const std::vector<Sizes> to = call.output_shape();
  if (const auto target = simple_target(call.input_shape(0), to)) {
    call.result(call.add("Reshape", {call.input(0), call.draft().integers(*target)}));
  } else {
    call.result(
        call.add("Reshape", {call.input(0), call.shape(to)}, {{"allowzero", std::int64_t{1}}}));
  }
}

void permute(StepCall& call) {
  const auto axes = call.attributes<PermuteAttributes>().axes;
  const auto rank = static_cast<std::ptrdiff_t>(call.input_rank(0));
  const std::vector<std::int64_t> order(axes.begin(), axes.begin() + rank);
  call.result(call.add("Transpose", {call.input(0)}, {{"perm", order}}));
}

// Sizes of 1 keep those of x.
void expand(StepCall& call) {
  const std::vector<Sizes> from = call.input_shape(0);
  std::vector<Sizes> to = call.output_shape();
  const std::size_t leading = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[leading + i]) {
      to[leading + i].assign(call.pass_count(), 1);
    }
  }
  call.result(call.add("Expand", {call.input(0), call.shape(to)}));
}

struct Part {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

// A position that is equal in all passes, counted from the start or, below 0, from the end.
std::optional<std::int64_t> position(const Sizes& at, const Sizes& size) {
  if (is_fixed(at)) {
    return at.front();
  }
  Sizes from_end;
  std::ranges::transform(at, size, std::back_inserter(from_end), std::minus<>());
  return is_fixed(from_end) && from_end.front() < 0 ? std::optional(from_end.front())
                                                    : std::nullopt;
}

// The part of one axis that a slice takes; empty if it depends on sizes in another way.
std::optional<Part> part_of(const StepCall& call, std::size_t axis) {
  const Sizes size = call.input_shape(0)[axis];
  const Sizes length = call.output_shape()[axis];
  Sizes start;
  Sizes end;
  Sizes step;
  bool reaches_end = true;
  for (std::size_t pass = 0; pass < call.pass_count(); ++pass) {
    const auto given = call.attributes<SliceAttributes>(pass);
    start.push_back(given.start[axis]);
    step.push_back(given.step[axis]);
    end.push_back(start.back() + length[pass] * step.back());
    reaches_end = reaches_end && (step.back() > 0 ? end.back() >= size[pass] : end.back() < 0);
  }
  const std::optional<std::int64_t> first = position(start, size);
  const std::optional<std::int64_t> last =
      reaches_end ? std::optional(step.front() > 0 ? kToTheEnd : -kToTheEnd) : position(end, size);
  if (!is_fixed(step) || !first || !last) {
    return std::nullopt;
  }
  return Part{*first, *last, step.front()};
}

void slice(StepCall& call) {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> axes;
  std::vector<std::int64_t> steps;
  for (std::size_t axis = 0; axis < call.input_shape(0).size(); ++axis) {
    const std::optional<Part> part = part_of(call, axis);
    if (!part) {
      call.refuse("the part that a slice takes depends on the size of a named axis",
                  "leave the axis without a name, so that its size is fixed");
      return;
    }
    if (part->start != 0 || part->end != kToTheEnd || part->step != 1) {
      starts.push_back(part->start);
      ends.push_back(part->end);
      axes.push_back(static_cast<std::int64_t>(axis));
      steps.push_back(part->step);
    }
  }
  if (axes.empty()) {
    call.result(call.add("Identity", {call.input(0)}));
    return;
  }
  GraphDraft& draft = call.draft();
  call.result(call.add("Slice",
                       {call.input(0),
                        draft.integers(starts),
                        draft.integers(ends),
                        draft.integers(axes),
                        draft.integers(steps)}));
}

// Zeros around x. Between elements there is no padding in ONNX.
void scatter_slice(StepCall& call) {
  const std::vector<Sizes> inside = call.input_shape(0);
  const std::vector<Sizes> whole = call.output_shape();
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    Sizes starts;
    Sizes rests;
    bool has_steps = false;
    for (std::size_t pass = 0; pass < call.pass_count(); ++pass) {
      const auto given = call.attributes<SliceAttributes>(pass);
      has_steps = has_steps || (given.step[axis] != 1 && inside[axis][pass] > 1);
      starts.push_back(given.start[axis]);
      rests.push_back(whole[axis][pass] - given.start[axis] - inside[axis][pass]);
    }
    if (has_steps || !is_fixed(starts) || !is_fixed(rests)) {
      call.refuse("the place of the elements has steps, or depends on the size of a named axis",
                  "pad with concat");
      return;
    }
    before.push_back(starts.front());
    after.push_back(rests.front());
  }
  before.insert(before.end(), after.begin(), after.end());
  call.result(call.add("Pad", {call.input(0), call.draft().integers(before)}));
}

std::int64_t axis_of(const StepCall& call) {
  return call.attributes<AxisAttributes>().axis;
}

void join(StepCall& call) {
  std::vector<std::string> inputs;
  for (int i = 0; i < call.input_count(); ++i) {
    inputs.push_back(call.input(i));
  }
  call.result(call.add("Concat", std::move(inputs), {{"axis", axis_of(call)}}));
}

void gather(StepCall& call) {
  call.result(
      call.add("GatherElements", {call.input(0), call.input(1)}, {{"axis", axis_of(call)}}));
}

void select(StepCall& call) {
  call.result(call.add("Gather", {call.input(0), call.input(1)}, {{"axis", axis_of(call)}}));
}

// Adds the elements to zeros.
void scatter_add(StepCall& call) {
  const DType dtype = call.output_dtype();
  const std::string zeros =
      call.add("Expand", {call.draft().scalar(dtype, 0.0), call.shape(call.output_shape())});
  call.result(call.add("ScatterElements",
                       {zeros, call.input(1), call.input(0)},
                       {{"axis", axis_of(call)}, {"reduction", std::string("add")}}));
}

void scatter(StepCall& call) {
  const auto given = call.attributes<ScatterAttributes>();
  constexpr std::array<std::string_view, kScatterModeCount> kReductions{
      "none", "add", "mul", "min", "max"};
  const std::string reduction(kReductions[static_cast<std::size_t>(given.mode)]);
  call.result(call.add("ScatterElements",
                       {call.input(0), call.input(1), call.input(2)},
                       {{"axis", std::int64_t{given.axis}}, {"reduction", reduction}}));
}

constexpr StepRow kRows[] = {
    {OpKind::reshape, reshape},
    {OpKind::permute, permute},
    {OpKind::expand, expand},
    {OpKind::slice, slice},
    {OpKind::slice_scatter, scatter_slice},
    {OpKind::concat, join},
    {OpKind::gather, gather},
    {OpKind::index_select, select},
    {OpKind::scatter_add, scatter_add},
    {OpKind::scatter, scatter},
};

}  // namespace
}  // namespace shape_steps_of

std::span<const StepRow> shape_steps() {
  return shape_steps_of::kRows;
}

}  // namespace hearth::onnx
