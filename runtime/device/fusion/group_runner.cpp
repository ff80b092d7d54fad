#include "group_runner.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_table.hpp>

#include "group_legality.hpp"

namespace hearth {
namespace {

constexpr std::size_t kFewestOps = 2;
// Flags of a record that belong to its form, such as the position of its scalar. Whether the record
// recomputes a value does not.
constexpr unsigned kFormFlags = 0xffU & ~static_cast<unsigned>(RecordFlag::recomputes);

}  // namespace

bool GroupRunner::can_begin(LaneState& lane, const OpRecord& first) const {
  return lane.window.may_be_grouped(first) && !lane.in_group && !lane.has_expired &&
         !lane.awaited_work && !dispatch_.lost() && !dispatch_.checks_blocks() &&
         !in_flight_.is_full() && !(lane.limits.is_set() && lane.limits.over(first.sequence)) &&
         may_begin_group(OpView(first, lane.lane->front_blob()));
}

bool GroupRunner::may_begin_group(const OpView& op) const {
  return may_be_fused(op, dispatch_.expressions()) ||
         (may_be_anchor(op) && dispatch_.may_anchor(op));
}

// Such a window, common in programs that read each result, has nothing to gather.
bool GroupRunner::runs_alone(const LaneState& lane) {
  const OpRecord* const second = lane.lane->peek(1);
  return second == nullptr || !lane.window.may_be_grouped(*second);
}

// Phases: the ops of one kernel; their plan; the kernel. Then their records leave, at once or at
// their turn.
bool GroupRunner::run(LaneState& lane) {
  const OpRecord& first = *lane.lane->front();
  if (!can_begin(lane, first)) {
    const OpView op(first, lane.lane->front_blob());
    if (may_begin_group(op)) {
      lane.window.use_known_plans();  // it runs alone by timing, not by the program
    }
    record_alone(lane, op);
    return false;
  }
  if (runs_alone(lane)) {
    group_.clear();
    record_lone_record(lane);
    return false;
  }
  const std::uint64_t sequence = first.sequence;
  std::uint64_t last = sequence;
  Fused fused = Fused::not_now;
  lacks_plan_ = false;
  refusal_ = {};
  try {
    const Fused again = run_recalled(lane);
    if (again == Fused::ran) {
      return true;
    }
    if (again == Fused::not_now) {
      lane.window.run_singly_through(sequence + group_.records - 1);
      return false;
    }
    for (const GroupReach reach : {GroupReach::chained, GroupReach::single, GroupReach::plain}) {
      if (reach == GroupReach::single && group_.before == nullptr) {
        continue;  // it had no group before its anchor
      }
      const Gathered gathered = gather(lane, reach);
      HEARTH_ASSERT(gathered == Gathered::nothing || gathered == Gathered::shapeless ||
                        breach_of_group(lane).empty(),
                    breach_of_group(lane).c_str());
      if (gathered == Gathered::unneeded) {
        lane.late_ends.reserve(lane.late_ends.size() + group_.ends.size());
        dispatch_.skip_unneeded(group_, lane);
        finish(lane);
        return true;
      }
      record_end(lane, gathered);
      if (gathered != Gathered::group) {
        return false;
      }
      last = sequence + group_.records - 1;
      fused = run_gathered(lane, lane.window.may_be_planned(first));
      if (fused == Fused::ran) {
        return true;
      }
      const bool may_be_less = group_.has_anchor() || group_.row_axes > 0;
      if (fused == Fused::not_now || !may_be_less) {
        break;
      }
      record_reduced_reach();
    }
  } catch (...) {
    // Ops that have not begun run singly and report their own failures.
    dispatch_.log_mistake("the fusion of a group");
  }
  record_single(lane, last, fused);
  lane.window.run_singly_through(last);
  return false;
}

// With a journal every group is gathered, for the reason of its end.
Fused GroupRunner::run_recalled(LaneState& lane) {
  if (dispatch_.journal() != nullptr) [[unlikely]] {
    return Fused::unsupported;
  }
  const GroupPlans* const known = recall_.recall(lane, group_, before_);
  if (known == nullptr) {
    return Fused::unsupported;
  }
  HEARTH_ASSERT(breach_of_group(lane).empty(), breach_of_group(lane).c_str());
  for (const PlanStore::Plan* const plan : {known->own, known->before}) {
    if (plan != nullptr) {
      PlanStore::record_use(*plan);
      ++plan_hits_;
    }
  }
  return run_planned(lane, known->kernels());
}

// An anchor without prologue and epilogue has no expression to plan.
Fused GroupRunner::run_gathered(LaneState& lane, bool may_plan) {
  if (is_refused_chain()) {
    return Fused::unsupported;
  }
  GroupPlans plans;
  const auto find = [&](FusedGroup* group, const PlanStore::Plan*& found) {
    if (group == nullptr || !group->computes()) {
      return true;
    }
    refusal_ = {};  // it may refer to a plan's text, which eviction frees
    found = plan(*group, may_plan);
    refusal_ = found != nullptr ? std::string_view(found->why_none) : std::string_view();
    return found != nullptr && found->expression != nullptr;
  };
  const std::uint64_t evictions = evictions_;
  bool has_plans = find(group_.before, plans.before) && find(&group_, plans.own);
  if (evictions_ != evictions) {  // the second plan may have evicted the first
    has_plans = find(group_.before, plans.before) && find(&group_, plans.own);
  }
  if (!has_plans) {
    return Fused::unsupported;
  }
  if (reach_ != GroupReach::plain && !lacks_plan_) {
    recall_.learn(lane, group_, looked_, is_cut_, plans);
  }
  return run_planned(lane, plans.kernels());
}

// A group that the backend refuses is gathered again with less, and the smaller group is remembered
// instead.
Fused GroupRunner::run_planned(LaneState& lane, const GroupKernels& kernels) {
  if (!dispatch_.admits(group_, kernels)) {
    refusal_ = "the limit of fused groups is reached (HEARTH_FUSION_LIMIT)";
    return Fused::not_now;
  }
  lane.late_ends.reserve(lane.late_ends.size() + group_.ends.size());
  const Fused fused = dispatch_.run_fused(group_, kernels, lane);
  if (fused == Fused::ran) {
    finish(lane);
    return fused;
  }
  refusal_ = dispatch_.refusal();
  if (fused == Fused::unsupported) {
    recall_.forget_last();
    record_refused_chain();
  }
  return fused;
}

// Depends on forms, shapes and layouts of the inputs: for equal keys the backend's answer is equal.
std::uint64_t GroupRunner::chain_key() {
  std::uint64_t key = 0;
  const auto mix = [&key](std::uint64_t word) {
    key = (key ^ word) * 0x9e3779b97f4a7c15U;
    key ^= key >> 32U;
  };
  const auto mix_layout = [&mix](const FusedGroup::Input& input) {
    if (input.slot->state == SlotState::live && !input.slot->layout->contiguous) {
      for (int axis = 0; axis < input.slot->layout->shape.rank(); ++axis) {
        mix(static_cast<std::uint64_t>(
            input.slot->layout->strides[static_cast<std::size_t>(axis)]));
      }
    }
  };
  for (FusedGroup* const each : {group_.before, &group_}) {
    write_form(*each);
    mix(PlanStore::hash_of(each->form));
    mix(each->space.value);
    for (const std::vector<FusedGroup::Input>* const inputs :
         {&each->inputs, &each->anchor_inputs}) {
      for (const FusedGroup::Input& input : *inputs) {
        mix(input.operand.shape.value);
        mix_layout(input);
      }
    }
    if (each->has_anchor() && is_formed_by_attributes(each->members.front().op.kind())) {
      std::uint64_t axes = 0;
      std::memcpy(&axes, each->members.front().op.record().immediate, sizeof axes);
      mix(axes);
    }
  }
  return key;
}

bool GroupRunner::is_refused_chain() {
  if (group_.before == nullptr || refused_chains_.empty()) {
    return false;
  }
  const auto refused = refused_chains_.find(chain_key());
  if (refused == refused_chains_.end()) {
    return false;
  }
  refusal_ = refused->second;
  return true;
}

void GroupRunner::record_refused_chain() {
  constexpr std::size_t kMostRefused = 4096;
  if (group_.before == nullptr) {
    return;
  }
  if (refused_chains_.size() == kMostRefused) {
    refused_chains_.clear();
  }
  refused_chains_.emplace(chain_key(), refusal_);
}

// If the ops have too many results, gathers the largest number of first ops that have not. That
// number depends on all inspected records.
GroupRunner::Gathered GroupRunner::gather(const LaneState& lane, GroupReach reach) {
  std::size_t most_ops = kMostGroupOps;
  looked_ = 0;
  is_cut_ = false;
  reach_ = reach;
  while (most_ops >= kFewestOps) {
    gather_.gather(lane, most_ops, reach_);
    if (group_.before != nullptr && !shows_space(before_)) {
      reach_ = GroupReach::single;
      gather_.expect_less(GroupGather::Obstacle::repeated);
      continue;
    }
    looked_ = std::max(looked_, gather_.record_count());
    is_cut_ = is_cut_ || gather_.is_cut();
    const std::size_t outputs = group_.output_count();
    const std::size_t runs = group_.op_count();
    if (runs > 0 && outputs == 0) {
      // An op that may fail runs all the same, so that its stream receives the error.
      return gather_.fails_with_anchor() ? Gathered::nothing : Gathered::unneeded;
    }
    if (runs < kFewestOps) {
      return Gathered::nothing;
    }
    const std::size_t most_outputs = group_.most_outputs();
    if (outputs <= most_outputs) {
      return shows_space(group_) ? Gathered::group : Gathered::shapeless;
    }
    most_ops = std::min(group_.ops_with_outputs(most_outputs), std::min(most_ops, runs) - 1);
  }
  return Gathered::nothing;
}

bool GroupRunner::shows_space(const FusedGroup& group) const {
  if (group.row_axes == 0) {
    return true;
  }
  Shape shape;
  for (const FusedGroup::Input& input : group.inputs) {
    if (input.extent == GroupExtent::full) {
      const Result<Shape> wider = broadcast(shape, dispatch_.shape_of(input.operand.shape));
      if (!wider.has_value()) {
        return false;
      }
      shape = wider.value();
    }
  }
  return shape == dispatch_.shape_of(group.space) &&
         std::ranges::all_of(group.members, [&](const FusedGroup::Member& member) {
           return !member.is_output() || member.extent != GroupExtent::full ||
                  reads_full(group, member);
         });
}

// Whether the result depends on a tensor with an element at each position of a row.
bool GroupRunner::reads_full(const FusedGroup& group, const FusedGroup::Member& member) const {
  const Shape& space = dispatch_.shape_of(group.space);
  const auto fills_rows = [&](const FusedGroup::Input& input) {
    const Shape& shape = dispatch_.shape_of(input.operand.shape);
    const int missing = space.rank() - shape.rank();
    bool fills = input.extent == GroupExtent::full && shape.rank() >= group.row_axes;
    for (int axis = space.rank() - group.row_axes; fills && axis < space.rank(); ++axis) {
      fills = shape[axis - missing] == space[axis];
    }
    return fills;
  };
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    if ((member.needs >> i & 1U) != 0 && fills_rows(group.inputs[i])) {
      return true;
    }
  }
  return member.role == FusedGroup::Role::anchor;
}

