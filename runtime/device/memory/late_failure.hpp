// Late failures: kernels of asynchronous devices that may fail while they run. Each has an error
// cell on the device. Until the host has read the cell, dependent results carry it along, and no
// result with an open cell leaves the device. Private to runtime. Owned by the device actor,
// touched by the token holder only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/error.hpp>

namespace hearth {

/// Allocator for the numbers of a device's error cells.
class CellNumbers final {
 public:
  /// Sets the number of cells; 0: unlimited.
  void limit(ErrorCell most) noexcept { most_ = most; }
  /// Whether so few cells are left that lanes wait for free ones.
  [[nodiscard]] bool are_short() const noexcept {
    return most_ != 0 && most_ + free_.size() < count_ + kReserve;
  }
  /// Returns a number that no unended kernel uses. `ended`: the value of kOpStream up to which all
  /// work has ended.
  [[nodiscard]] ErrorCell take(std::uint64_t ended) {
    reclaim_ended(ended);
    if (free_.empty()) {
      return ++count_;
    }
    const ErrorCell cell = free_.back();
    free_.pop_back();
    return cell;
  }
  /// Returns a cell that launches up to `used_until` of kOpStream may access. `used_until` never
  /// decreases.
  void release(ErrorCell cell, std::uint64_t used_until) { waiting_.push_back({cell, used_until}); }
  /// Returns a cell that no launch has taken.
  void release_unused(ErrorCell cell) { free_.push_back(cell); }
  void reclaim_ended(std::uint64_t ended) {
    while (!waiting_.empty() && waiting_.front().used_until <= ended) {
      free_.push_back(waiting_.front().cell);
      waiting_.pop_front();
    }
  }
  /// Begins a new generation, in which all cells are free.
  void begin_anew() noexcept {
    free_.clear();
    waiting_.clear();
    count_ = 0;
  }

 private:
  /// Lanes check before each op, and an op takes one cell.
  static constexpr std::size_t kReserve = 64;
  struct Waiting {
    ErrorCell cell = 0;
    std::uint64_t used_until = 0;
  };
  std::vector<ErrorCell> free_;
  std::deque<Waiting> waiting_;
  ErrorCell count_ = 0;
  ErrorCell most_ = 0;
};

/// One kernel's cell, and what the host knows about the kernel.
struct LateFailure {
  ErrorCell cell = 0;
  TimelinePoint point = {};  ///< End of the kernel.
  bool is_known = false;
  ErrorRef error = {};  ///< Valid once is_known; null: the kernel succeeded.
};

/// Kernels on which a tensor depends and whose outcome the host does not know. Null: none. Tensors
/// with the same kernels share the list.
using LateFailures = std::shared_ptr<const std::vector<std::shared_ptr<const LateFailure>>>;

/// The first known failure among these, or null.
[[nodiscard]] inline ErrorRef first_error(const LateFailures& failures) {
  if (failures) {
    for (const auto& each : *failures) {
      if (each->error) {
        return each->error;
      }
    }
  }
  return nullptr;
}

/// Whether the outcome of all of them is known.
[[nodiscard]] inline bool are_known(const LateFailures& failures) noexcept {
  return !failures ||
         std::ranges::all_of(*failures, [](const auto& each) { return each->is_known; });
}

/// Points at which these kernels end.
[[nodiscard]] inline LastUse ends_of(const LateFailures& failures) noexcept {
  LastUse ends;
  for (std::size_t i = 0; failures && i < failures->size(); ++i) {
    ends.add((*failures)[i]->point.stream, (*failures)[i]->point.value);
  }
  return ends;
}

/// Cells of the kernels whose outcome is unknown.
[[nodiscard]] inline std::vector<ErrorCell> cells_of(const LateFailures& failures) {
  std::vector<ErrorCell> cells;
  for (std::size_t i = 0; failures && i < failures->size(); ++i) {
    if (!(*failures)[i]->is_known) {
      cells.push_back((*failures)[i]->cell);
    }
  }
  return cells;
}

/// Joins both lists without known kernels. Neither list has a known failure: the reader has settled
/// both tensors, and a known failure poisons its tensor then (HandleTable::settle).
[[nodiscard]] inline LateFailures merged(const LateFailures& a, const LateFailures& b) {
  if (!b || a == b) {
    return a;
  }
  if (!a) {
    return b;
  }
  std::vector<std::shared_ptr<const LateFailure>> both;
  for (const LateFailures* part : {&a, &b}) {
    for (const auto& each : **part) {
      HEARTH_ASSERT(each->error == nullptr, "a tensor that a kernel has spoiled is poisoned");
      if (!each->is_known && std::ranges::find(both, each) == both.end()) {
        both.push_back(each);
      }
    }
  }
  return both.empty() ? nullptr
                      : std::make_shared<const std::vector<std::shared_ptr<const LateFailure>>>(
                            std::move(both));
}

}  // namespace hearth
