// What kernels leave that may fail while they run, on devices that answer later. Each has an error
// cell on the device; until the host has read it, results that depend on the kernel carry it along,
// and nobody outside the device sees them. Private to runtime. Owned by the device actor, touched
// by the token holder only.
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

/// The numbers of a device's error cells.
class CellNumbers final {
 public:
  /// The device has cells 1 to `most`; 0: as many as there are numbers.
  void limit(ErrorCell most) noexcept { most_ = most; }
  /// Whether there are so few left that lanes wait until some are free.
  [[nodiscard]] bool are_short() const noexcept {
    return most_ != 0 && most_ + free_.size() < count_ + kReserve;
  }
  /// A number that no kernel uses which has not ended. `ended`: the value of kOpStream up to which
  /// all has.
  [[nodiscard]] ErrorCell take(std::uint64_t ended) {
    note_ended(ended);
    if (free_.empty()) {
      return ++count_;
    }
    const ErrorCell cell = free_.back();
    free_.pop_back();
    return cell;
  }
  /// Launches up to `used_until` of kOpStream may look at the cell; it never falls.
  void give_back(ErrorCell cell, std::uint64_t used_until) {
    waiting_.push_back({cell, used_until});
  }
  /// No launch has taken the cell.
  void take_back(ErrorCell cell) { free_.push_back(cell); }
  void note_ended(std::uint64_t ended) {
    while (!waiting_.empty() && waiting_.front().used_until <= ended) {
      free_.push_back(waiting_.front().cell);
      waiting_.pop_front();
    }
  }
  /// A new generation: nobody looks at a cell any more.
  void begin_anew() noexcept {
    free_.clear();
    waiting_.clear();
    count_ = 0;
  }

 private:
  /// A lane asks before each op, and an op takes one.
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

/// One kernel's cell, and what the host knows of it.
struct LateFailure {
  ErrorCell cell = 0;
  TimelinePoint point = {};  ///< Of the kernel.
  bool is_known = false;
  ErrorRef error = {};  ///< Once known; null: the kernel ran.
};

/// The kernels on which a tensor depends and of which the host does not know yet how they came out.
/// Null: none. Tensors that depend on the same share it.
using LateFailures = std::shared_ptr<const std::vector<std::shared_ptr<const LateFailure>>>;

/// What is known to have failed of these, or null.
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

/// The ends of these kernels.
[[nodiscard]] inline LastUse ends_of(const LateFailures& failures) noexcept {
  LastUse ends;
  for (std::size_t i = 0; failures && i < failures->size(); ++i) {
    ends.add((*failures)[i]->point.stream, (*failures)[i]->point.value);
  }
  return ends;
}

/// The cells of those that are not known.
[[nodiscard]] inline std::vector<ErrorCell> cells_of(const LateFailures& failures) {
  std::vector<ErrorCell> cells;
  for (std::size_t i = 0; failures && i < failures->size(); ++i) {
    if (!(*failures)[i]->is_known) {
      cells.push_back((*failures)[i]->cell);
    }
  }
  return cells;
}

/// All of both that are not known yet. None of them is known to have failed: both lists are those
/// of tensors that their reader has settled, and a known failure has poisoned its tensor then
/// (HandleTable::settle).
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
