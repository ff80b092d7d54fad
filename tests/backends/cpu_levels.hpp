// The instruction sets that a test can run on this machine. Values, any thread.
#pragma once

#include <vector>

#include <hearth/backends/cpu/isa.hpp>

namespace hearth::cpu {

[[nodiscard]] inline std::vector<IsaLevel> levels_here() {
#ifdef HEARTH_CPU_ONE_LEVEL  // its code runs under each name
  return {IsaLevel::baseline};
#else
  std::vector<IsaLevel> levels;
  for (const IsaLevel level : {IsaLevel::baseline, IsaLevel::avx2, IsaLevel::avx512}) {
    if (level <= machine_isa()) {
      levels.push_back(level);
    }
  }
  return levels;
#endif
}

}  // namespace hearth::cpu
