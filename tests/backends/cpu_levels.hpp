// The instruction sets that a test can run on this machine. Values, any thread.
#pragma once

#include <vector>

#include <hearth/backends/cpu/isa.hpp>

namespace hearth::cpu {

[[nodiscard]] inline std::vector<IsaLevel> levels_here() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel level : {IsaLevel::baseline, IsaLevel::avx2, IsaLevel::avx512}) {
    if (level <= machine_isa()) {
      levels.push_back(level);
    }
  }
  return levels;
}

}  // namespace hearth::cpu
