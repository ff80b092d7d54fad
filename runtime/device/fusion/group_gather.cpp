#include "group_gather.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/runtime_tables.hpp"

namespace hearth {
namespace {

// The dtype of the first input, or of the result of an op without inputs.
DType dtype_of_values(const OpView& op) noexcept {
  return op.operand(0).dtype;
}

bool has_one_result(const OpRecord& record) noexcept {
  return record.output_count == 1 && !record.has(RecordFlag::exclusive) &&
         !record.has(RecordFlag::update);
}

bool is_view(OpKind kind) noexcept {
  return kind == OpKind::reshape || kind == OpKind::expand;
}

}  // namespace

bool may_be_fused(const OpView& op, const ExpressionTable& expressions) noexcept {
  const OpRecord& record = op.record();
  if (record.kind == OpKind::expression) {
    const ExprId id{op.attributes<ExpressionAttributes>().expression};
    return has_one_result(record) && may_join_group(expressions[id]);
  }
  return has_one_result(record) && may_join_group(record.kind, dtype_of_values(op));
}

// Estimates the length of the op's text in a kernel: a driver's compile time grows with it.
std::size_t weight_of(const OpView& op) noexcept {
  switch (op.kind()) {
    case OpKind::expression:
      return std::max(1U, op.attributes<ExpressionAttributes>().flops);
    case OpKind::sin:
    case OpKind::cos:
    case OpKind::pow:
    case OpKind::atan2:
      return dtype_of_values(op) == DType::f64 ? 4U : 2U;
    case OpKind::exp:
    case OpKind::log:
    case OpKind::tanh:
    case OpKind::erf:
    case OpKind::atan:
      return dtype_of_values(op) == DType::f64 ? 2U : 1U;
    default:
      return 1U;
  }
}

bool may_be_anchor(const OpView& op) noexcept {
  return has_one_result(op.record()) && may_anchor_group(op.kind(), dtype_of_values(op));
}

// A result that ends in the group counts as needed outside of the first ops from its own op to its
// last reader. Any other result counts from its own op on.
std::size_t FusedGroup::ops_with_outputs(std::size_t most_outputs) const {
  std::array<std::int32_t, (std::size_t{1} << 8U) + 2> change{};
  std::array<std::size_t, std::size_t{1} << 8U> last_read{};
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t s = 0; s < members[i].source_count; ++s) {
      const GroupSource& source = sources[members[i].first_source + s];
      if (source.is_made) {
        last_read[source.number] = i;
      }
    }
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].is_recomputed) {
      ++change[i + 1];
      --change[members[i].is_internal ? std::max(last_read[i], i) + 1 : members.size() + 1];
    }
  }
  std::size_t ops = 0;
  std::size_t most_ops = 0;
  std::int32_t outputs = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    ops += members[i].role != Role::views ? 1U : 0U;
    outputs += change[i + 1];
    if (outputs <= static_cast<std::int32_t>(most_outputs)) {
      most_ops = ops;
    }
  }
  return most_ops;
}

const Shape& GroupGather::shape_of(ShapeId id) const {
  return dispatch_.shape_of(id);
}

void GroupGather::gather(const LaneState& lane, std::size_t most_ops, GroupReach reach) {
  reach_ = reach;
  less_ = reach == GroupReach::chained ? Obstacle::refused : less_;
  most_ops_ = most_ops;
  bypasses_recomputed_ = false;
  record_count_ = 0;
  is_cut_ = false;
  gather_records(lane);
  while (must_shrink())
    [[unlikely]] {
      gather_records(lane);
    }
}

// Each of the two happens at most once.
bool GroupGather::must_shrink() noexcept {
  if (!is_chain_closed_) {
    reach_ = GroupReach::single;
    less_ = Obstacle::needed;
    return true;
  }
  const bool leaves = !bypasses_recomputed_ && stores_recomputed_value();
  bypasses_recomputed_ = bypasses_recomputed_ || leaves;
  return leaves;
}

bool GroupGather::stores_recomputed_value() const noexcept {
  return has_recomputed_ && std::ranges::any_of(group_.members, [](const Member& member) {
           return member.is_output() && member.op.record().has(RecordFlag::recomputes);
         });
}