std::string GroupRunner::breach_of_group(const LaneState& lane) const {
  std::vector<GroupLegality::Record> records;
  const OpRecord* record = lane.lane->front();
  const std::uint64_t first = record->sequence;
  while (record != nullptr && lane.window.may_be_grouped(*record)) {
    const std::uint64_t ahead = records.size();
    records.push_back({OpView(*record, lane.lane->peek_blob(ahead)), lane.window.is_done(*record)});
    record = lane.lane->peek(ahead + 1);
  }
  std::vector<GroupLegality::Late> late;
  late.reserve(lane.late_ends.size());
  for (const LateEnd& each : lane.late_ends) {
    late.push_back({each.sequence - first, each.operand});
  }
  const GroupLegality legality(lane.id, records, late, [this](SlotId id) {
    const Slot& slot = handles_.slot(id);
    return GroupLegality::AtStart{.generation = slot.generation,
                                  .is_live = slot.state == SlotState::live,
                                  .is_poisoned = slot.state == SlotState::poisoned,
                                  .is_pending = slot.state == SlotState::pending,
                                  .home = slot.home};
  });
  return legality.breach_of(group_);
}

void GroupRunner::finish(LaneState& lane) {
  const auto mark = [&](std::uint64_t ahead) { lane.window.mark_done(lane.lane->at(ahead)); };
  for (const FusedGroup* const each :
       {static_cast<const FusedGroup*>(group_.before), static_cast<const FusedGroup*>(&group_)}) {
    if (each == nullptr) {
      continue;
    }
    for (const FusedGroup::Member& member : each->members) {
      if (!member.is_recomputed) {
        mark(member.ahead);
      }
    }
  }
  const std::uint64_t first = lane.lane->at(0).sequence;
  for (const FusedGroup::End& end : group_.ends) {
    if (end.is_drop && !end.is_deferred) {
      mark(end.ahead);
    } else if (!end.is_drop && end.is_deferred) {
      lane.late_ends.push_back({first + end.ahead, end.operand});
    }
  }
  const OpRecord* front = lane.lane->front();
  while (front != nullptr && lane.window.is_done(*front)) {
    finish_done(lane, *front);
    front = lane.lane->front();
  }
}

