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
        play_before(*group_.before);
      }
      play_group();
      play_rest();
      Tensors singly(of_);
      of_.play_singly(singly);
      tensors_.compare(singly);
    }
    return tensors_.breach();
  }

 private:
  using Made = FusedGroup::Made;
  using Role = FusedGroup::Role;
  /// The op of the kernel that computes a tensor's value.
  struct Value {
    Operand operand;
    std::size_t made = 0;
  };

  void breach(std::uint64_t ahead, std::string_view what) {
    tensors_.begin_group(ahead);
    tensors_.breach(what);
  }

  // Each op of the group must be a record of the window that has not run, after the previous one.
  [[nodiscard]] std::uint64_t take_records(const FusedGroup& group, std::uint64_t next) {
    for (const Made& made : group.made) {
      if (made.ahead < next || made.ahead >= of_.records_.size() ||
          of_.records_[made.ahead].is_done ||
          &of_.records_[made.ahead].op.record() != &made.op.record()) {
        breach(made.ahead, "is not a record that may be taken here");
        return next;
      }
      if (made.op.record().output_count != 1 || !is_same_tensor(made.op.output(0), made.operand)) {
        breach(made.ahead, "makes another tensor");
      }
      next = made.ahead + 1;
      taken_[made.ahead] = &made;
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
      } else if (const Made* const made = taken_[end.ahead]; made == nullptr || made->is_left) {
        breach(end.ahead, "ends itself what the group ends for it");
      } else if (!reads_last(made->op, end.operand)) {
        breach(end.ahead, "does not end what the group ends for it");
      }
    }
    if (group_.before != nullptr) {
      check_ends_in(*group_.before);
    }
    check_ends_in(group_);
  }
  void check_ends_in(const FusedGroup& group) {
    for (const Made& made : group.made) {
      for (int i = 0; i < made.op.record().input_count; ++i) {
        const Operand input = made.op.input(i);
        if (!made.is_left && input.use == Use::read_last && ends_of(made.ahead, input) != 1) {
          breach(made.ahead,
                 fmt::format("the end of slot {} is applied {} times",
                             input.slot.value,
                             ends_of(made.ahead, input)));
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
  void play_before(const FusedGroup& before) {
    if (!group_.has_anchor() || before.before != nullptr ||
        std::ranges::count(before.made, true, &Made::is_handed_on) != 1) {
      tensors_.breach("precedes no anchor, or defers a number of values other than one");
      return;
    }
    read_all(before);
    values_.clear();
    for (const Made& made : before.made) {
      tensors_.begin_group(made.ahead);
      if (!made.is_over || made.is_left) {
        tensors_.breach(made.operand, "is needed, but only deferred");
      }
      tensors_.make(made.operand);
      tensors_.end(made.operand);
    }
    const Made& handed_on = before.handed_on();
    const OpView& anchor = group_.made.front().op;
    const Operand input = anchor.input(group_.before_input);
    if (handed_on.extent != GroupExtent::full || handed_on.role == Role::shows ||
        handed_on.role == Role::unneeded || !is_same_tensor(handed_on.operand, input)) {
      tensors_.breach(input, "is not the deferred value");
    }
  }
  void read_all(const FusedGroup& group) {
    for (std::size_t i = 0; i < group.made.size(); ++i) {
      tensors_.begin_group(group.made[i].ahead);
      read_sources(group, group.made[i]);
      note_value(group.made[i], i);
    }
  }
  // The kernel reads all its inputs before it makes or ends a tensor.
  void play_group() {
    read_all(group_);
    for (const Made& made : group_.made) {
      tensors_.begin_group(made.ahead);
      if (!made.is_left) {
        tensors_.make(made.operand);
      }
      if (made.is_over) {
        tensors_.end(made.operand);
      } else if (!made.is_left && (made.role == Role::shows || made.role == Role::unneeded ||
                                   made.extent == GroupExtent::cell)) {
        tensors_.breach(made.operand, "is never stored");
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
  void read_sources(const FusedGroup& group, const Made& made) {
    if (made.role == Role::shows || made.role == Role::unneeded) {
      return;  // no work of the kernel
    }
    const bool is_anchor = made.role == Role::anchor;
    const auto count = static_cast<std::size_t>(made.op.record().input_count);
    if (!is_anchor && made.source_count != count) {
      tensors_.breach("has another number of inputs");
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Operand input = made.op.input(static_cast<int>(i));
      const bool is_handed_on =
          is_anchor && group.before != nullptr && static_cast<int>(i) == group.before_input;
      if (is_handed_on) {
        continue;  // see play_before()
      }
      if (is_anchor) {
        read_outside(input, group.anchor_inputs, i);
      } else {
        read_source(group, input, group.sources[made.first_source + i]);
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
    const bool is_it = source.is_made && source.number == value->made;
    if (!is_it || group.made[value->made].role == Role::unneeded) {
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
  void note_value(const Made& made, std::size_t place) {
    if (made.role == Role::shows) {
      const Operand shown = made.op.input(0);
      const auto value = std::ranges::find_if(
          values_, [&](const Value& each) { return is_same_tensor(each.operand, shown); });
      if (value == values_.end()) {
        tensors_.breach(shown, "is shown, but is no value of the group");
        return;
      }
      place = value->made;
    }
    values_.push_back({made.operand, place});
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

  void play_rest() {
    for (std::uint64_t ahead = 0; ahead < of_.records_.size(); ++ahead) {
      const Record& record = of_.records_[ahead];
      const auto drop = std::ranges::find_if(group_.ends, [&](const FusedGroup::End& end) {
        return end.is_drop && !end.is_off && end.ahead == ahead;
      });
      tensors_.begin(ahead);
      if (record.is_done) {
        of_.end_late(tensors_, ahead);
      } else if (taken_[ahead] != nullptr && !taken_[ahead]->is_left) {
        end_own(ahead);
      } else if (drop == group_.ends.end()) {
        tensors_.run(record.op, ahead);
      }
    }
  }
  void end_own(std::uint64_t ahead) {
    for (const FusedGroup::End& end : group_.ends) {
      if (end.ahead == ahead && !end.is_drop && end.is_off) {
        tensors_.end(end.operand);
      }
    }
  }

  const GroupLegality& of_;
  const FusedGroup& group_;
  Tensors tensors_;
  std::vector<const Made*> taken_;  ///< By position in the window.
  std::vector<Value> values_ = {};
};

void GroupLegality::end_late(Tensors& tensors, std::uint64_t ahead) const {
  for (const Late& late : late_) {
    if (late.ahead == ahead) {
      tensors.end(late.operand);
    }
  }
}

void GroupLegality::play_singly(Tensors& tensors) const {
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
  play_singly(tensors);
  return tensors.breach();
}

std::string GroupLegality::breach_of(const FusedGroup& group) const {
  return breach_of_window().empty() ? Check(*this, group).run() : std::string();
}

}  // namespace hearth
