// The most memory that a stretch of code takes from `operator new`, of all threads of the process.
// counted_memory.cpp replaces the operators of its program. Threads: any, one object at a time.
#pragma once

#include <cstddef>

namespace hearth::testing {

class MemoryPeak final {
 public:
  /// Begins a stretch.
  MemoryPeak() noexcept;
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  ~MemoryPeak() = default;

  /// Returns the most bytes that were live at once since the beginning, beyond those before it.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::size_t before_;
};

}  // namespace hearth::testing