void GroupRunner::finish_done(LaneState& lane, const OpRecord& record) {
  lane.window.forget_done(record);
  if (!lane.late_ends.empty()) [[unlikely]] {
    end_late_uses(lane, record.sequence);
  }
  queues_.finish_record(lane);
}

void GroupRunner::end_late_uses(LaneState& lane, std::uint64_t sequence) {
  std::erase_if(lane.late_ends, [&](const LateEnd& late) {
    if (late.sequence == sequence) {
      dispatch_.end_use(late.operand);
      return true;
    }
    return false;
  });
}

std::uint64_t GroupRunner::code_of(const FusedGroup& group, GroupSource source) noexcept {
  if (source.is_made) {
    return 0x80U | source.number;
  }
  const FusedGroup::Input& input = group.inputs[source.number];
  return 0x100U | source.number | static_cast<std::uint64_t>(input.operand.dtype) << 4U |
         (input.extent == GroupExtent::row ? 0x200U : 0U);
}

// Writes one word for each op: kind, flags, dtype, extent, role, and up to three sources. An
// expression adds a word with its number and words for further sources. The last word has a bit for
// each needed result.
void GroupRunner::write_form(FusedGroup& group) {
  constexpr std::size_t kSourceBits = 10;
  constexpr std::size_t kFirstSources = 3;
  constexpr std::size_t kMoreSources = 6;
  group.form.clear();
  std::uint64_t outputs = 0;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const FusedGroup::Member& member = group.members[i];
    const OpRecord& record = member.op.record();
    const auto sources = [&](std::size_t begin, std::size_t count, std::size_t place) {
      std::uint64_t word = 0;
      const std::size_t end = std::min<std::size_t>(member.source_count, begin + count);
      for (std::size_t s = begin; s < end; ++s) {
        word |= (code_of(group, group.sources[member.first_source + s]) + 1) << place;
        place += kSourceBits;
      }
      return word;
    };
    group.form.push_back(static_cast<std::uint64_t>(record.kind) |
                         (std::uint64_t{record.flags} & kFormFlags) << 16U |
                         static_cast<std::uint64_t>(member.operand.dtype) << 24U |
                         static_cast<std::uint64_t>(member.extent) << 28U |
                         static_cast<std::uint64_t>(member.role) << 30U |
                         sources(0, kFirstSources, 32));
    if (record.kind == OpKind::expression) [[unlikely]] {
      group.form.push_back(member.op.attributes<ExpressionAttributes>().expression);
      for (std::size_t s = kFirstSources; s < member.source_count; s += kMoreSources) {
        group.form.push_back(sources(s, kMoreSources, 0));
      }
    }
    outputs |= std::uint64_t{member.is_output() ? 1U : 0U} << (i % 64);
  }
  group.form.push_back(outputs);
}

