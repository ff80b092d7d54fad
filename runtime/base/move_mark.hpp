// MoveMark: whether the value that has it was moved from. A member of values whose emptiness would
// otherwise look like a fresh start: what uses one asks, and throws.
// A value. Threads: those of its owner. Invariants: (1) a copy is marked as its source is; (2) a
// move leaves the source marked, one into itself too.
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
