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

struct ChoiceRow {
  std::string_view name;
  ProductChoice choice;
};

constexpr bool kStraight = false;
constexpr bool kSwapped = true;
// The sums of register tiles. Other forms of a product have other sums, and no row here.
constexpr detail::BitsClass kTileSums = 1;

// Ids count from 1. The first rows are tried first.
constexpr std::array kChoiceRows = {
    ChoiceRow{"swapped/read-a/tasks-b",
              {kSwapped, {LeftAccess::in_place, RightAccess::packed_in_task}}},
    ChoiceRow{"packed/read-b", {kStraight, {LeftAccess::packed, RightAccess::in_place}}},
    ChoiceRow{"packed/rows", {kStraight, {LeftAccess::packed, RightAccess::packed_rows}}},
    ChoiceRow{"swapped/read-a/rows", {kSwapped, {LeftAccess::in_place, RightAccess::packed_rows}}},
    ChoiceRow{"packed/tasks-b", {kStraight, {LeftAccess::packed, RightAccess::packed_in_task}}},
    ChoiceRow{"read-a/read-b", {kStraight, {LeftAccess::in_place, RightAccess::in_place}}},
    ChoiceRow{"read-a/rows", {kStraight, {LeftAccess::in_place, RightAccess::packed_rows}}},
    ChoiceRow{"read-a/tasks-b", {kStraight, {LeftAccess::in_place, RightAccess::packed_in_task}}},
    ChoiceRow{"packed/blocks", {kStraight, {LeftAccess::packed, RightAccess::packed_blocks}}},
    ChoiceRow{"read-a/blocks", {kStraight, {LeftAccess::in_place, RightAccess::packed_blocks}}},
    ChoiceRow{"swapped/rows", {kSwapped, {LeftAccess::packed, RightAccess::packed_rows}}},
    ChoiceRow{"swapped/tasks-b", {kSwapped, {LeftAccess::packed, RightAccess::packed_in_task}}},
    ChoiceRow{"swapped/read-b", {kSwapped, {LeftAccess::packed, RightAccess::in_place}}},
    ChoiceRow{"swapped/read-a/read-b", {kSwapped, {LeftAccess::in_place, RightAccess::in_place}}},
    ChoiceRow{"swapped/blocks", {kSwapped, {LeftAccess::packed, RightAccess::packed_blocks}}},
    ChoiceRow{"swapped/read-a/blocks",
              {kSwapped, {LeftAccess::in_place, RightAccess::packed_blocks}}},
};

}  // namespace

const ProductChoice* choice_of(detail::CandidateId pick) noexcept {
  return pick == detail::kRulePick || pick > kChoiceRows.size() ? nullptr
                                                                : &kChoiceRows[pick - 1U].choice;
}

std::vector<detail::Candidate> product_candidates(const MatmulProduct& product,
                                                  const KernelContext& context) {
  std::vector<detail::Candidate> list;
  const std::optional<ProductPlan> rule = rule_plan(product, context);
  if (!rule.has_value()) {
    return list;
  }
  list.reserve(1 + kChoiceRows.size());
  const auto add = [&](detail::CandidateId id, const ProductPlan& plan, std::string_view name) {
    list.push_back({.id = id,
                    .bits = kTileSums,
                    .scratch_bytes = plan.scratch_bytes,
                    .text_hash = kProductText,
                    .name = name});
  };
  add(detail::kRulePick,
      *rule,
      std::ranges::find(kChoiceRows, rule->choice, &ChoiceRow::choice)->name);
  for (std::size_t i = 0; i < kChoiceRows.size(); ++i) {
    const ChoiceRow& row = kChoiceRows[i];
    if (const auto plan = other_plan(product, context, rule->choice, row.choice)) {
      add(static_cast<detail::CandidateId>(i + 1), *plan, row.name);
    }
  }
  if (list.size() == 1) {
    list.clear();
  }
  return list;
}

}  // namespace hearth::cpu
