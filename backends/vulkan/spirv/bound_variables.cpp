#include "bound_variables.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "spirv_reader.hpp"

namespace hearth::vulkan {
std::optional<std::string> bound_variable(std::span<const std::uint32_t> module) {
  // SPIR-V opcodes that name and declare variables, and the storage classes that need a binding.
  constexpr std::uint32_t kName = 5;
  constexpr std::uint32_t kTypePointer = 32;
  constexpr std::uint32_t kVariable = 59;
  constexpr std::uint32_t kBoundClasses[] = {
      0,   // UniformConstant: images, samplers
      2,   // Uniform: blocks of uniforms
      10,  // AtomicCounter
      12,  // StorageBuffer: buffers that are not reached by an address
  };
  std::unordered_map<std::uint32_t, std::string> names;
  std::unordered_map<std::uint32_t, std::uint32_t> pointees;
  SpirvReader reader(module);
  while (const auto instruction = reader.next()) {
    const SpirvWords words = instruction->words.subspan(1);
    if (instruction->code == kName && words.size() > 1) {
      names[words[0]] = spirv_text(words.subspan(1));
    } else if (instruction->code == kTypePointer && words.size() > 2) {
      pointees[words[0]] = words[2];
    } else if (instruction->code == kVariable && words.size() > 2 &&
               std::ranges::find(kBoundClasses, words[2]) != std::end(kBoundClasses)) {
      const std::string& name = names[words[1]];
      return name.empty() ? names[pointees[words[0]]] : name;
    }
  }
  return std::nullopt;
}

}  // namespace hearth::vulkan
