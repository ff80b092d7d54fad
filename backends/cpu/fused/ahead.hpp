// Prefetches the memory that later work reads or writes, in shares spread over the work before it.
// So it uses the memory bus, which a core that multiplies leaves idle. Private to backends/cpu.
// Threads: one object for each thread. Invariant: changes no bytes.
#pragma once

#include "tile_program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// `count` rows of `size_bytes` each, `step` bytes apart.
struct MemoryRows {
  const std::byte* first = nullptr;
  std::int64_t step = 0;
  std::int64_t count = 0;
  std::int64_t size_bytes = 0;
  bool is_written = false;
};

class Ahead {
 public:
  /// Room for two matrices, the operands of the epilogue of one, and the origins of the other.
  static constexpr std::size_t kMostRows =
      2 + 2 * TileProgram::kMostInputs + TileProgram::kMostOutputs;

  void clear() noexcept { count_ = now_ = 0, row_ = line_ = lines_ = lines_a_call_ = 0; }
  void add(const MemoryRows& rows) noexcept;
  /// Divides the prefetches evenly over `calls` calls of fetch().
  void share(std::int64_t calls) noexcept { lines_a_call_ = (lines_ + calls - 1) / calls; }
  /// Prefetches the next share.
  void fetch() noexcept;

 private:
  std::size_t count_ = 0;
  std::size_t now_ = 0;
  std::int64_t row_ = 0;   // of the current range
  std::int64_t line_ = 0;  // of the current row
  std::int64_t lines_ = 0;
  std::int64_t lines_a_call_ = 0;
  std::array<MemoryRows, kMostRows> rows_;
};

}  // namespace hearth::cpu
