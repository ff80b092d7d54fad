#include "group_recall.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include <hearth/streams/kernel/group_kernel.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

constexpr std::size_t kTraitsOffset = offsetof(Operand, shape);
static_assert(kTraitsOffset + sizeof(std::uint64_t) == sizeof(Operand));

}  // namespace

std::uint64_t GroupRecall::header_of(const OpRecord& record) noexcept {
  static_assert(offsetof(OpRecord, sequence) == sizeof(std::uint64_t));
  std::uint64_t header = 0;
  std::memcpy(&header, &record, sizeof header);
  return header;
}

// The source line and the first records suffice for the key, because all records are compared
// afterwards.
std::uint64_t GroupRecall::key_of(Lane& lane) noexcept {
  constexpr std::uint64_t kKeyRecords = 3;
  std::uint64_t key = lane.at(0).source.value;
  for (std::uint64_t ahead = 0; ahead < kKeyRecords; ++ahead) {
    if (const OpRecord* const record = lane.peek(ahead)) {
      key = (key ^ header_of(*record) ^ (std::uint64_t{record->operands[0].shape.value} << 32U)) *
            0x9e3779b97f4a7c15U;
      key ^= key >> 32U;
    }
  }
  return key;
}

std::uint64_t GroupRecall::key_of_cut(std::uint64_t key, const LaneState& lane) noexcept {
  key = (key ^ lane.window.rest_from(lane.lane->at(0))) * 0x9e3779b97f4a7c15U;
  return key ^ key >> 32U;
}

[[gnu::always_inline]] inline GroupRecall::Seen GroupRecall::facts_of(const Operand& operand) {
  Seen seen;
  std::memcpy(&seen.traits,
              reinterpret_cast<const std::byte*>(&operand) + kTraitsOffset,
              sizeof seen.traits);
  Slot& slot = handles_.slot(operand.slot);
  if (slot.recall.pass == pass_) {
    seen.tensor = slot.recall.tensor;
    return seen;
  }
  const auto number = static_cast<std::uint32_t>(tensors_.size());
  tensors_.push_back(&slot);
  slot.recall = {.pass = pass_, .tensor = number};
  seen.tensor = number | kFirst;
  if (!is_uncreated(slot, operand)) {
    if (slot.late) [[unlikely]] {
      handles_.settle(slot);
    }
    if (slot.state == SlotState::live) {
      seen.tensor |= slot.layout->contiguous ? kReady | kStraight : kReady;
    }
  }
  return seen;
}

bool GroupRecall::is_visible(const OpRecord& record) const {
  if (op_info(record.kind).op_class != OpClass::view) {
    return false;
  }
  const Operand& out = record.operands[record.input_count];
  const Slot& slot = handles_.slot(out.slot);
  return slot.state == SlotState::live && slot.generation == out.generation;
}

void GroupRecall::begin_pass() noexcept {
  ++pass_;
  tensors_.clear();
}

[[gnu::always_inline]] inline bool GroupRecall::is_same(const Record& known,
                                                        const OpRecord& record) {
  if (known.header != header_of(record) || known.blob_size_bytes != record.blob_size_bytes) {
    return false;
  }
  if (known.is_formed_by_attributes &&
      std::memcmp(known.immediate.data(), record.immediate, sizeof record.immediate) != 0) {
    return false;
  }
  for (int i = 0; i < record.operand_count(); ++i) {
    const Seen& before = known.operands[static_cast<std::size_t>(i)];
    const Seen now = facts_of(record.operands[i]);
    if (now.traits != before.traits || now.tensor != before.tensor) {
      return false;
    }
  }
  return true;
}

