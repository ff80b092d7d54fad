// The fuzzers' targets on their seeds, on damaged copies of these, and on what fuzzing found, in
// every build.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "finds.hpp"
#include "fuzz_targets.hpp"
#include "tests/support/random_bytes.hpp"

namespace hearth::fuzz {
namespace {

void run(const Target& target, const std::vector<std::byte>& input) {
  try {
    target.run(input);
  } catch (const std::exception& failure) {
    ADD_FAILURE() << target.name << ": " << failure.what() << "\ninput: " << testing::to_hex(input);
  }
}

class Fuzz : public ::testing::TestWithParam<Target> {};

TEST_P(Fuzz, TakesItsSeeds) {
  for (const std::vector<std::byte>& seed : seeds(GetParam().name)) {
    run(GetParam(), seed);
  }
}

TEST_P(Fuzz, TakesDamagedSeeds) {
  std::mt19937_64 random(7);
  const int rounds = GetParam().name == "op_stream" ? 1 : 40;
  for (const std::vector<std::byte>& seed : seeds(GetParam().name)) {
    for (int i = 0; i < rounds && !seed.empty(); ++i) {
      std::vector<std::byte> damaged = seed;
      for (std::uint64_t changes = random() % 4; changes-- > 0;) {
        damaged[random() % damaged.size()] = static_cast<std::byte>(random() & 0xffU);
      }
      if (random() % 4 == 0) {
        damaged.resize(random() % damaged.size());
      }
      run(GetParam(), damaged);
    }
  }
}

TEST(FuzzFinds, BreakNothingAnyMore) {
  std::size_t count = 0;
  for (const Target& each : targets()) {
    for (const std::vector<std::byte>& find : finds(each.name)) {
      run(each, find);
      ++count;
    }
  }
  EXPECT_GT(count, 0U);
}

// FUZZ_PROGRAMS says how many, FUZZ_FIRST which comes first: without clang, this is the fuzzer.
TEST(FuzzPrograms, TakeRandomBytes) {
  const std::uint64_t first = testing::number_from("FUZZ_FIRST", 1);
  const std::uint64_t count = testing::number_from("FUZZ_PROGRAMS", 300);
  for (std::uint64_t number = first; number < first + count && !HasFailure(); ++number) {
    SCOPED_TRACE("program " + std::to_string(number));
    run(target("op_stream"), testing::bytes_of_seed(number, 3, 602));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets,
                         Fuzz,
                         ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace hearth::fuzz
