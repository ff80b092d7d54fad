#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/vulkan/spirv/cooperative_rewrite.hpp"

namespace hearth::vulkan {
namespace {

// The matrices have three distinct types where `b_sizes` differ from those of the sums.
std::string text_of(const std::string& b_sizes, int sum_bits = 32) {
  const std::string sum = "fcoopmatNV<" + std::to_string(sum_bits) + ", gl_ScopeSubgroup, kM, kN>";
  return R"(#version 460
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(constant_id = 0) const uint kM = 16u;
layout(constant_id = 1) const uint kN = 16u;
layout(constant_id = 2) const uint kK = 16u;
shared uvec4 tiles[256];
void main() {
  )" + sum +
         " sum = " + sum + R"((0.0);
  fcoopmatNV<16, gl_ScopeSubgroup, kM, kK> a;
  fcoopmatNV<16, gl_ScopeSubgroup, )" +
         b_sizes + R"(> b;
  coopMatLoadNV(a, tiles, 3u, 9u, false);
  coopMatLoadNV(b, tiles, 30u, 9u, true);
  sum = coopMatMulAddNV(a, b, sum);
  coopMatStoreNV(fcoopmatNV<32, gl_ScopeSubgroup, kM, kN>(sum), tiles, 7u, 4u,
                 gl_LocalInvocationID.x == 99u);
}
)";
}

using Instruction = std::vector<std::uint32_t>;

// The instructions of a kind, without their first word.
std::vector<Instruction> all_of(const SpirvModule& module, std::uint32_t op) {
  std::vector<Instruction> out;
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16U) {
    if ((module[at] & 0xFFFFU) == op) {
      const auto begin = module.begin() + static_cast<std::ptrdiff_t>(at);
      out.emplace_back(begin + 1, begin + (module[at] >> 16U));
    }
  }
  return out;
}

// The values of integer constants.
std::map<std::uint32_t, std::uint32_t> constants(const SpirvModule& module) {
  std::map<std::uint32_t, std::uint32_t> out;
  for (const Instruction& constant : all_of(module, 43)) {
    out[constant[1]] = constant[2];
  }
  return out;
}

SpirvModule compiled(const std::string& b_sizes = "kK, kN") {
  const Result<SpirvModule> module = compile_glsl("cooperative", text_of(b_sizes));
  EXPECT_TRUE(module.has_value()) << module.error().text;
  return module.has_value() ? module.value() : SpirvModule{};
}

TEST(CooperativeRewrite, LeavesNothingOfOneVendor) {
  const SpirvModule module = compiled();
  ASSERT_TRUE(has_cooperative_matrices(module));
  const auto out = rewrite_cooperative(module, CooperativeFactor::f16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  EXPECT_FALSE(has_cooperative_matrices(out.value()));
  for (std::uint32_t op = 5358; op <= 5362; ++op) {
    EXPECT_TRUE(all_of(out.value(), op).empty()) << op;
  }
  const auto capabilities = all_of(out.value(), 17);
  EXPECT_EQ(std::ranges::count(capabilities, Instruction{6022}), 1);
  EXPECT_EQ(std::ranges::count(capabilities, Instruction{5116}), 0);
}

TEST(CooperativeRewrite, GivesEachTypeTheUseThatItsProductsShow) {
  const auto out = rewrite_cooperative(compiled(), CooperativeFactor::f16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  const auto numbers = constants(out.value());
  std::map<std::uint32_t, std::uint32_t> uses;
  for (const Instruction& type : all_of(out.value(), 4456)) {
    ASSERT_EQ(type.size(), 6U);
    uses[type[0]] = numbers.at(type[5]);
  }
  ASSERT_EQ(uses.size(), 3U);
  const auto products = all_of(out.value(), 4459);
  ASSERT_EQ(products.size(), 1U);
  EXPECT_EQ(uses.at(products[0][0]), 2U);  // the sum's type
  for (const Instruction& load : all_of(out.value(), 4457)) {
    // The first load is of a by rows, the other of b by columns: here the layout encodes the use.
    EXPECT_EQ(numbers.at(load[3]), uses.at(load[0]));
  }
}

TEST(CooperativeRewrite, ASumOfAnotherTypeIsOneToo) {
  const auto module = compile_glsl("cooperative", text_of("kK, kN", 16));
  ASSERT_TRUE(module.has_value()) << module.error().text;
  const auto out = rewrite_cooperative(module.value(), CooperativeFactor::f16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  const auto numbers = constants(out.value());
  std::multiset<std::uint32_t> uses;
  for (const Instruction& type : all_of(out.value(), 4456)) {
    uses.insert(numbers.at(type[5]));
  }
  EXPECT_EQ(uses, (std::multiset<std::uint32_t>{0, 1, 2, 2}));
}

TEST(CooperativeRewrite, MovesTheStrideBehindTheLayout) {
  const SpirvModule before = compiled();
  const auto out = rewrite_cooperative(before, CooperativeFactor::f16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  const auto numbers = constants(out.value());
  const auto loads = all_of(out.value(), 4457);
  const auto loads_before = all_of(before, 5359);
  ASSERT_EQ(loads.size(), 2U);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    EXPECT_EQ(numbers.at(loads[i][4]), 9U);
    EXPECT_EQ(loads[i].size(), loads_before[i].size());  // the operands of memory access stay
    EXPECT_EQ(loads[i].back(), loads_before[i].back());
  }
  const auto stores = all_of(out.value(), 4458);
  ASSERT_EQ(stores.size(), 1U);
  EXPECT_EQ(numbers.at(stores[0][3]), 4U);
  // A layout that is unknown at compile time becomes a select.
  const auto choices = all_of(out.value(), 169);
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0][1], stores[0][2]);
  EXPECT_EQ(numbers.at(choices[0][3]), 1U);
  EXPECT_EQ(numbers.at(choices[0][4]), 0U);
}

// The same program with i8 factors and i32 sums.
std::string text_of_integers() {
  std::string text = text_of("kK, kN");
  const auto replace = [&text](const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
      text.replace(at, what.size(), by);
      at += by.size();
    }
  };
  replace("fcoopmatNV<32", "icoopmatNV<32");
  replace("fcoopmatNV<16", "icoopmatNV<8");
  replace("(0.0)", "(0)");
  replace("#pragma", "#extension GL_NV_integer_cooperative_matrix : require\n#pragma");
  return text;
}

