#include "group_legality.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

bool is_same_tensor(const Operand& a, const Operand& b) noexcept {
  return a.slot == b.slot && a.generation == b.generation;
}

/// Whether an earlier input of the record ends the same tensor.
bool is_ended_before(const OpView& op, int input) noexcept {
  for (int i = 0; i < input; ++i) {
    if (op.input(i).use == Use::read_last && is_same_tensor(op.input(i), op.input(input))) {
      return true;
    }
  }
  return false;
}

bool is_drop(const OpView& op) noexcept {
  return op.kind() == OpKind::drop;
}

}  // namespace

/// Contents of each slot as the records run; keeps the first breach.
class GroupLegality::Tensors {
 public:
  explicit Tensors(const GroupLegality& of) noexcept : of_(of) {}

  /// Sets the record that reads, makes and ends from here on.
  void begin(std::uint64_t ahead) noexcept {
    ahead_ = ahead;
    is_group_ = false;
  }
  void begin_group(std::uint64_t ahead) noexcept {
    ahead_ = ahead;
    is_group_ = true;
  }

  void read(const Operand& operand) {
    const Held held = held_in(operand.slot);
    if (!held.is_there || held.generation != operand.generation) {
      breach(operand,
             is_to_come(held, operand) ? "reads it before its write" : "reads it after its end");
    } else if (is_group_ && of_.at_start_(operand.slot).is_poisoned) {
      breach(operand, "reads it although it carries an error");
    }
  }
  void make(const Operand& operand) {
    Held& held = held_in(operand.slot);
    const AtStart start = of_.at_start_(operand.slot);
    if (held.is_there) {
      breach(operand, "writes over a tensor that is still there");
    } else if (!is_to_come(held, operand)) {
      breach(operand, "makes it a second time");
    } else if (is_group_ && start.is_pending && start.home != of_.lane_) {
      breach(operand, "writes into a slot of another stream");
    }
    held = {operand.generation, true};
  }
  void end(const Operand& operand) {
    Held& held = held_in(operand.slot);
    if (!held.is_there || held.generation != operand.generation) {
      breach(operand, is_to_come(held, operand) ? "ends it before its write" : "ends it twice");
    }
    held.is_there = false;
  }
  void end(SlotId slot) {
    Operand operand;
    operand.slot = slot;
    operand.generation = held_in(slot).generation;
    end(operand);
  }
  void run(const OpView& op, std::uint64_t ahead) {
    begin(ahead);
    if (is_drop(op)) {
      end(op.input(0));
      return;
    }
    for (int i = 0; i < op.record().input_count; ++i) {
      read(op.input(i));
    }
    for (int i = 0; i < op.record().input_count; ++i) {
      if (op.input(i).use == Use::read_last && !is_ended_before(op, i)) {
        end(op.input(i));
      }
    }
    for (int i = 0; i < op.record().output_count; ++i) {
      make(op.output(i));
    }
  }
  void breach(const Operand& operand, std::string_view rule) {
    breach(fmt::format("slot {} generation {}: {}", operand.slot.value, operand.generation, rule));
  }
  void breach(std::string_view what) {
    if (!breach_.empty()) {
      return;
    }
    const std::string_view kind =
        ahead_ < of_.records_.size() ? name(of_.records_[ahead_].op.kind()) : "none";
    breach_ =
        fmt::format("record {} ({}){}: {}", ahead_, kind, is_group_ ? ", in the group" : "", what);
  }
  [[nodiscard]] const std::string& breach() const noexcept { return breach_; }

  /// Reports every difference to `wanted`.
  void compare(const Tensors& wanted) {
    for (const auto& [slot, held] : wanted.held_) {
      const Held own = held_in(SlotId{slot});
      if (own.is_there != held.is_there || own.generation != held.generation) {
        Operand operand;
        operand.slot = SlotId{slot};
        operand.generation = held.generation;
        ahead_ = of_.records_.size();
        breach(operand,
               held.is_there  ? "is not there at the end"
               : own.is_there ? "never ends"
                              : "is never made");
      }
    }
  }

