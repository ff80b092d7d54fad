#include "special_values.hpp"

#include <array>

#include "spirv_reader.hpp"

namespace hearth::vulkan {
namespace {

// Numbers of the SPIR-V registry.
constexpr std::uint32_t kEntryPointCode = 15;
constexpr std::uint32_t kModeCode = 16;
constexpr std::uint32_t kCapabilityCode = 17;
constexpr std::uint32_t kFloatTypeCode = 22;
constexpr std::uint32_t kPreserveCapability = 4466;
constexpr std::uint32_t kPreserveMode = 4461;

constexpr std::uint32_t head_of(std::uint32_t code, std::uint32_t count) noexcept {
  return count << 16U | code;
}

struct ModuleFloats {
  std::uint32_t widths = 0;          ///< A sum of the float widths of the module.
  std::uint32_t entry_point = 0;     ///< Its id; ids begin at 1.
  std::size_t entry_points_end = 0;  ///< Word behind the last entry point.
  bool has_declaration = false;      ///< The module, a program's own, has one.
};

Result<ModuleFloats> floats_of(const SpirvModule& module) {
  ModuleFloats floats;
  SpirvReader reader(module);
  while (const auto instruction = reader.next()) {
    const SpirvWords words = instruction->words;
    if (instruction->code == kFloatTypeCode && words.size() == 3) {  // IEEE 754: not bfloat16
      floats.widths |= words[2];
    } else if (instruction->code == kEntryPointCode && words.size() > 2) {
      floats.entry_point = words[2];
      floats.entry_points_end =
          static_cast<std::size_t>(words.data() - module.data()) + words.size();
    } else if (instruction->code == kCapabilityCode && words.size() > 1) {
      floats.has_declaration = floats.has_declaration || words[1] == kPreserveCapability;
    }
  }
  if (reader.is_damaged() || floats.entry_point == 0) {
    return Error{.code = ErrorCode::internal, .text = "a SPIR-V module is damaged"};
  }
  return floats;
}

}  // namespace

Result<SpirvModule> declare_special_values(SpirvModule module, std::uint32_t widths) {
  HEARTH_TRY(const ModuleFloats floats, floats_of(module));
  if (floats.has_declaration || (floats.widths & widths) == 0) {
    return module;
  }
  std::vector<std::uint32_t> modes;
  for (const std::uint32_t width : {16U, 32U, 64U}) {
    if ((floats.widths & widths & width) != 0) {
      modes.insert(modes.end(), {head_of(kModeCode, 4), floats.entry_point, kPreserveMode, width});
    }
  }
  constexpr std::array kDeclared{head_of(kCapabilityCode, 2), kPreserveCapability};
  module.insert(module.begin() + static_cast<std::ptrdiff_t>(floats.entry_points_end),
                modes.begin(),
                modes.end());
  module.insert(module.begin() + kSpirvHeaderWords, kDeclared.begin(), kDeclared.end());
  return module;
}

}  // namespace hearth::vulkan
