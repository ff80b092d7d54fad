// The layout of a group's values in its space: one element at each position, one for each row, or
// one for all. The ops determine the space: it grows from the shape of the rows to that of their
// elements.
#include "group_gather.hpp"

#include <algorithm>
#include <bit>

#include <hearth/streams/op_facts.hpp>

namespace hearth {
namespace {

/// Whether the axes are one or more trailing axes of the rank.
bool are_last(std::uint32_t axes, int rank) noexcept {
  const int count = std::popcount(axes);
  return count > 0 && count <= rank && axes == (((1U << count) - 1U) << (rank - count));
}

}  // namespace

GroupGather::Fit GroupGather::fit_of(ShapeId id) const {
  if (id == group_.space) {
    return Fit::full;
  }
  if (group_.row_axes == 0) {
    return Fit::none;
  }
  const Shape& space = shape_of(group_.space);
  const Shape& shape = shape_of(id);
  const int rows = space.rank() - group_.row_axes;
  if (shape.rank() != space.rank() && shape.rank() != rows) {
    return Fit::none;
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != (axis < rows ? space[axis] : 1)) {
      return Fit::none;
    }
  }
  return shape.rank() == space.rank() ? Fit::row_kept : Fit::row_dropped;
}

bool GroupGather::begin_rows(const Shape& kept) {
  const Shape& space = shape_of(group_.space);
  if (group_.row_axes != 0 || kept.rank() != space.rank()) {
    return refuse(Obstacle::shape);
  }
  int axes = 0;
  while (axes < kept.rank() && kept[kept.rank() - 1 - axes] == 1) {
    ++axes;
  }
  for (int axis = 0; axis < kept.rank() - axes; ++axis) {
    if (kept[axis] != space[axis]) {
      return refuse(Obstacle::shape);
    }
  }
  if (axes == 0) {
    return refuse(Obstacle::shape);
  }
  if (reach_ == GroupReach::plain) {
    return refuse(less_);
  }
  if (group_.has_anchor()) {
    return refuse(Obstacle::row_epilogue);
  }
  if (row_length(space, axes) > kLongestGroupRow) {
    return refuse(Obstacle::long_row);
  }
  group_.row_axes = axes;
  return true;
}

bool GroupGather::widen(ShapeId to) {
  const auto is_cell = [](const Member& member) { return member.extent == GroupExtent::cell; };
  if (!group_.has_space) {
    group_.space = to;
    group_.has_space = true;
    return true;
  }
  if (group_.row_axes != 0 || group_.has_anchor()) {
    return refuse(Obstacle::shape);
  }
  const ShapeId before = group_.space;
  const auto lies_so = [before](const Input& input) { return input.operand.shape == before; };
  const auto may_be_row = [&](const Member& member) {
    return is_cell(member) ||
           (member.operand.shape == before && !depends_on_place(member.op.kind()));
  };
  if (!std::ranges::all_of(group_.inputs, lies_so) ||
      !std::ranges::all_of(group_.members, may_be_row)) {
    return refuse(Obstacle::shape);
  }
  group_.space = to;
  if (!begin_rows(shape_of(before))) {
    group_.space = before;
    return false;
  }
  for (Member& member : group_.members) {
    member.extent = is_cell(member) ? GroupExtent::cell : GroupExtent::row;
  }
  for (Input& input : group_.inputs) {
    input.extent = GroupExtent::row;
  }
  return true;
}

// Restores the state before widen() and begin_rows().
void GroupGather::forget_rows() noexcept {
  group_.row_axes = 0;
  for (Member& member : group_.members) {
    member.extent = member.extent == GroupExtent::row ? GroupExtent::full : member.extent;
  }
  for (Input& input : group_.inputs) {
    input.extent = GroupExtent::full;
  }
}

/// Whether the value has its own element at each position of the space.
bool GroupGather::is_full(const Source& source) const {
  if (source.member == nullptr) {
    return fit_of(source.operand.shape) != Fit::row_kept;
  }
  return !source.root.is_made || group_.members[source.root.number].extent == GroupExtent::full;
}

