// TerminalScreen: full-screen terminal output by ncurses, which is loaded on demand. Programs that
// do not use it neither link nor load ncurses. Private to modules.
// Owned by the console that draws. Threads: one at a time; at most one per process.
// Invariants: (1) the terminal is restored however the screen ends; (2) the program's locale and
// signal handlers are restored, too.
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
  /// Takes the screen. Returns null on failure, with the reason in `why`.
  [[nodiscard]] static std::unique_ptr<TerminalScreen> open(std::FILE* out, std::string& why);
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;
  ~TerminalScreen();

  /// Returns the current size.
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
