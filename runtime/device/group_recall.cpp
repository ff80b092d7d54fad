#include "group_recall.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include <hearth/streams/kernel/group_kernel.hpp>

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

// The line and the first records: enough to find, as all records are compared afterwards.
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

[[gnu::always_inline]] inline GroupRecall::Seen GroupRecall::look_at(const Operand& operand) {
  Seen seen;
  std::memcpy(&seen.traits,
              reinterpret_cast<const std::byte*>(&operand) + kTraitsOffset,
              sizeof seen.traits);
  Slot& slot = handles_.slot(operand.slot);
  if (slot.recall.look == looks_) {
    seen.tensor = slot.recall.tensor;
    return seen;
  }
  const auto number = static_cast<std::uint32_t>(tensors_.size());
  tensors_.push_back(&slot);
  slot.recall = {.look = looks_, .tensor = number};
  seen.tensor = number | kFirst;
  if (operand.use != Use::out && !is_unborn(slot, operand)) {
    if (slot.late) [[unlikely]] {
      handles_.settle(slot);
    }
    if (slot.state == SlotState::live) {
      seen.tensor |= slot.layout->contiguous ? kReady | kStraight : kReady;
    }
  }
  return seen;
}

void GroupRecall::begin_look() noexcept {
  ++looks_;
  tensors_.clear();
}

[[gnu::always_inline]] inline bool GroupRecall::is_same(const Record& known,
                                                        const OpRecord& record) {
  if (known.header != header_of(record) || known.blob_size_bytes != record.blob_size_bytes) {
    return false;
  }
  if (known.runs_along_rows &&
      std::memcmp(known.immediate.data(), record.immediate, sizeof record.immediate) != 0) {
    return false;
  }
  for (int i = 0; i < record.operand_count(); ++i) {
    const Seen& before = known.operands[static_cast<std::size_t>(i)];
    const Seen now = look_at(record.operands[i]);
    if (now.traits != before.traits || now.tensor != before.tensor) {
      return false;
    }
  }
  return true;
}

bool GroupRecall::are_same(const Known& known, const LaneState& lane) {
  begin_look();
  const std::size_t count = known.records.size();
  if (lane.lane->peek(count - 1) == nullptr) {
    return false;
  }
  for (std::size_t ahead = 0; ahead < count; ++ahead) {
    const OpRecord& record = lane.lane->at(ahead);
    if (!lane.window.may_be_grouped(record) || lane.window.is_done(record) ||
        !is_same(known.records[ahead], record)) {
      return false;
    }
  }
  if (known.is_cut) {
    const OpRecord* const next = lane.lane->peek(count);
    return next == nullptr || !lane.window.may_be_grouped(*next);
  }
  return true;
}

void GroupRecall::fill(const Known& known, const LaneState& lane, FusedGroup& group) {
  const auto operand_at = [&lane](const Place& place) -> const Operand& {
    return lane.lane->at(place.ahead).operands[place.operand];
  };
  const auto tensor_of = [this](const Seen& seen) { return tensors_[seen.tensor & (kFirst - 1)]; };
  const FusedGroup& before = known.group;
  group.made = before.made;
  for (FusedGroup::Made& made : group.made) {
    const OpRecord& record = lane.lane->at(made.ahead);
    made.op = OpView(record, lane.lane->peek_blob(made.ahead));
    made.operand = record.operands[record.input_count];
    made.slot = tensor_of(known.records[made.ahead].operands[record.input_count]);
  }
  group.sources = before.sources;
  group.ends = before.ends;
  for (std::size_t i = 0; i < known.ends.size(); ++i) {
    group.ends[i].operand = operand_at(known.ends[i]);
  }
  group.drops.clear();
  group.drops.reserve(known.drops.size());
  for (const Place& place : known.drops) {
    group.drops.push_back(operand_at(place).slot);
  }
  group.form.clear();
  group.records = before.records;
  group.parameters = before.parameters;
  group.space = before.space;
  group.has_space = before.has_space;
  group.row_axes = before.row_axes;
  group.foreign_uses = 0;
  const auto enter = [&](FusedGroup::Input& input, const Operand& operand) {
    input.operand = operand;
    input.slot = &handles_.slot(operand.slot);
    group.foreign_uses += input.slot->home != lane.id && !input.slot->is_published ? 1U : 0U;
  };
  group.inputs = before.inputs;
  for (std::size_t i = 0; i < known.inputs.size(); ++i) {
    enter(group.inputs[i], operand_at(known.inputs[i]));
  }
  group.anchor_inputs = before.anchor_inputs;
  for (std::size_t i = 0; i < group.anchor_inputs.size(); ++i) {
    enter(group.anchor_inputs[i], group.made.front().op.input(static_cast<int>(i)));
  }
}