 private:
  struct Held {
    std::uint32_t generation = 0;
    bool is_there = false;
  };
  [[nodiscard]] static bool is_to_come(const Held& held, const Operand& operand) noexcept {
    return static_cast<std::int32_t>(operand.generation - held.generation) > 0;
  }
  [[nodiscard]] Held& held_in(SlotId slot) {
    const auto [place, is_new] = held_.try_emplace(slot.value);
    if (is_new) {
      const AtStart start = of_.at_start_(slot);
      place->second = {start.generation, start.is_live || start.is_poisoned};
    }
    return place->second;
  }

  const GroupLegality& of_;
  std::map<std::uint32_t, Held> held_ = {};
  std::uint64_t ahead_ = 0;
  bool is_group_ = false;
  std::string breach_ = {};
};

/// Plays a group, then the records that it bypasses.
class GroupLegality::Check {
 public:
  Check(const GroupLegality& of, const FusedGroup& group)
      : of_(of), group_(group), tensors_(of), taken_(of.records_.size(), nullptr) {}

  [[nodiscard]] std::string run() {
    const std::uint64_t next = group_.before != nullptr ? take_records(*group_.before, 0) : 0;
    static_cast<void>(take_records(group_, next));
    check_ends();
    if (tensors_.breach().empty()) {
      if (group_.before != nullptr) {
        simulate_before(*group_.before);
      }
      simulate_group();
      simulate_rest();
      Tensors singly(of_);
      of_.simulate_singly(singly);
      tensors_.compare(singly);
    }
    return tensors_.breach();
  }

 private:
  using Member = FusedGroup::Member;
  using Role = FusedGroup::Role;
  /// The op of the kernel that computes a tensor's value.
  struct Value {
    Operand operand;
    std::size_t member = 0;
  };

  void breach(std::uint64_t ahead, std::string_view what) {
    tensors_.begin_group(ahead);
    tensors_.breach(what);
  }

  // Each op of the group must be a record of the window that has not run, after the previous one.
  [[nodiscard]] std::uint64_t take_records(const FusedGroup& group, std::uint64_t next) {
    for (const Member& member : group.members) {
      if (member.ahead < next || member.ahead >= of_.records_.size() ||
          of_.records_[member.ahead].is_done ||
          &of_.records_[member.ahead].op.record() != &member.op.record()) {
        breach(member.ahead, "is not a record that may be taken here");
        return next;
      }
      if (member.op.record().output_count != 1 ||
          !is_same_tensor(member.op.output(0), member.operand)) {
        breach(member.ahead, "makes another tensor");
      }
      next = member.ahead + 1;
      taken_[member.ahead] = &member;
    }
    return next;
  }

