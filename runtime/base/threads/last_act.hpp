// LastAct: a function that runs when the program dies of an uncaught exception.
// Owned by the object that the act serves (a recording, for example). Threads: any.
// Invariants: (1) an act runs at most once, on a thread of its own, because the dying thread may
// hold locks or a device; (2) the newest act runs first; (3) the program dies after kLimit,
// whatever an act does, by the previous terminate handler; (4) an act that throws does not stop the
// others.
// The list belongs to the process, like the terminate handler.
#pragma once

#include <chrono>

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth {

class LastAct final {
 public:
  /// Time limit of all acts together.
  static constexpr std::chrono::seconds kLimit{30};

  explicit LastAct(UniqueFunction<void()> act);
  LastAct(const LastAct&) = delete;
  LastAct& operator=(const LastAct&) = delete;
  /// Removes the act; it does not start afterwards. It may be running while the program dies, so
  /// the act owns what it touches.
  ~LastAct();

 private:
  static void die() noexcept;
  static void run_all() noexcept;

  UniqueFunction<void()> act_;
};

}  // namespace hearth
