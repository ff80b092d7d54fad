#include "product_choices.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth::cpu {

// Of the sources of products; kernel_text.cmake generates its definition.
extern const std::uint64_t kProductText;

namespace {

struct Row {
  std::string_view name;
  ProductChoice choice;
};

constexpr bool kStraight = false;
constexpr bool kSwapped = true;
// The sums of register tiles. Other forms of a product have other sums, and no row here.
constexpr detail::BitsClass kTileSums = 1;

// Ids count from 1. The first rows are tried first.
constexpr std::array kRows = {
    Row{"swapped/read-a/tasks-b", {kSwapped, {LeftAccess::in_place, RightAccess::packed_in_task}}},
    Row{"packed/read-b", {kStraight, {LeftAccess::packed, RightAccess::in_place}}},
    Row{"packed/rows", {kStraight, {LeftAccess::packed, RightAccess::packed_rows}}},
    Row{"swapped/read-a/rows", {kSwapped, {LeftAccess::in_place, RightAccess::packed_rows}}},
    Row{"packed/tasks-b", {kStraight, {LeftAccess::packed, RightAccess::packed_in_task}}},
    Row{"read-a/read-b", {kStraight, {LeftAccess::in_place, RightAccess::in_place}}},
    Row{"read-a/rows", {kStraight, {LeftAccess::in_place, RightAccess::packed_rows}}},
    Row{"read-a/tasks-b", {kStraight, {LeftAccess::in_place, RightAccess::packed_in_task}}},
    Row{"packed/blocks", {kStraight, {LeftAccess::packed, RightAccess::packed_blocks}}},
    Row{"read-a/blocks", {kStraight, {LeftAccess::in_place, RightAccess::packed_blocks}}},
    Row{"swapped/rows", {kSwapped, {LeftAccess::packed, RightAccess::packed_rows}}},
    Row{"swapped/tasks-b", {kSwapped, {LeftAccess::packed, RightAccess::packed_in_task}}},
    Row{"swapped/read-b", {kSwapped, {LeftAccess::packed, RightAccess::in_place}}},
    Row{"swapped/read-a/read-b", {kSwapped, {LeftAccess::in_place, RightAccess::in_place}}},
    Row{"swapped/blocks", {kSwapped, {LeftAccess::packed, RightAccess::packed_blocks}}},
    Row{"swapped/read-a/blocks", {kSwapped, {LeftAccess::in_place, RightAccess::packed_blocks}}},
};

}  // namespace

const ProductChoice* choice_of(detail::CandidateId pick) noexcept {
  return pick == detail::kRulePick || pick > kRows.size() ? nullptr : &kRows[pick - 1U].choice;
}

std::vector<detail::Candidate> product_candidates(const MatmulProduct& product,
                                                  const KernelContext& context) {
  std::vector<detail::Candidate> list;
  const std::optional<ProductPlan> rule = rule_plan(product, context);
  if (!rule.has_value()) {
    return list;
  }
  list.reserve(1 + kRows.size());
  const auto add = [&](detail::CandidateId id, const ProductPlan& plan, std::string_view name) {
    list.push_back({.id = id,
                    .bits = kTileSums,
                    .scratch_bytes = plan.scratch_bytes,
                    .text_hash = kProductText,
                    .name = name});
  };
  add(detail::kRulePick, *rule, std::ranges::find(kRows, rule->choice, &Row::choice)->name);
  for (detail::CandidateId id = 1; id <= kRows.size(); ++id) {
    const Row& row = kRows[id - 1U];
    if (const auto plan = other_plan(product, context, rule->choice, row.choice)) {
      add(id, *plan, row.name);
    }
  }
  if (list.size() == 1) {
    list.clear();
  }
  return list;
}

}  // namespace hearth::cpu
