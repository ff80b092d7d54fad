// TerminalScreen: a terminal's whole screen by ncurses, which is loaded when a program asks for it:
// programs that do not are neither linked with it nor load it. Private to modules.
// Owned by what draws. Threads: one at a time; a process has one at most.
// Invariants: (1) when it ends, on whatever way, the terminal is as it was; (2) the program's own
// locale and signal handlers are as they were, too.
#pragma once

#include "training_dashboard.hpp"

#include <hearth/runtime/base/terminal_guard.hpp>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

namespace hearth::detail {

class TerminalScreen final {
 public:
  /// Null where it cannot be had; `why` says it in a sentence then.
  [[nodiscard]] static std::unique_ptr<TerminalScreen> open(std::FILE* out, std::string& why);
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;
  ~TerminalScreen();

  /// How large it is now.
  void measure(int& rows, int& columns) const;
  [[nodiscard]] bool is_unicode() const noexcept;
  void show(const TextPicture& picture);

 private:
  struct Library;
  struct State;
  TerminalScreen(std::unique_ptr<State> state, int file);

  TerminalGuard guard_;
  int file_;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::detail