TEST(CooperativeRewrite, MultipliesIntegersWithTheirSigns) {
  const Result<SpirvModule> module = compile_glsl("cooperative", text_of_integers());
  ASSERT_TRUE(module.has_value()) << module.error().text;
  const auto out = rewrite_cooperative(module.value(), CooperativeFactor::f16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  const auto products = all_of(out.value(), 4459);
  ASSERT_EQ(products.size(), 1U);
  ASSERT_EQ(products[0].size(), 6U);
  EXPECT_EQ(products[0][5], 15U);  // of both factors, the sum and the result
  const auto floats = rewrite_cooperative(compiled(), CooperativeFactor::f16);
  ASSERT_TRUE(floats.has_value());
  EXPECT_EQ(all_of(floats.value(), 4459)[0].size(), 5U);
}

TEST(CooperativeRewrite, GivesFactorsAloneBfloat16) {
  const auto out = rewrite_cooperative(compiled(), CooperativeFactor::bf16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  const auto numbers = constants(out.value());
  std::map<std::uint32_t, Instruction> floats;
  for (const Instruction& type : all_of(out.value(), 22)) {
    floats[type[0]] = type;
  }
  for (const Instruction& type : all_of(out.value(), 4456)) {
    const Instruction& component = floats.at(type[1]);
    const bool is_sum = numbers.at(type[5]) == 2;
    EXPECT_EQ(component[1], is_sum ? 32U : 16U);
    EXPECT_EQ(component.size(), is_sum ? 2U : 3U);  // bfloat16 has an encoding
  }
  const auto capabilities = all_of(out.value(), 17);
  EXPECT_EQ(std::ranges::count(capabilities, Instruction{5116}), 1);
  EXPECT_EQ(std::ranges::count(capabilities, Instruction{5118}), 1);
}

TEST(CooperativeRewrite, NumbersNewValuesBelowTheBound) {
  const SpirvModule before = compiled();
  const auto out = rewrite_cooperative(before, CooperativeFactor::bf16);
  ASSERT_TRUE(out.has_value()) << out.error().text;
  for (const Instruction& constant : all_of(out.value(), 43)) {
    EXPECT_LT(constant[1], out.value()[3]);
  }
  EXPECT_GT(out.value()[3], before[3]);
}

TEST(CooperativeRewrite, RefusesOneTypeOfTwoUses) {
  // With b as M x K, b has the type of a.
  const auto out = rewrite_cooperative(compiled("kM, kK"), CooperativeFactor::f16);
  ASSERT_FALSE(out.has_value());
  EXPECT_NE(out.error().text.find("two uses"), std::string::npos) << out.error().text;
}

TEST(CooperativeRewrite, RefusesAnInstructionWithoutAnEnd) {
  SpirvModule module = compiled();
  module.push_back(4U << 16U | 248U);  // the header announces four words
  EXPECT_FALSE(rewrite_cooperative(module, CooperativeFactor::f16).has_value());
}

}  // namespace
}  // namespace hearth::vulkan
