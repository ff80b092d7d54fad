// Compiles texts by NVRTC. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/driver/cuda_api.hpp"

namespace hearth::cuda {

/// The name of an architecture for NVRTC: "sm_90a" for 90.
[[nodiscard]] std::string architecture_of(int number);

struct Cubin {
  std::vector<char> bytes = {};  ///< Empty: the text did not compile.
  std::string log = {};          ///< NVRTC's messages in that case.
};

/// Compiles CUDA C++ for an architecture. Floating point is not contracted, so that a text defines
/// its bits: only fma() is contracted.
[[nodiscard]] Cubin compile_text(const NvrtcApi& api,
                                 const std::string& architecture,
                                 const std::string& text);

}  // namespace hearth::cuda