// Phases: the records of the window in order, as long as one may still join; then the use of each
// value.
void GroupGather::gather_records(const LaneState& lane) {
  group_.clear();
  ++gathering_;
  is_chain_closed_ = true;
  is_ended_ = false;
  has_recomputed_ = false;
  passed_ops_ = 0;
  ops_ = 0;
  first_obstacle_ = Obstacle::none;
  first_passed_ = 0;
  open_ = 0;
  for (ahead_ = 0; goes_on(); ++ahead_) {
    const OpRecord* const record = lane.lane->peek(ahead_);
    if (record == nullptr || !lane.window.may_be_grouped(*record)) {
      break;
    }
    if (lane.window.is_done(*record)) {
      continue;
    }
    const OpView op(*record, lane.lane->peek_blob(ahead_));
    if (take(lane, op)) {
      group_.records = ahead_ + 1;
      continue;
    }
    if (group_.members.empty()) {
      first_obstacle_ = obstacle_;
      record_count_ = std::max(record_count_, ahead_);
      is_cut_ = is_cut_ || goes_on();
      return;
    }
    const bool is_view = op_info(op.kind()).op_class == OpClass::view;
    const bool makes_kernel = !is_view && op.kind() != OpKind::drop;
    if (first_obstacle_ == Obstacle::none && (makes_kernel || (is_view && reads_result(op)))) {
      first_obstacle_ = obstacle_;
      first_passed_ = ahead_;
    }
    pass(op, ahead_);
    passed_ops_ += makes_kernel ? 1 : 0;
  }
  if (first_obstacle_ == Obstacle::none) {
    first_passed_ = ahead_;
  }
  record_count_ = std::max(record_count_, ahead_);
  is_cut_ = is_cut_ || goes_on();
  settle();
}

// Once no op can join, only ends of results matter: an internal result stays out of memory.
bool GroupGather::goes_on() const noexcept {
  if (passed_ops_ > kMostPassedOps || ops_ >= most_ops_ || is_ended_) {
    return ops_ > 1 && open_ > 0 && ahead_ < group_.records + kMostPassedRecords;
  }
  return ahead_ <= group_.records + kMostPassedRecords;
}

bool GroupGather::take(const LaneState& lane, const OpView& op) {
  if (op.kind() == OpKind::drop) {
    return take_drop(op);
  }
  if (passed_ops_ > kMostPassedOps || ops_ >= most_ops_) {
    return refuse(Obstacle::ops);
  }
  if (is_ended_) {
    return refuse(Obstacle::ended);
  }
  if (passed_ops_ > 0 && op.record().has(RecordFlag::recomputes)) [[unlikely]] {
    if (bypasses_recomputed_) {
      return refuse(Obstacle::recomputed);
    }
    has_recomputed_ = true;
  }
  if (may_be_anchor(op) && reach_ != GroupReach::plain) {
    return group_.members.empty() ? take_anchor(lane, op) : take_chained_anchor(lane, op);
  }
  if (is_view(op.kind()) && has_one_result(op.record())) {
    return take_view(op);
  }
  if (!may_be_fused(op, dispatch_.expressions())) {
    obstacle_ = may_be_anchor(op) ? less_ : Obstacle::kind;
    return take_last(lane, op);
  }
  return take_op(lane, op) || take_last(lane, op);
}

// If the device has no such kernel, reports the obstacle to the op's place in the group.
bool GroupGather::take_last(const LaneState& lane, const OpView& op) {
  if (group_.members.empty() || !has_one_result(op.record()) || !may_end_chain(op.kind())) {
    return false;
  }
  const Obstacle to_its_place = obstacle_;
  is_ended_ = take_chained_anchor(lane, op);
  const bool is_possible = obstacle_ != Obstacle::prologue && obstacle_ != Obstacle::unrelated;
  return is_ended_ || refuse(is_possible ? obstacle_ : to_its_place);
}

bool GroupGather::take_drop(const OpView& op) {
  if (op.record().blob_size_bytes != 0 || !dispatch_.guests.empty() || group_.members.empty()) {
    return refuse(Obstacle::drop);
  }
  enter_end({.ahead = ahead_, .operand = op.input(0), .is_drop = true});
  return true;
}

