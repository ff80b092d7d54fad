#include <hearth/backends/codegen/bound_variables.hpp>

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace hearth {
namespace {

std::string literal_of(std::span<const std::uint32_t> words) {
  std::string text;
  for (const std::uint32_t word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const auto letter = static_cast<char>(word >> shift & 0xffU);
      if (letter == '\0') {
        return text;
      }
      text += letter;
    }
  }
  return text;
}

}  // namespace

std::optional<std::string> bound_variable(std::span<const std::uint32_t> module) {
  // Of SPIR-V: instructions that name and make variables, and where those lie.
  constexpr std::size_t kWordsBefore = 5;
  constexpr std::uint32_t kCodeMask = 0xffff;
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
  std::size_t begin = kWordsBefore;
  while (begin < module.size()) {
    const std::size_t length = module[begin] >> 16U;
    if (length == 0 || length > module.size() - begin) {
      return std::nullopt;
    }
    const std::uint32_t code = module[begin] & kCodeMask;
    const std::span<const std::uint32_t> words = module.subspan(begin + 1, length - 1);
    if (code == kName && words.size() > 1) {
      names[words[0]] = literal_of(words.subspan(1));
    } else if (code == kTypePointer && words.size() > 2) {
      pointees[words[0]] = words[2];
    } else if (code == kVariable && words.size() > 2 &&
               std::ranges::find(kBoundClasses, words[2]) != std::end(kBoundClasses)) {
      const std::string& name = names[words[1]];
      return name.empty() ? names[pointees[words[0]]] : name;
    }
    begin += length;
  }
  return std::nullopt;
}

}  // namespace hearth