bool GroupGather::place_elementwise(const OpView& op, GroupExtent& extent) {
  const Operand out = op.output(0);
  const bool is_cell =
      !depends_on_place(op.kind()) && std::ranges::all_of(found_, [](const Source& source) {
        return source.member != nullptr && source.member->extent == GroupExtent::cell;
      });
  if (is_cell) {
    extent = GroupExtent::cell;
    return true;
  }
  if (!group_.has_space) {
    return widen(out.shape) && place_full(extent);
  }
  switch (fit_of(out.shape)) {
    case Fit::full:
      if (group_.has_anchor() && depends_on_place(op.kind())) {
        return refuse(Obstacle::place);
      }
      return is_of_short_rows() && !depends_on_place(op.kind()) ? place_row(out, extent)
                                                                : place_full(extent);
    case Fit::row_kept:
    case Fit::row_dropped:
      return depends_on_place(op.kind()) ? refuse(Obstacle::place) : place_row(out, extent);
    case Fit::none:
      break;
  }
  if (begin_rows(shape_of(out.shape))) {
    return depends_on_place(op.kind()) ? refuse(Obstacle::place) : place_row(out, extent);
  }
  const Obstacle to_rows = obstacle_;
  if (widen(out.shape)) {
    return place_full(extent);
  }
  return refuse(to_rows != Obstacle::shape ? to_rows : obstacle_);
}

// Refuses a row's value without its row axes: it would broadcast along the wrong axes.
bool GroupGather::place_full(GroupExtent& extent) {
  for (const Source& source : found_) {
    if (source.member != nullptr && source.member->extent == GroupExtent::row &&
        fit_of(source.operand.shape) == Fit::row_dropped) {
      return refuse(Obstacle::row);
    }
  }
  if (std::ranges::none_of(found_, [this](const Source& each) { return is_full(each); })) {
    return refuse(Obstacle::row);
  }
  extent = GroupExtent::full;
  return true;
}

bool GroupGather::is_of_short_rows() const {
  return group_.row_axes != 0 && row_length(shape_of(group_.space), group_.row_axes) == 1 &&
         std::ranges::none_of(found_, [this](const Source& each) { return is_full(each); });
}

bool GroupGather::place_row(const Operand& out, GroupExtent& extent) {
  for (const Source& source : found_) {
    const bool is_cell = source.member != nullptr && source.member->extent == GroupExtent::cell;
    const bool is_row = source.member == nullptr || source.member->extent == GroupExtent::row;
    if (!is_cell && (!is_row || source.operand.shape != out.shape)) {
      return refuse(Obstacle::row);
    }
  }
  extent = GroupExtent::row;
  return true;
}

bool GroupGather::place_along_rows(const OpView& op, GroupExtent& extent) {
  const Shape& shape = shape_of(op.input(0).shape);
  const std::uint32_t axes = row_axes_of(op, shape.rank());
  if (!are_last(axes, shape.rank())) {
    return refuse(Obstacle::axes);
  }
  if (reach_ == GroupReach::plain) {
    return refuse(less_);
  }
  if (group_.has_anchor()) {
    return refuse(Obstacle::row_epilogue);
  }
  const int count = std::popcount(axes);
  const std::int64_t length = row_length(shape, count);
  if (length < 1 || length > kLongestGroupRow) {
    return refuse(Obstacle::long_row);
  }
  // The op alone folds a tensor of another order in that order.
  for (const Source& source : found_) {
    const bool is_straight = source.member != nullptr ? source.member->extent != GroupExtent::cell
                                                      : source.slot->layout->contiguous;
    if (source.operand.shape != op.input(0).shape || !is_straight) {
      return refuse(Obstacle::order);
    }
  }
  if ((!group_.has_space || op.input(0).shape != group_.space) && !widen(op.input(0).shape)) {
    return false;
  }
  if (group_.row_axes != 0 && group_.row_axes != count) {
    return refuse(Obstacle::row);
  }
  if (!std::ranges::all_of(found_, [this](const Source& each) { return is_full(each); })) {
    return refuse(Obstacle::row);
  }
  group_.row_axes = count;
  extent = op_facts(op.kind()).fusion == FusionClass::reduce ? GroupExtent::row : GroupExtent::full;
  return true;
}

bool GroupGather::place_view(const Operand& out, GroupExtent& extent) {
  const Member& shown = *found_.front().member;
  extent = shown.extent;
  if (shown.extent == GroupExtent::cell) {
    return true;
  }
  const Fit fit = fit_of(out.shape);
  if (shown.extent == GroupExtent::full) {
    return fit == Fit::full;
  }
  const Fit from = fit_of(shown.operand.shape);
  if (fit == Fit::full) {  // repeated along its row
    extent = GroupExtent::full;
    return from != Fit::row_dropped;
  }
  return fit != Fit::none;
}

}  // namespace hearth