void GroupGather::pass(const OpView& op, std::uint64_t ahead) {
  for (int i = 0; i < op.record().operand_count(); ++i) {
    GatherMark& mark = mark_of(handles_.slot(op.operand(i).slot));
    mark.first_outside = std::min(mark.first_outside, ahead);
  }
}

void GroupGather::take_in(const Member& member) {
  enter_ends(member.op);
  Slot& slot = handles_.slot(member.operand.slot);
  mark_of(slot).member = static_cast<std::int16_t>(group_.members.size());
  group_.members.push_back(member);
  group_.members.back().slot = &slot;
  ++open_;
  ops_ += member.role != FusedGroup::Role::views ? weight_of(member.op) : 0U;
}

bool GroupGather::find_tensor(const Operand& operand, Slot& slot) {
  if (is_uncreated(slot, operand)) {
    return refuse(Obstacle::unready_input);
  }
  if (slot.late) {
    handles_.settle(slot);
  }
  return slot.state == SlotState::live || refuse(Obstacle::unready_input);
}

bool GroupGather::find_sources(const OpView& op) {
  found_.clear();
  for (int i = 0; i < op.record().input_count; ++i) {
    Source source{.operand = op.input(i)};
    Slot& slot = handles_.slot(source.operand.slot);
    if (const std::int16_t member = mark_of(slot).member; member >= 0) {
      source.member = &group_.members[static_cast<std::size_t>(member)];
      source.root = source.member->role == FusedGroup::Role::views
                        ? group_.sources[source.member->first_source]
                        : GroupSource{.is_made = true, .number = static_cast<std::uint8_t>(member)};
    } else if (!find_tensor(source.operand, slot)) {
      return false;
    } else {
      source.slot = &slot;
    }
    found_.push_back(source);
  }
  return true;
}

bool GroupGather::is_connected() const noexcept {
  return std::ranges::any_of(found_, [this](const Source& source) {
    return source.member != nullptr || mark_of(*source.slot).input >= 0;
  });
}

// If the op is refused, all its additions are undone.
bool GroupGather::take_op(const LaneState& lane, const OpView& op) {
  if (!group_.members.empty() && ops_ + weight_of(op) > most_ops_) {
    return refuse(Obstacle::ops);
  }
  const std::size_t parameters = group_.parameters + group_parameter_count(op);
  if (parameters > kMostExpressionParameters) {
    return refuse(Obstacle::numbers);
  }
  if (!find_sources(op)) {
    return false;
  }
  if (passed_ops_ > 0 && !is_connected()) {
    return refuse(Obstacle::unrelated);
  }
  const ShapeId space = group_.space;
  const bool had_space = group_.has_space;
  const int row_axes = group_.row_axes;
  GroupExtent extent = GroupExtent::full;
  const bool has_place =
      runs_along_rows(op.kind()) ? place_along_rows(op, extent) : place_elementwise(op, extent);
  Member member{.op = op, .operand = op.output(0), .ahead = ahead_, .extent = extent};
  const GroupExtent read = runs_along_rows(op.kind()) ? GroupExtent::full : extent;
  if (!has_place || !enter_sources(lane, read, member)) {
    if (group_.row_axes != row_axes) {
      forget_rows();
    }
    group_.space = space;
    group_.has_space = had_space;
    return false;
  }
  group_.parameters = parameters;
  take_in(member);
  return true;
}

bool GroupGather::take_anchor(const LaneState& lane, const OpView& op) {
  if (group_.before == nullptr && !dispatch_.may_anchor(op)) {
    return refuse(Obstacle::lone_anchor);
  }
  if (group_.before == nullptr && dispatch_.joinable_calls(op) > 1) {
    return refuse(Obstacle::joined);
  }
  Member member{
      .op = op, .operand = op.output(0), .ahead = ahead_, .role = FusedGroup::Role::anchor};
  for (int i = 0; i < op.record().input_count; ++i) {
    Slot& slot = handles_.slot(op.input(i).slot);
    const bool is_chained = group_.before != nullptr && i == group_.before_input;
    if (!is_chained && !find_tensor(op.input(i), slot)) {
      group_.anchor_inputs.clear();
      return false;
    }
    member.needs |= 1U << (FusedGroup::kFirstAnchorNeed + static_cast<std::uint32_t>(i));
    const bool is_foreign = !is_chained && slot.home != lane.id && !slot.is_published;
    group_.foreign_uses += is_foreign ? 1U : 0U;
    group_.anchor_inputs.push_back({.operand = op.input(i), .slot = &slot});
  }
  group_.space = member.operand.shape;
  group_.has_space = true;
  take_in(member);
  return true;
}

