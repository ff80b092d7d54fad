// The atomics policy of code without locks: what std::atomic is in programs, and what the model
// checker puts in its place to try every order of steps and every value that a load may see.
// Threads: any.
#pragma once

#include <atomic>

namespace hearth::detail {

/// The real ones; costs nothing over std::atomic.
struct StdAtomics {
  template <class T>
  using Atomic = std::atomic<T>;

  /// Plain memory that other threads touch too, kept apart by the atomics around it. The checker
  /// looks for races there; programs do nothing.
  static void note_read(const void* /*memory*/) noexcept {}
  static void note_write(const void* /*memory*/) noexcept {}
};

}  // namespace hearth::detail
