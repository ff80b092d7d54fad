// The use of a group's values, once all its ops are known: which reach memory, which end with the
// group, and which are unneeded.
#include "group_gather.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace hearth {

bool GroupGather::ends_in_group(const FusedGroup::End& end) noexcept {
  return mark_of(handles_.slot(end.operand.slot)).first_outside > end.ahead;
}

// A value that is not stored but needed is recomputed by its own record, which then ends its own
// inputs.
void GroupGather::mark_recomputed(Member& member) {
  member.is_recomputed = true;
  for (FusedGroup::End& end : group_.ends) {
    end.is_own = end.is_own || end.ahead == member.ahead;
  }
  pass(member.op, member.ahead);
}

// From the last op to the first: the readers of a value come after its op.
void GroupGather::settle() {
  for (std::size_t i = group_.members.size(); i-- > 0;) {
    Member& member = group_.members[i];
    const std::int16_t end = mark_of(handles_.slot(member.operand.slot)).end;
    member.is_internal = end >= 0 && !group_.ends[static_cast<std::size_t>(end)].is_own &&
                         ends_in_group(group_.ends[static_cast<std::size_t>(end)]);
    const bool is_stored =
        member.role != FusedGroup::Role::views && member.extent != GroupExtent::cell;
    if (!member.is_internal && !is_stored) {
      mark_recomputed(member);
    }
  }
  is_chain_closed_ = closes_chain();
  leave_out_unneeded();
  std::erase_if(group_.ends, [](const FusedGroup::End& end) { return end.is_own; });
  for (FusedGroup::End& end : group_.ends) {
    end.is_deferred = !ends_in_group(end);
    if (!end.is_deferred) {
      record_last(end.operand);
    }
  }
}

// Leaves out each value without a consumer outside the group and without a needed value that
// depends on it.
void GroupGather::leave_out_unneeded() {
  std::array<bool, std::size_t{1} << 8U> is_needed{};
  bool are_all = true;
  for (std::size_t i = group_.members.size(); i-- > 0;) {
    Member& member = group_.members[i];
    if (member.is_output() || member.role == FusedGroup::Role::anchor || is_needed[i]) {
      for (const GroupSource& source : sources_of(member)) {
        if (source.is_made) {
          is_needed[source.number] = true;
        }
      }
    } else if (member.role == FusedGroup::Role::computes) {
      member.role = FusedGroup::Role::unneeded;
      are_all = false;
    }
  }
  if (!are_all) {
    leave_out_unread();
    leave_out_rows();
  }
}

// Forgets the rows if only unneeded ops worked along them.
void GroupGather::leave_out_rows() noexcept {
  const auto is_of_rows = [](const Member& member) {
    return member.role == FusedGroup::Role::computes &&
           (runs_along_rows(member.op.kind()) || member.extent == GroupExtent::row);
  };
  const auto is_row = [](const Input& input) { return input.extent == GroupExtent::row; };
  if (std::ranges::none_of(group_.members, is_of_rows) &&
      std::ranges::none_of(group_.inputs, is_row)) {
    group_.row_axes = 0;
  }
}

// Removes the scalars and tensors that only unneeded ops read.
void GroupGather::leave_out_unread() {
  group_.parameters = 0;
  std::array<std::uint8_t, kMostGroupInputs> number{};
  std::array<bool, kMostGroupInputs> is_read{};
  for (const Member& member : group_.members) {
    if (member.role != FusedGroup::Role::computes) {
      continue;
    }
    group_.parameters += group_parameter_count(member.op);
    for (const GroupSource& source : sources_of(member)) {
      if (!source.is_made) {
        is_read[source.number] = true;
      }
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < group_.inputs.size(); ++i) {
    mark_of(*group_.inputs[i].slot).input =
        is_read[i] ? static_cast<std::int16_t>(kept) : std::int16_t{-1};
    number[i] = static_cast<std::uint8_t>(kept);
    if (is_read[i]) {
      group_.inputs[kept++] = group_.inputs[i];
    }
  }
  group_.inputs.resize(kept);
  for (Member& member : group_.members) {
    std::uint32_t needs = member.needs >> FusedGroup::kFirstAnchorNeed
                                              << FusedGroup::kFirstAnchorNeed;
    for (std::size_t i = 0; i < is_read.size(); ++i) {
      needs |= is_read[i] && (member.needs >> i & 1U) != 0 ? 1U << number[i] : 0U;
    }
    member.needs = needs;
  }
  for (GroupSource& source : group_.sources) {
    source.number = source.is_made ? source.number : number[source.number];
  }
}

void GroupGather::record_last(const Operand& operand) {
  Slot& slot = handles_.slot(operand.slot);
  const GatherMark& mark = mark_of(slot);
  const auto of_anchor = std::ranges::find(group_.anchor_inputs, &slot, &Input::slot);
  if (mark.is_before) {
    return;  // it ends like the group's own values
  }
  if (mark.input >= 0) {
    group_.inputs[static_cast<std::size_t>(mark.input)].is_last = true;
  } else if (of_anchor != group_.anchor_inputs.end()) {
    of_anchor->is_last = true;
  } else if (mark.member < 0 && !record_last_before(slot)) {
    group_.drops.push_back(operand.slot);
  }
}

bool GroupGather::record_last_before(const Slot& slot) noexcept {
  if (group_.before == nullptr) {
    return false;
  }
  for (std::vector<Input>* const inputs : {&before_.inputs, &before_.anchor_inputs}) {
    const auto found = std::ranges::find(*inputs, &slot, &Input::slot);
    if (found != inputs->end()) {
      found->is_last = true;
      return true;
    }
  }
  return false;
}

}  // namespace hearth
