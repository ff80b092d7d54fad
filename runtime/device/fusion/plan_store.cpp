#include "plan_store.hpp"

#include <algorithm>

namespace hearth {

// Multiplies and folds word by word: forms are short and are compared completely afterwards.
std::uint64_t PlanStore::hash_of(std::span<const std::uint64_t> form) noexcept {
  std::uint64_t hash = form.size();
  for (const std::uint64_t word : form) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return hash;
}

const PlanStore::Plan* PlanStore::find(std::span<const std::uint64_t> form) noexcept {
  const auto [first, last] = plans_.equal_range(hash_of(form));
  for (auto each = first; each != last; ++each) {
    if (std::ranges::equal(each->second.form, form)) {
      each->second.was_used = true;
      return &each->second;
    }
  }
  return nullptr;
}

void PlanStore::evict() noexcept {
  std::erase_if(plans_, [](const auto& each) { return !each.second.was_used; });
  if (plans_.size() > kMostPlans / 2) {
    plans_.clear();
  }
  for (auto& each : plans_) {
    each.second.was_used = false;
  }
}

const PlanStore::Plan& PlanStore::keep(std::span<const std::uint64_t> form,
                                       ExpressionRef expression,
                                       std::string why_none) {
  return plans_
      .emplace(hash_of(form),
               Plan{.form = {form.begin(), form.end()},
                    .expression = std::move(expression),
                    .why_none = std::move(why_none)})
      ->second;
}

}  // namespace hearth
