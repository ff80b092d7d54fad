// LastAct: what is still done when the program dies of an exception that nobody catches.
// Owned by what the act is for (a recording, say). Threads: any.
// Invariants: (1) an act runs once at most, on a thread of its own, as the dying one may hold locks
// or a device; (2) the newest runs first; (3) the program dies after kLimit, whatever an act does,
// by the terminate handler of before; (4) an act that throws does not keep the others from running.
// The list belongs to the process, as the terminate handler does.
#pragma once

#include <chrono>

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth {

class LastAct final {
 public:
  /// How long all acts may take together.
  static constexpr std::chrono::seconds kLimit{30};

  explicit LastAct(UniqueFunction<void()> act);
  LastAct(const LastAct&) = delete;
  LastAct& operator=(const LastAct&) = delete;
  /// From now on, it is not begun. It may be under way while the program dies: the act owns what it
  /// touches.
  ~LastAct();

 private:
  static void die() noexcept;
  static void run_all() noexcept;

  UniqueFunction<void()> act_;
};

}  // namespace hearth