  [[nodiscard]] std::ptrdiff_t ends_of(std::uint64_t ahead, const Operand& operand) const {
    return std::ranges::count_if(group_.ends, [&](const FusedGroup::End& end) {
      return end.ahead == ahead && is_same_tensor(end.operand, operand);
    });
  }
  void check_ends() {
    for (const FusedGroup::End& end : group_.ends) {
      if (end.ahead >= of_.records_.size()) {
        breach(end.ahead, "ends a tensor behind the window");
      } else if (end.is_drop) {
        check_drop(end);
      } else if (const Member* const member = taken_[end.ahead];
                 member == nullptr || member->is_recomputed) {
        breach(end.ahead, "ends itself what the group ends for it");
      } else if (!reads_last(member->op, end.operand)) {
        breach(end.ahead, "does not end what the group ends for it");
      }
    }
    if (group_.before != nullptr) {
      check_ends_in(*group_.before);
    }
    check_ends_in(group_);
  }
  void check_ends_in(const FusedGroup& group) {
    for (const Member& member : group.members) {
      for (int i = 0; i < member.op.record().input_count; ++i) {
        const Operand input = member.op.input(i);
        if (!member.is_recomputed && input.use == Use::read_last &&
            ends_of(member.ahead, input) != 1) {
          breach(member.ahead,
                 fmt::format("the end of slot {} is applied {} times",
                             input.slot.value,
                             ends_of(member.ahead, input)));
        }
      }
    }
  }
  void check_drop(const FusedGroup::End& end) {
    const Record& record = of_.records_[end.ahead];
    if (record.is_done || !is_drop(record.op) || !is_same_tensor(record.op.input(0), end.operand) ||
        ends_of(end.ahead, end.operand) != 1) {
      breach(end.ahead, "is no drop of this tensor that may be taken here");
    } else if (record.op.record().blob_size_bytes != 0) {
      breach(end.ahead, "ends a tensor that other streams may still use");
    }
  }
  [[nodiscard]] static bool reads_last(const OpView& op, const Operand& operand) noexcept {
    for (int i = 0; i < op.record().input_count; ++i) {
      if (op.input(i).use == Use::read_last && is_same_tensor(op.input(i), operand)) {
        return true;
      }
    }
    return false;
  }

  // ---- the group ----

