// KernelFacts: the table itself, and the facts that backends answer with.
#include <hearth/backends/kernel_facts.hpp>

#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>
#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>

namespace hearth {
namespace {

TEST(KernelFacts, OfAnEmptyTableAllowNothing) {
  const KernelFacts facts;
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_FALSE(facts.may_alias(kind, 0));
    EXPECT_FALSE(facts.may_anchor(kind));
    EXPECT_FALSE(facts.may_take_prologue(kind, 0, OpKind::expression));
  }
}

TEST(KernelFacts, HoldForTheirKindAndInputAlone) {
  KernelFacts facts;
  facts.of(OpKind::sub).aliased_inputs = 0b10;
  facts.of(OpKind::matmul).takes_epilogue = true;
  EXPECT_TRUE(facts.may_alias(OpKind::sub, 1));
  EXPECT_FALSE(facts.may_alias(OpKind::sub, 0));
  EXPECT_FALSE(facts.may_alias(OpKind::sub, 2));
  EXPECT_FALSE(facts.may_alias(OpKind::mul, 1));
  EXPECT_TRUE(facts.may_anchor(OpKind::matmul));
  EXPECT_FALSE(facts.may_anchor(OpKind::sub));
}

// A concatenation may have more inputs than a set has bits.
TEST(KernelFacts, TheLastBitStandsForAllInputsFromItsNumberOn) {
  KernelFacts facts;
  facts.of(OpKind::concat).aliased_inputs = 0b1;
  for (const int input : {31, 32, 33, 64, 1000}) {
    EXPECT_FALSE(facts.may_alias(OpKind::concat, input)) << input;
  }
  facts.of(OpKind::concat).aliased_inputs = KindFacts::kAllInputs;
  for (const int input : {0, 31, 32, 33, 64, 1000}) {
    EXPECT_TRUE(facts.may_alias(OpKind::concat, input)) << input;
  }
}

TEST(KernelFacts, APrologueNeedsTheInputAndTheMaker) {
  KernelFacts facts;
  KindFacts& of_sum = facts.of(OpKind::reduce_sum);
  of_sum.prologue_inputs = 0b1;
  of_sum.prologue_makers.set(static_cast<std::size_t>(OpKind::expression));
  EXPECT_TRUE(facts.may_take_prologue(OpKind::reduce_sum, 0, OpKind::expression));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::reduce_sum, 1, OpKind::expression));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::reduce_sum, 0, OpKind::conv2d));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::reduce_max, 0, OpKind::expression));
}

TEST(KernelFacts, OfTheOracleNameThePrologues) {
  const KernelFacts facts = reference::kernel_facts();
  EXPECT_TRUE(facts.may_take_prologue(OpKind::matmul, 0, OpKind::expression));
  EXPECT_TRUE(facts.may_take_prologue(OpKind::attention, 0, OpKind::expression));
  EXPECT_TRUE(facts.may_take_prologue(OpKind::avg_pool2d, 0, OpKind::conv2d));
  EXPECT_TRUE(facts.may_take_prologue(OpKind::reduce_mean, 0, OpKind::cross_entropy));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::matmul, 1, OpKind::expression));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::matmul, 0, OpKind::conv2d));
  EXPECT_FALSE(facts.may_take_prologue(OpKind::relu, 0, OpKind::expression));
}

TEST(KernelFacts, OfAnAsynchronousSimNameNoPrologue) {
  const sim::SimBackend in_line;
  const sim::AsyncSim later;
  EXPECT_TRUE(in_line.facts().may_take_prologue(OpKind::matmul, 0, OpKind::expression));
  EXPECT_FALSE(later.facts().may_take_prologue(OpKind::matmul, 0, OpKind::expression));
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    for (const KernelFacts* const facts : {&in_line.facts(), &later.facts()}) {
      EXPECT_TRUE(facts->may_alias(kind, 1000));
      EXPECT_TRUE(facts->may_anchor(kind));
    }
  }
}

}  // namespace
}  // namespace hearth
