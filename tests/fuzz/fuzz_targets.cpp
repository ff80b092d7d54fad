#include "fuzz_targets.hpp"

#include <algorithm>
#include <array>

namespace hearth::fuzz {

std::span<const Target> targets() noexcept {
  static constexpr std::array<Target, 9> kTargets{
      {{"op_stream", fuzz_op_stream},
       {"vulkan_op_stream", fuzz_vulkan_op_stream, lack_of_vulkan},
       {"op_trace", fuzz_op_trace},
       {"idx", fuzz_idx},
       {"safetensors", fuzz_safetensors},
       {"torch_file", fuzz_torch_file},
       {"weight_index", fuzz_weight_index},
       {"onnx", fuzz_onnx},
       {"onnx_value", fuzz_onnx_value}}};
  return kTargets;
}

const Target& target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  if (found == targets().end()) {
    throw std::out_of_range("no fuzz target " + std::string(name));
  }
  return *found;
}

}  // namespace hearth::fuzz