  // The anchor reads one of its values. No other op reads any, and none reaches memory.
  void simulate_before(const FusedGroup& before) {
    if (!group_.has_anchor() || before.before != nullptr ||
        std::ranges::count(before.members, true, &Member::feeds_next_anchor) != 1) {
      tensors_.breach("precedes no anchor, or defers a number of values other than one");
      return;
    }
    read_all(before);
    values_.clear();
    for (const Member& member : before.members) {
      tensors_.begin_group(member.ahead);
      if (!member.is_internal || member.is_recomputed) {
        tensors_.breach(member.operand, "is needed, but only deferred");
      }
      tensors_.make(member.operand);
      tensors_.end(member.operand);
    }
    const Member& next_anchor_input = before.next_anchor_input();
    const OpView& anchor = group_.members.front().op;
    const Operand input = anchor.input(group_.before_input);
    if (next_anchor_input.extent != GroupExtent::full || next_anchor_input.role == Role::views ||
        next_anchor_input.role == Role::unneeded ||
        !is_same_tensor(next_anchor_input.operand, input)) {
      tensors_.breach(input, "is not the deferred value");
    }
  }
  void read_all(const FusedGroup& group) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      tensors_.begin_group(group.members[i].ahead);
      read_sources(group, group.members[i]);
      record_value(group.members[i], i);
    }
  }
  // The kernel reads all its inputs before it makes or ends a tensor.
  void simulate_group() {
    read_all(group_);
    for (const Member& member : group_.members) {
      tensors_.begin_group(member.ahead);
      if (!member.is_recomputed) {
        tensors_.make(member.operand);
      }
      if (member.is_internal) {
        tensors_.end(member.operand);
      } else if (!member.is_recomputed &&
                 (member.role == Role::views || member.role == Role::unneeded ||
                  member.extent == GroupExtent::cell)) {
        tensors_.breach(member.operand, "is never stored");
      }
    }
    if (group_.before != nullptr) {
      end_inputs(*group_.before);
    }
    end_inputs(group_);
    for (const SlotId slot : group_.drops) {
      tensors_.end(slot);
    }
  }
  void read_sources(const FusedGroup& group, const Member& member) {
    if (member.role == Role::views || member.role == Role::unneeded) {
      return;  // no work of the kernel
    }
    const bool is_anchor = member.role == Role::anchor;
    const auto count = static_cast<std::size_t>(member.op.record().input_count);
    if (!is_anchor && member.source_count != count) {
      tensors_.breach("has another number of inputs");
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Operand input = member.op.input(static_cast<int>(i));
      const bool feeds_next_anchor =
          is_anchor && group.before != nullptr && static_cast<int>(i) == group.before_input;
      if (feeds_next_anchor) {
        continue;  // see simulate_before()
      }
      if (is_anchor) {
        read_outside(input, group.anchor_inputs, i);
      } else {
        read_source(group, input, group.sources[member.first_source + i]);
      }
    }
  }
  void read_source(const FusedGroup& group, const Operand& input, const GroupSource source) {
    const auto value = std::ranges::find_if(
        values_, [&](const Value& each) { return is_same_tensor(each.operand, input); });
    if (value == values_.end()) {
      if (source.is_made) {
        tensors_.breach(input, "is taken for a value of the group");
      } else {
        read_outside(input, group.inputs, source.number);
      }
      return;
    }
    const bool is_it = source.is_made && source.number == value->member;
    if (!is_it || group.members[value->member].role == Role::unneeded) {
      tensors_.breach(input, "is not the value that the group computes with");
    }
  }
  void read_outside(const Operand& input,
                    const std::vector<FusedGroup::Input>& inputs,
                    std::size_t number) {
    if (number >= inputs.size() || !is_same_tensor(inputs[number].operand, input)) {
      tensors_.breach(input, "is not the input that the group reads");
    }
    tensors_.read(input);
  }
  void record_value(const Member& member, std::size_t place) {
    if (member.role == Role::views) {
      const Operand shown = member.op.input(0);
      const auto value = std::ranges::find_if(
          values_, [&](const Value& each) { return is_same_tensor(each.operand, shown); });
      if (value == values_.end()) {
        tensors_.breach(shown, "is shown, but is no value of the group");
        return;
      }
      place = value->member;
    }
    values_.push_back({member.operand, place});
  }
  void end_inputs(const FusedGroup& group) {
    for (const std::vector<FusedGroup::Input>* const inputs :
         {&group.anchor_inputs, &group.inputs}) {
      for (const FusedGroup::Input& input : *inputs) {
        if (input.is_last) {
          tensors_.end(input.operand);
        }
      }
    }
  }

  // ---- bypassed records ----

  void simulate_rest() {
    for (std::uint64_t ahead = 0; ahead < of_.records_.size(); ++ahead) {
      const Record& record = of_.records_[ahead];
      const auto drop = std::ranges::find_if(group_.ends, [&](const FusedGroup::End& end) {
        return end.is_drop && !end.is_deferred && end.ahead == ahead;
      });
      tensors_.begin(ahead);
      if (record.is_done) {
        of_.end_late(tensors_, ahead);
      } else if (taken_[ahead] != nullptr && !taken_[ahead]->is_recomputed) {
        end_own(ahead);
      } else if (drop == group_.ends.end()) {
        tensors_.run(record.op, ahead);
      }
    }
  }
  void end_own(std::uint64_t ahead) {
    for (const FusedGroup::End& end : group_.ends) {
      if (end.ahead == ahead && !end.is_drop && end.is_deferred) {
        tensors_.end(end.operand);
      }
    }
  }

  const GroupLegality& of_;
  const FusedGroup& group_;
  Tensors tensors_;
  std::vector<const Member*> taken_;  ///< By position in the window.
  std::vector<Value> values_ = {};
};

void GroupLegality::end_late(Tensors& tensors, std::uint64_t ahead) const {
  for (const Late& late : late_) {
    if (late.ahead == ahead) {
      tensors.end(late.operand);
    }
  }
}

void GroupLegality::simulate_singly(Tensors& tensors) const {
  for (std::uint64_t ahead = 0; ahead < records_.size(); ++ahead) {
    tensors.begin(ahead);
    if (records_[ahead].is_done) {
      end_late(tensors, ahead);
    } else {
      tensors.run(records_[ahead].op, ahead);
    }
  }
}

std::string GroupLegality::breach_of_window() const {
  Tensors tensors(*this);
  simulate_singly(tensors);
  return tensors.breach();
}

std::string GroupLegality::breach_of(const FusedGroup& group) const {
  return breach_of_window().empty() ? Check(*this, group).run() : std::string();
}

}  // namespace hearth