bool GroupRecall::are_same(const Known& known, const LaneState& lane) {
  begin_pass();
  const std::size_t count = known.records.size();
  if (lane.lane->peek(count - 1) == nullptr) {
    return false;
  }
  for (std::size_t ahead = 0; ahead < count; ++ahead) {
    const OpRecord& record = lane.lane->at(ahead);
    const Record& before = known.records[ahead];
    if (!lane.window.may_be_grouped(record) || lane.window.is_done(record) != before.is_done ||
        (before.is_done && !is_visible(record)) || !is_same(before, record)) {
      return false;
    }
  }
  if (known.is_cut) {
    const OpRecord* const next = lane.lane->peek(count);
    return next == nullptr || !lane.window.may_be_grouped(*next);
  }
  return true;
}

void GroupRecall::fill_ops(const Known& known,
                           const FusedGroup& from,
                           std::span<const Place> inputs,
                           const LaneState& lane,
                           FusedGroup& to) {
  to.members = from.members;
  for (FusedGroup::Member& member : to.members) {
    const OpRecord& record = lane.lane->at(member.ahead);
    member.op = OpView(record, lane.lane->peek_blob(member.ahead));
    member.operand = record.operands[record.input_count];
    const Seen& seen = known.records[member.ahead].operands[record.input_count];
    member.slot = tensors_[seen.tensor & (kFirst - 1)];
  }
  to.sources = from.sources;
  to.form.clear();
  to.records = from.records;
  to.parameters = from.parameters;
  to.space = from.space;
  to.has_space = from.has_space;
  to.row_axes = from.row_axes;
  to.before = nullptr;
  to.before_input = from.before_input;
  to.foreign_uses = 0;
  const auto enter = [&](FusedGroup::Input& input, const Operand& operand) {
    input.operand = operand;
    input.slot = &handles_.slot(operand.slot);
    const bool is_there = input.slot->state == SlotState::live;
    to.foreign_uses +=
        is_there && input.slot->home != lane.id && !input.slot->is_published ? 1U : 0U;
  };
  to.inputs = from.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    enter(to.inputs[i], lane.lane->at(inputs[i].ahead).operands[inputs[i].operand]);
  }
  to.anchor_inputs = from.anchor_inputs;
  for (std::size_t i = 0; i < to.anchor_inputs.size(); ++i) {
    enter(to.anchor_inputs[i], to.members.front().op.input(static_cast<int>(i)));
  }
}

void GroupRecall::fill(const Known& known, const LaneState& lane, FusedGroup& group) {
  const auto operand_at = [&lane](const Place& place) -> const Operand& {
    return lane.lane->at(place.ahead).operands[place.operand];
  };
  fill_ops(known, known.group, known.inputs, lane, group);
  group.ends = known.group.ends;
  for (std::size_t i = 0; i < known.ends.size(); ++i) {
    group.ends[i].operand = operand_at(known.ends[i]);
  }
  group.drops.clear();
  group.drops.reserve(known.drops.size());
  for (const Place& place : known.drops) {
    group.drops.push_back(operand_at(place).slot);
  }
}

const GroupRecall::Known* GroupRecall::find(std::uint64_t key, const LaneState& lane) {
  const Known* const known = known_[key % kEntries].get();
  if (known == nullptr || known->key != key || !are_same(*known, lane)) {
    return nullptr;
  }
  last_ = key % kEntries;
  return known;
}

const GroupPlans* GroupRecall::recall(const LaneState& lane,
                                      FusedGroup& group,
                                      FusedGroup& before) {
  if (!dispatch_.guests.empty()) {
    return nullptr;
  }
  const std::uint64_t key = key_of(*lane.lane);
  const Known* known = find(key, lane);
  if (known == nullptr) {
    known = find(key_of_cut(key, lane), lane);
  }
  if (known == nullptr) {
    return nullptr;
  }
  fill(*known, lane, group);
  if (known->group.before != nullptr) {
    fill_ops(*known, known->before, known->inputs_before, lane, before);
    group.before = &before;
  }
  const int to_come = group.before != nullptr ? group.before_input : -1;
  if (group.has_anchor() && dispatch_.joinable_calls(group.members.front().op, to_come) > 1) {
    return nullptr;
  }
  return &known->plans;
}

// ---- what is remembered ----