const PlanStore::Plan* GroupRunner::plan(FusedGroup& group, bool may_make) {
  write_form(group);
  if (const PlanStore::Plan* known = plans_.find(group.form)) {
    ++plan_hits_;
    return known;
  }
  ++plan_misses_;
  if (!may_make) {
    lacks_plan_ = true;
    return nullptr;
  }
  if (plans_.is_full()) {
    if (!in_flight_.is_empty()) {
      return nullptr;
    }
    recall_.forget();
    plans_.evict();
    ++evictions_;
  }
  return &make_plan(group);
}

const PlanStore::Plan& GroupRunner::make_plan(const FusedGroup& group) {
  std::vector<GroupOp> ops;
  ops.reserve(group.members.size());
  for (const FusedGroup::Member& member : group.members) {
    ops.push_back(
        {.op = member.op,
         .expression = dispatch_.expression_of(member.op),
         .sources = std::span(group.sources).subspan(member.first_source, member.source_count),
         .dtype = member.operand.dtype,
         .extent = member.extent,
         .role = member.role,
         .is_output = member.is_output()});
  }
  std::vector<GroupInput> inputs;
  inputs.reserve(group.inputs.size());
  for (const FusedGroup::Input& input : group.inputs) {
    inputs.push_back({input.operand.dtype, input.extent});
  }
  const Result<ExpressionRef> member =
      make_group_expression(ops, inputs, group.row_axes > 0, dispatch_.between());
  return member.has_value() ? plans_.keep(group.form, member.value())
                            : plans_.keep(group.form, nullptr, member.error().text);
}

}  // namespace hearth
