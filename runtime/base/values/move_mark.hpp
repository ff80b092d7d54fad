// MoveMark: records whether the value that contains it was moved from. For values whose empty state
// would otherwise look like a fresh start: their users check the mark and throw.
// A value. Threads: those of its owner. Invariants: (1) a copy has its source's mark; (2) a move
// leaves the source marked, also a move into itself.
#pragma once

#include <utility>

namespace hearth::detail {

class MoveMark final {
 public:
  MoveMark() noexcept = default;
  MoveMark(const MoveMark&) noexcept = default;
  MoveMark& operator=(const MoveMark&) noexcept = default;
  MoveMark(MoveMark&& other) noexcept : is_moved_from_(std::exchange(other.is_moved_from_, true)) {}
  MoveMark& operator=(MoveMark&& other) noexcept {
    is_moved_from_ = other.is_moved_from_;
    other.is_moved_from_ = true;
    return *this;
  }
  ~MoveMark() = default;

  [[nodiscard]] bool is_moved_from() const noexcept { return is_moved_from_; }

 private:
  bool is_moved_from_ = false;
};

}  // namespace hearth::detail