// The anchor reads the value completely, so no other op may need any part of it.
int GroupGather::chained_input(const OpView& op) {
  const auto cannot = [this](Obstacle why) {
    obstacle_ = why;
    return -1;
  };
  if (group_.before != nullptr) {
    return cannot(Obstacle::second_chain);
  }
  if (reach_ != GroupReach::chained) {
    return cannot(less_);
  }
  int found = -1;
  for (int i = 0; i < op.record().input_count; ++i) {
    const std::int16_t member = mark_of(handles_.slot(op.input(i).slot)).member;
    if (member < 0) {
      continue;
    }
    const Member& each = group_.members[static_cast<std::size_t>(member)];
    const Obstacle why = found >= 0 ? Obstacle::two_results : obstacle_to_feed(op, i, each);
    if (why != Obstacle::none) {
      return cannot(why);
    }
    found = i;
  }
  return found >= 0 ? found : cannot(Obstacle::unrelated);
}

GroupGather::Obstacle GroupGather::obstacle_to_feed(const OpView& op,
                                                    int input,
                                                    const Member& member) const {
  if (member.role == FusedGroup::Role::views) {
    return Obstacle::viewed_result;
  }
  if (member.ahead != group_.members.back().ahead) {
    return Obstacle::inner_result;
  }
  if (member.extent != GroupExtent::full) {
    return Obstacle::part_result;
  }
  const OpKind producer =
      group_.has_anchor() ? group_.members.front().op.kind() : OpKind::expression;
  return dispatch_.may_take_prologue(op.kind(), input, producer) ? Obstacle::none
                                                                 : Obstacle::prologue;
}

// Treats all other values as internal and leaves out unneeded ones at once. If a value turns out to
// have a consumer, the chain is not closed and everything is gathered again.
bool GroupGather::take_chained_anchor(const LaneState& lane, const OpView& op) {
  const int input = chained_input(op);
  if (input < 0) {
    return false;
  }
  for (int i = 0; i < op.record().input_count; ++i) {
    if (i != input && !find_tensor(op.input(i), handles_.slot(op.input(i).slot))) {
      return false;
    }
  }
  if (!dispatch_.may_anchor(op) && !may_end_chain(op.kind())) {
    return refuse(Obstacle::lone_anchor);
  }
  if (dispatch_.joinable_calls(op, input) > 1) {
    return refuse(Obstacle::joined);
  }
  for (Member& member : group_.members) {
    member.is_internal = true;
  }
  group_.members.back().feeds_next_anchor = true;
  leave_out_unneeded();
  for (const Member& member : group_.members) {
    GatherMark& mark = mark_of(*member.slot);
    mark.member = -1;
    mark.is_before = true;
  }
  for (const Input& each : group_.inputs) {
    mark_of(*each.slot).input = -1;
  }
  std::swap(group_, before_);
  group_.clear();
  std::swap(group_.ends, before_.ends);
  group_.before = &before_;
  group_.before_input = input;
  return take_anchor(lane, op);
}

bool GroupGather::closes_chain() noexcept {
  return group_.before == nullptr ||
         std::ranges::all_of(before_.members, [this](const Member& member) {
           const std::int16_t end = mark_of(*member.slot).end;
           return end >= 0 && !group_.ends[static_cast<std::size_t>(end)].is_own &&
                  ends_in_group(group_.ends[static_cast<std::size_t>(end)]);
         });
}

bool GroupGather::fails_with_anchor() const noexcept {
  const auto fails = [](const FusedGroup& group) {
    return group.has_anchor() &&
           may_fail(group.members.front().op.kind(), dtype_of_values(group.members.front().op));
  };
  return fails(group_) || (group_.before != nullptr && fails(*group_.before));
}

