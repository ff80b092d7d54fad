#include <hearth/autotune/tune_key.hpp>

#include <cstddef>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include <hearth/autotune/fingerprint.hpp>
#include <hearth/autotune/numerics.hpp>

namespace hearth::detail {
namespace {

TuneKey matmul_key() {
  const OperandClass a{.form = OperandForm::contiguous, .alignment_bytes = 64};
  const OperandClass b{
      .form = OperandForm::transposed, .alignment_bytes = 32, .has_power_of_two_stride = true};
  return {.sizes = {32, 4096, 4096},
          .kind = kind_number("matmul"),
          .cores = 2,
          .operands = {a.packed(), b.packed()}};
}

TEST(TuneKey, EveryByteCounts) {
  const TuneKey key = matmul_key();
  std::set<std::uint64_t> hashes{hash_of(key)};
  for (std::size_t i = 0; i < sizeof(TuneKey); ++i) {
    TuneKey other = key;
    std::byte byte{};
    std::memcpy(&byte, reinterpret_cast<const std::byte*>(&key) + i, 1);
    byte ^= std::byte{1};
    std::memcpy(reinterpret_cast<std::byte*>(&other) + i, &byte, 1);
    EXPECT_NE(other, key) << i;
    EXPECT_TRUE(hashes.insert(hash_of(other)).second) << i;
  }
}

TEST(TuneKey, ReadsAsASentence) {
  TuneKey key = matmul_key();
  EXPECT_EQ(to_string(key, "matmul"),
            "matmul f32 32x4096x4096 a:contiguous/64 b:transposed/32/2^n, 2 cores");
  key.output = DType::f16;
  key.cores = 1;
  key.attributes[0] = 0x20002;
  key.epilogue_hash = 0xAB;
  EXPECT_EQ(to_string(key, "matmul"),
            "matmul f32>f16 32x4096x4096 a:contiguous/64 b:transposed/32/2^n 20002 epilogue ab, 1 "
            "core");
}

TEST(TuneKey, KindsKeepTheirNumbers) {
  EXPECT_EQ(kind_number("matmul"), 0x5586DD24U);  // stored in files
  EXPECT_NE(kind_number("matmul"), kind_number("conv2d"));
}

TEST(OperandClass, SurvivesPacking) {
  for (int form = 0; form <= 4; ++form) {
    for (const int alignment : {16, 32, 64}) {
      for (const bool stride : {false, true}) {
        const OperandClass operand{.form = static_cast<OperandForm>(form),
                                   .alignment_bytes = alignment,
                                   .has_power_of_two_stride = stride};
        EXPECT_EQ(OperandClass::unpacked(operand.packed()), operand);
      }
    }
  }
}

TEST(SizeDistance, IsTheSumOfTheOctaves) {
  const TuneKey key = matmul_key();
  TuneKey other = key;
  EXPECT_EQ(size_distance(key, other), 0.0);
  other.sizes[0] = 64;
  other.sizes[2] = 1024;
  EXPECT_EQ(size_distance(key, other), 3.0);
  EXPECT_EQ(size_distance(other, key), 3.0);
}

TEST(SizeDistance, OtherFactsAreNoNeighbours) {
  const TuneKey key = matmul_key();
  TuneKey other = key;
  other.cores = 1;
  EXPECT_FALSE(size_distance(key, other).has_value());
  other = key;
  other.sizes[3] = 8;  // a batch
  EXPECT_FALSE(size_distance(key, other).has_value());
}

TEST(Fingerprint, DependsOnEveryFactAndNothingElse) {
  const Fingerprint one = Fingerprint::of({{"isa", "avx512"}, {"cores", "2"}});
  EXPECT_EQ(one.text, "isa=avx512;cores=2");
  EXPECT_EQ(one, Fingerprint::of({{"isa", "avx512"}, {"cores", "2"}}));
  EXPECT_NE(one.hash, Fingerprint::of({{"isa", "avx512"}, {"cores", "4"}}).hash);
  EXPECT_EQ(one, Fingerprint::of_text(one.text));
}

TEST(Fingerprint, NoFactCanPoseAsTwo) {
  EXPECT_EQ(Fingerprint::of({{"a", "1;b=2\n"}}).text, "a=1_b_2_");
}

TEST(AutotuneLevel, OnlyThreeLevelsRunTrials) {
  EXPECT_EQ(most_challengers(AutotuneLevel::off), 0U);
  EXPECT_EQ(most_challengers(AutotuneLevel::cached_only), 0U);
  EXPECT_EQ(most_challengers(AutotuneLevel::minimal), 2U);
  EXPECT_EQ(most_challengers(AutotuneLevel::balanced), 4U);
  EXPECT_GT(most_challengers(AutotuneLevel::full), 100U);
  EXPECT_EQ(name(AutotuneLevel::cached_only), "cached_only");
}

}  // namespace
}  // namespace hearth::detail
