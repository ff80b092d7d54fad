// PlanStore: the plans of a device. A plan maps the form of a group (GroupForm) to the kernel that
// runs it, or to the fact that there is none. Private to runtime. Owned by the device actor,
// touched by the token holder only.
// Invariant: a plan is kept until evict(), because work in flight refers to its expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hearth/streams/kernel/expression.hpp>

namespace hearth {

class PlanStore final {
 public:
  static constexpr std::size_t kMostPlans = 4096;

  struct Plan {
    std::vector<std::uint64_t> form;
    ExpressionRef expression;      ///< Null: the ops run singly.
    std::string why_none = {};     ///< Reason for a null expression.
    mutable bool was_used = true;  ///< Used since the last eviction.
  };

  /// Returns the plan of a form, or null if there is none.
  [[nodiscard]] const Plan* find(std::span<const std::uint64_t> form) noexcept;
  /// Marks a plan as used without a search.
  static void record_use(const Plan& plan) noexcept { plan.was_used = true; }
  /// Adds the plan of a form that has none. Requires !is_full().
  const Plan& keep(std::span<const std::uint64_t> form,
                   ExpressionRef expression,
                   std::string why_none = {});
  [[nodiscard]] bool is_full() const noexcept { return plans_.size() >= kMostPlans; }
  /// Evicts plans that were not used since the last eviction, or all if more than half would
  /// remain. Requires that nothing is in flight.
  void evict() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return plans_.size(); }
  /// Hash of a form. Forms of equal hash are compared by their words.
  [[nodiscard]] static std::uint64_t hash_of(std::span<const std::uint64_t> form) noexcept;

 private:
  std::unordered_multimap<std::uint64_t, Plan> plans_;
};

}  // namespace hearth