// A view of a group's value is the same value in another shape. A reshape right after some anchors
// sets the shape of the group's space.
bool GroupGather::take_view(const OpView& op) {
  if (group_.members.empty()) {
    return refuse(Obstacle::view);
  }
  if (!find_sources(op)) {
    return false;
  }
  const Source& source = found_.front();
  if (source.member == nullptr) {
    return refuse(Obstacle::unrelated);
  }
  if (source.member->role == FusedGroup::Role::anchor) {
    if (op.kind() != OpKind::reshape || !may_view_anchor(source.member->op.kind()) ||
        group_.members.size() > 1) {
      return refuse(Obstacle::view);
    }
    group_.space = op.output(0).shape;
  }
  Member member{.op = op,
                .operand = op.output(0),
                .ahead = ahead_,
                .needs = source.member->needs,
                .first_source = static_cast<std::uint8_t>(group_.sources.size()),
                .source_count = 1,
                .role = FusedGroup::Role::views};
  if (!place_view(member.operand, member.extent)) {
    return refuse(Obstacle::view);
  }
  group_.sources.push_back(source.root);
  take_in(member);
  return true;
}

// ---- what is taken ----

// `extent`: extent of the values that the op reads.
bool GroupGather::enter_sources(const LaneState& lane, GroupExtent extent, Member& member) {
  const std::size_t inputs = group_.inputs.size();
  const std::size_t sources = group_.sources.size();
  member.first_source = static_cast<std::uint8_t>(sources);
  member.source_count = static_cast<std::uint8_t>(found_.size());
  for (const Source& source : found_) {
    if (source.member != nullptr) {
      member.needs |= source.member->needs;
      group_.sources.push_back(source.root);
    } else if (!enter_input(lane, source, extent, member)) {
      while (group_.inputs.size() > inputs) {
        mark_of(*group_.inputs.back().slot).input = -1;
        group_.inputs.pop_back();
      }
      group_.sources.resize(sources);
      return false;
    }
  }
  return true;
}

// A tensor of the rows' own shape is read once for each row, by every op.
bool GroupGather::enter_input(const LaneState& lane,
                              const Source& source,
                              GroupExtent extent,
                              Member& member) {
  const Fit fit = group_.has_space ? fit_of(source.operand.shape) : Fit::none;
  const GroupExtent wanted =
      extent == GroupExtent::row || fit == Fit::row_kept ? GroupExtent::row : GroupExtent::full;
  std::int16_t& number = mark_of(*source.slot).input;
  if (number < 0) {
    if (group_.inputs.size() >= kMostGroupInputs) {
      return refuse(Obstacle::inputs);
    }
    group_.foreign_uses += source.slot->home != lane.id && !source.slot->is_published ? 1U : 0U;
    number = static_cast<std::int16_t>(group_.inputs.size());
    group_.inputs.push_back({.operand = source.operand, .slot = source.slot, .extent = wanted});
  } else if (Input& known = group_.inputs[static_cast<std::size_t>(number)];
             known.extent != wanted) {
    // A tensor that was read as a whole before there were rows stays so; a row's value must not.
    if (fit == Fit::row_dropped || (extent == GroupExtent::row && fit != Fit::row_kept)) {
      return refuse(Obstacle::row);
    }
    known.extent = GroupExtent::row;
  }
  member.needs |= 1U << static_cast<unsigned>(number);
  group_.sources.push_back({.number = static_cast<std::uint8_t>(number)});
  return true;
}

void GroupGather::enter_ends(const OpView& op) {
  for (int i = 0; i < op.record().input_count; ++i) {
    if (op.input(i).use == Use::read_last) {
      enter_end({.ahead = ahead_, .operand = op.input(i)});
    }
  }
}

void GroupGather::enter_end(const FusedGroup::End& end) {
  GatherMark& mark = mark_of(handles_.slot(end.operand.slot));
  mark.end = static_cast<std::int16_t>(group_.ends.size());
  open_ -= mark.member >= 0 || mark.is_before ? 1U : 0U;
  group_.ends.push_back(end);
}

}  // namespace hearth