const GroupRecall::Known* GroupRecall::find(std::uint64_t key, const LaneState& lane) {
  const Known* const known = known_[key % kEntries].get();
  return known != nullptr && known->key == key && are_same(*known, lane) ? known : nullptr;
}

const PlanStore::Plan* GroupRecall::recall(const LaneState& lane, FusedGroup& group) {
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
  if (group.has_anchor() && dispatch_.joinable_calls(group.made.front().op) > 1) {
    return nullptr;
  }
  return known->plan;
}

// ---- what is remembered ----

bool GroupRecall::note(const LaneState& lane, std::uint64_t count, Known& known) {
  begin_look();
  known.records.clear();
  known.records.reserve(count);
  for (std::uint64_t ahead = 0; ahead < count; ++ahead) {
    const OpRecord& record = lane.lane->at(ahead);
    if (lane.window.is_done(record) || record.operand_count() > kInlineOperands) {
      return false;
    }
    Record& each = known.records.emplace_back();
    each.header = header_of(record);
    each.blob_size_bytes = record.blob_size_bytes;
    each.runs_along_rows = runs_along_rows(record.kind);
    std::memcpy(each.immediate.data(), record.immediate, sizeof record.immediate);
    for (int i = 0; i < record.operand_count(); ++i) {
      each.operands[static_cast<std::size_t>(i)] = look_at(record.operands[i]);
    }
  }
  return true;
}

bool GroupRecall::find_places(const LaneState& lane, const FusedGroup& group, Known& known) {
  const auto find = [&lane](std::uint64_t ahead, SlotId slot, Place& place) {
    const OpRecord& record = lane.lane->at(ahead);
    for (int i = 0; i < record.input_count; ++i) {
      if (record.operands[i].slot == slot) {
        place = {ahead, i};
        return true;
      }
    }
    return false;
  };
  known.inputs.clear();
  known.inputs.reserve(group.inputs.size());
  for (const FusedGroup::Input& input : group.inputs) {
    Place place;
    const auto reads = [&](const FusedGroup::Made& made) {
      return made.role != FusedGroup::Role::anchor && find(made.ahead, input.operand.slot, place);
    };
    if (std::ranges::none_of(group.made, reads)) {
      return false;
    }
    known.inputs.push_back(place);
  }
  known.ends.clear();
  known.ends.reserve(group.ends.size());
  known.drops.clear();
  known.drops.reserve(group.drops.size());
  for (const FusedGroup::End& end : group.ends) {
    Place place;
    if (!find(end.ahead, end.operand.slot, place)) {
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
                        const PlanStore::Plan& plan) noexcept {
  if (!dispatch_.guests.empty()) {
    return;
  }
  try {
    const std::uint64_t first = key_of(*lane.lane);
    const std::uint64_t key = is_cut ? key_of_cut(first, lane) : first;
    std::unique_ptr<Known>& place = known_[key % kEntries];
    std::unique_ptr<Known> known = place ? std::move(place) : std::make_unique<Known>();
    known->key = key;
    known->plan = &plan;
    known->is_cut = is_cut;
    known->group = group;
    if (note(lane, records, *known) && find_places(lane, group, *known)) {
      place = std::move(known);
    }
  } catch (...) {
    // Next time perhaps.
  }
}

}  // namespace hearth
