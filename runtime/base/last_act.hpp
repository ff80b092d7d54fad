// LastAct: what is still done when the program dies of an exception that nobody catches, on the thread that threw it.
// Owned by what the act is for (a recording, say). Threads: any.
// Invariants: (1) an act runs once at most; (2) the newest runs first; (3) the terminate handler of before runs after them; (4) an act
// that throws is not fatal to the others. The list belongs to the process, as the terminate handler does: the one global of the library.
#pragma once

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth {

class LastAct final {
 public:
  /// `act` may wait, though not for ever, and not for what the dying thread holds.
  explicit LastAct(UniqueFunction<void()> act);
  LastAct(const LastAct&) = delete;
  LastAct& operator=(const LastAct&) = delete;
  /// From now on, it is not begun. It may be under way on a thread that dies meanwhile: the act owns what it touches.
  ~LastAct();

 private:
  static void run_all() noexcept;

  UniqueFunction<void()> act_;
};

}  // namespace hearth
