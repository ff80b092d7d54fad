// The rewrite of widened integers, in the words of modules: the changed words, that the result is
// valid, and what stays. backends_agree_test checks the drivers' results.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spirv-tools/libspirv.hpp>

#include "backends/vulkan/spirv/widening_rewrite.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::uint32_t kSignedConvert = 114;
constexpr std::uint32_t kBitcast = 124;

// A shader that stores the expression `value` of an int `x`.
SpirvModule module_of(const std::string& value, const std::string& more = "") {
  return compile_glsl("test",
                      fmt::format(R"(#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer Values {{ int x[16]; int64_t y[16]; }};
void main() {{
  const int at = int(gl_GlobalInvocationID.x);
  const int x0 = x[at];
  {}
  y[at] = {};
}}
)",
                                  more,
                                  value))
      .value();
}

int count(const SpirvModule& module, std::uint32_t op) {
  int found = 0;
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16U) {
    found += (module[at] & 0xFFFFU) == op ? 1 : 0;
  }
  return found;
}

bool is_valid(const SpirvModule& module) {
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  return tools.Validate(module.data(), module.size());
}

TEST(WideningRewrite, MakesWidenedIntegersOfTwoWordsWhereTheyAreOrdered) {
  for (const std::string value : {"int64_t(x0) < 0l ? 1l : 2l",
                                  "3l <= int64_t(x0) ? int64_t(x[3]) : 0l",
                                  "abs(int64_t(x0))",
                                  "sign(int64_t(x0))",
                                  "min(int64_t(x0), 7l)",
                                  "clamp(int64_t(x0), -1l, 7l)"}) {
    const SpirvModule before = module_of(value);
    const SpirvModule after = rewrite_widening(before).value();
    EXPECT_GT(count(before, kSignedConvert), 0) << value;
    EXPECT_EQ(count(after, kSignedConvert), 0) << value;
    EXPECT_EQ(count(after, kBitcast), count(before, kBitcast) + count(before, kSignedConvert))
        << value;
    EXPECT_TRUE(is_valid(after)) << value;
  }
  // A module that already has a pair of integers keeps that type.
  EXPECT_TRUE(is_valid(
      rewrite_widening(module_of("max(int64_t(x0), int64_t(p.y))", "const ivec2 p = ivec2(x0, 5);"))
          .value()));
}

TEST(WideningRewrite, LeavesOtherModulesAsTheyAre) {
  for (const std::string value : {"int64_t(x0) + 5l",
                                  "int64_t(x0) == 5l ? 1l : 0l",
                                  "x0 < 3 ? int64_t(x0) : 0l",
                                  "uint64_t(x0) < 3ul ? 1l : 0l",
                                  "y[at + 1] < 3l ? 1l : 0l",
                                  "int64_t(uint(x0)) * 2l"}) {
    const SpirvModule before = module_of(value);
    EXPECT_EQ(rewrite_widening(before).value(), before) << value;
  }
}

TEST(WideningRewrite, RefusesAModuleThatIsDamaged) {
  SpirvModule module = module_of("int64_t(x0)");
  module.push_back(0);
  EXPECT_EQ(rewrite_widening(module).error().code, ErrorCode::internal);
}

}  // namespace
}  // namespace hearth::vulkan