bool GroupRecall::note(const LaneState& lane, std::uint64_t count, Known& known) {
  begin_pass();
  known.records.clear();
  known.records.reserve(count);
  for (std::uint64_t ahead = 0; ahead < count; ++ahead) {
    const OpRecord& record = lane.lane->at(ahead);
    const bool is_done = lane.window.is_done(record);
    if ((is_done && !is_visible(record)) || record.operand_count() > kInlineOperands) {
      return false;
    }
    Record& each = known.records.emplace_back();
    each.is_done = is_done;
    each.header = header_of(record);
    each.blob_size_bytes = record.blob_size_bytes;
    each.is_formed_by_attributes = is_formed_by_attributes(record.kind);
    std::memcpy(each.immediate.data(), record.immediate, sizeof record.immediate);
    for (int i = 0; i < record.operand_count(); ++i) {
      each.operands[static_cast<std::size_t>(i)] = facts_of(record.operands[i]);
    }
  }
  return true;
}

bool GroupRecall::find_place(const LaneState& lane,
                             std::uint64_t ahead,
                             SlotId slot,
                             Place& place) {
  const OpRecord& record = lane.lane->at(ahead);
  for (int i = 0; i < record.input_count; ++i) {
    if (record.operands[i].slot == slot) {
      place = {ahead, i};
      return true;
    }
  }
  return false;
}

bool GroupRecall::find_inputs(const LaneState& lane,
                              const FusedGroup& group,
                              std::vector<Place>& places) {
  places.clear();
  places.reserve(group.inputs.size());
  for (const FusedGroup::Input& input : group.inputs) {
    Place place;
    const auto reads = [&](const FusedGroup::Member& member) {
      return member.role != FusedGroup::Role::anchor &&
             find_place(lane, member.ahead, input.operand.slot, place);
    };
    if (std::ranges::none_of(group.members, reads)) {
      return false;
    }
    places.push_back(place);
  }
  return true;
}

bool GroupRecall::find_places(const LaneState& lane, const FusedGroup& group, Known& known) {
  if (!find_inputs(lane, group, known.inputs) ||
      (group.before != nullptr && !find_inputs(lane, *group.before, known.inputs_before))) {
    return false;
  }
  known.ends.clear();
  known.ends.reserve(group.ends.size());
  known.drops.clear();
  known.drops.reserve(group.drops.size());
  for (const FusedGroup::End& end : group.ends) {
    Place place;
    if (!find_place(lane, end.ahead, end.operand.slot, place)) {
      return false;
    }
    known.ends.push_back(place);
  }
  for (const SlotId slot : group.drops) {
    const auto end = std::ranges::find(
        group.ends, slot, [](const FusedGroup::End& each) { return each.operand.slot; });
    if (end == group.ends.end()) {
      return false;
    }
    known.drops.push_back(known.ends[static_cast<std::size_t>(end - group.ends.begin())]);
  }
  return true;
}

void GroupRecall::learn(const LaneState& lane,
                        const FusedGroup& group,
                        std::uint64_t records,
                        bool is_cut,
                        const GroupPlans& plans) noexcept {
  if (!dispatch_.guests.empty()) {
    return;
  }
  try {
    const std::uint64_t first = key_of(*lane.lane);
    const std::uint64_t key = is_cut ? key_of_cut(first, lane) : first;
    last_ = key % kEntries;
    std::unique_ptr<Known>& place = known_[last_];
    std::unique_ptr<Known> known = place ? std::move(place) : std::make_unique<Known>();
    known->key = key;
    known->plans = plans;
    known->is_cut = is_cut;
    known->group = group;
    if (group.before != nullptr) {
      known->before = *group.before;
      known->group.before = &known->before;
    }
    if (note(lane, records, *known) && find_places(lane, group, *known)) {
      place = std::move(known);
    }
  } catch (...) {
    dispatch_.log_mistake("the memory of a group");  // it may succeed the next time
  }
}

}  // namespace hearth
