// The declaration that infinities and NaNs count, in the words of modules: its widths, that the
// result is valid, and what stays. non_finite_test checks the drivers' results.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spirv-tools/libspirv.hpp>

#include "backends/vulkan/spirv/special_values.hpp"
#include "backends/vulkan/spirv/spirv_reader.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::uint32_t kAllWidths = 16 | 32 | 64;

// A shader that stores a value of the type `type`.
SpirvModule module_of(const std::string& type) {
  return compile_glsl("test",
                      fmt::format(R"(#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer Values {{ {0} x[16]; }};
void main() {{
  x[0] = x[1] + x[2];
}}
)",
                                  type))
      .value();
}

// The widths that the module declares, in their order.
std::vector<std::uint32_t> declared(const SpirvModule& module) {
  constexpr std::uint32_t kExecutionMode = 16;
  constexpr std::uint32_t kPreserveMode = 4461;
  std::vector<std::uint32_t> widths;
  SpirvReader reader(module);
  while (const auto instruction = reader.next()) {
    if (instruction->code == kExecutionMode && instruction->words[2] == kPreserveMode) {
      widths.push_back(instruction->words[3]);
    }
  }
  EXPECT_FALSE(reader.is_damaged());
  return widths;
}

bool is_valid(const SpirvModule& module) {
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  return tools.Validate(module.data(), module.size());
}

SpirvModule with_declaration(const std::string& type, std::uint32_t widths = kAllWidths) {
  SpirvModule module = declare_special_values(module_of(type), widths).value();
  EXPECT_TRUE(is_valid(module)) << type;
  return module;
}

using Widths = std::vector<std::uint32_t>;

TEST(SpecialValues, AreDeclaredForEachWidthOfTheModule) {
  EXPECT_EQ(declared(with_declaration("float")), Widths{32});
  EXPECT_EQ(declared(with_declaration("double")), Widths{64});
  EXPECT_EQ(declared(with_declaration("float16_t")), Widths{16});
}

TEST(SpecialValues, AreDeclaredWhereTheDriverCanPreserveThem) {
  EXPECT_EQ(declared(with_declaration("float", 32)), Widths{32});
  for (const std::string type : {"double", "float16_t"}) {
    const SpirvModule module = module_of(type);
    EXPECT_EQ(declare_special_values(module, 32).value(), module) << type;
  }
}

TEST(SpecialValues, AreDeclaredOnce) {
  const SpirvModule module = with_declaration("float");
  EXPECT_EQ(declare_special_values(module, kAllWidths).value(), module);
}

TEST(SpecialValues, LeaveModulesOfIntegersAsTheyAre) {
  const SpirvModule module = module_of("int");
  EXPECT_EQ(declare_special_values(module, kAllWidths).value(), module);
}

TEST(SpecialValues, RefuseAModuleThatIsDamaged) {
  SpirvModule module = module_of("float");
  module.push_back(0);
  EXPECT_EQ(declare_special_values(module, kAllWidths).error().code, ErrorCode::internal);
  module.resize(kSpirvHeaderWords);
  EXPECT_EQ(declare_special_values(module, kAllWidths).error().code, ErrorCode::internal);
}

}  // namespace
}  // namespace hearth::vulkan
