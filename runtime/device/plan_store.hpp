// The plans of a device: for each form of a group of ops (GroupForm) the kernel that runs it, or
// that there is none. Private to runtime. Owned by the device actor, touched by the token holder
// only. Invariant: a plan is kept until evict(), as work in flight points to its expression.
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
    ExpressionRef expression;      ///< Null: its ops run singly.
    std::string why_none = {};     ///< Then.
    mutable bool was_used = true;  ///< Since the last eviction.
  };

  /// The plan of a form, in words, or null where none was made yet.
  [[nodiscard]] const Plan* find(std::span<const std::uint64_t> form) noexcept;
  /// The plan is used without having been looked for.
  static void note_use(const Plan& plan) noexcept { plan.was_used = true; }
  /// Keeps a plan of a form that has none. Requires !is_full().
  const Plan& keep(std::span<const std::uint64_t> form,
                   ExpressionRef expression,
                   std::string why_none = {});
  [[nodiscard]] bool is_full() const noexcept { return plans_.size() >= kMostPlans; }
  /// Makes room, when nothing is in flight: forgets what was not used since the last time, or,
  /// where that leaves it more than half full, all.
  void evict() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return plans_.size(); }
  /// Forms of one hash are told apart by their words.
  [[nodiscard]] static std::uint64_t hash_of(std::span<const std::uint64_t> form) noexcept;

 private:
  std::unordered_multimap<std::uint64_t, Plan> plans_;
};

}  // namespace hearth
