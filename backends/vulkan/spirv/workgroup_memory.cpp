#include "workgroup_memory.hpp"

#include <cstddef>
#include <unordered_map>

#include "spirv_reader.hpp"

namespace hearth::vulkan {
namespace {

// SPIR-V opcodes that declare types, constants and variables.
constexpr std::uint32_t kOpTypeBool = 20;
constexpr std::uint32_t kOpTypeInt = 21;
constexpr std::uint32_t kOpTypeFloat = 22;
constexpr std::uint32_t kOpTypeVector = 23;
constexpr std::uint32_t kOpTypeMatrix = 24;
constexpr std::uint32_t kOpTypeArray = 28;
constexpr std::uint32_t kOpTypeStruct = 30;
constexpr std::uint32_t kOpTypePointer = 32;
constexpr std::uint32_t kOpConstant = 43;
constexpr std::uint32_t kOpSpecConstant = 50;
constexpr std::uint32_t kOpVariable = 59;
constexpr std::uint32_t kWorkgroupClass = 4;
// cap against overflow, above every limit
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

class TypeSizes final {
 public:
  /// Adds one instruction; `words` excludes the first word.
  void add(std::uint32_t code, std::span<const std::uint32_t> words) {
    switch (code) {
      case kOpTypeBool:
        of_[at(words, 0)] = 4;
        break;
      case kOpTypeInt:
      case kOpTypeFloat:
        of_[at(words, 0)] = at(words, 1) / 8;
        break;
      case kOpTypeVector:
      case kOpTypeMatrix:
        of_[at(words, 0)] = bounded(of_[at(words, 1)], at(words, 2));
        break;
      case kOpTypeArray:
        of_[at(words, 0)] = bounded(of_[at(words, 1)], constants_[at(words, 2)]);
        break;
      case kOpTypeStruct:
        of_[at(words, 0)] = sum_of(words);
        break;
      case kOpTypePointer:
        pointees_[at(words, 0)] = at(words, 2);
        break;
      case kOpConstant:
      case kOpSpecConstant:
        constants_[at(words, 1)] = at(words, 2);
        break;
      case kOpVariable:
        if (at(words, 2) == kWorkgroupClass) {
          shared_ += of_[pointees_[at(words, 0)]];
        }
        break;
      default:
        break;
    }
  }
  [[nodiscard]] std::int64_t shared() const noexcept { return shared_; }

 private:
  [[nodiscard]] static std::uint32_t at(std::span<const std::uint32_t> words, std::size_t i) {
    return i < words.size() ? words[i] : 0;
  }
  [[nodiscard]] static std::int64_t bounded(std::int64_t size, std::uint32_t count) {
    return size > kMostBytes / (std::int64_t{count} + 1) ? kMostBytes : size * count;
  }
  [[nodiscard]] std::int64_t sum_of(std::span<const std::uint32_t> words) {
    std::int64_t sum = 0;
    for (std::size_t i = 1; i < words.size(); ++i) {
      sum += of_[words[i]];
    }
    return sum;
  }

  std::unordered_map<std::uint32_t, std::int64_t> of_;  // bytes by type
  std::unordered_map<std::uint32_t, std::uint32_t> pointees_;
  std::unordered_map<std::uint32_t, std::uint32_t> constants_;
  std::int64_t shared_ = 0;
};

}  // namespace

std::int64_t workgroup_bytes(std::span<const std::uint32_t> module) {
  TypeSizes sizes;
  SpirvReader reader(module);
  while (const auto instruction = reader.next()) {
    sizes.add(instruction->code, instruction->words.subspan(1));
  }
  if (reader.is_damaged()) {
    return 0;
  }
  return sizes.shared();
}

}  // namespace hearth::vulkan
