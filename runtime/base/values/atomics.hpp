// The atomics policy of lock-free code. Programs use std::atomic. The model checker substitutes its
// own, to try every order of steps and every value that a load may return. Threads: any.
#pragma once

#include <atomic>

namespace hearth::detail {

/// The policy of programs; costs nothing over std::atomic.
struct StdAtomics {
  template <class T>
  using Atomic = std::atomic<T>;

  /// Marks an access to plain memory that other threads also access, ordered by the atomics around
  /// it. The checker searches for races there; in programs these functions do nothing.
  static void record_read(const void* /*memory*/) noexcept {}
  static void record_write(const void* /*memory*/) noexcept {}
};

}  // namespace hearth::detail
