// The fuzzers' targets on their seeds, on damaged copies of the seeds, and on the inputs that
// fuzzing found, in every build.
#include <cstdlib>
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

class Fuzz : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (const std::string lack = GetParam().lack(); !lack.empty()) {
      GTEST_SKIP() << lack;
    }
  }
};

TEST_P(Fuzz, TakesItsSeeds) {
  for (const std::vector<std::byte>& seed : seeds(GetParam().name)) {
    run(GetParam(), seed);
  }
}

TEST_P(Fuzz, TakesDamagedSeeds) {
  std::mt19937_64 random(7);
  const int rounds = GetParam().name.ends_with("op_stream") ? 1 : 40;
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
  std::string left_out;
  for (const Target& each : targets()) {
    const std::string lack = each.lack();
    for (const std::vector<std::byte>& find : finds(each.name)) {
      if (!lack.empty()) {
        left_out = std::string(each.name) + ": " + lack;
        continue;
      }
      run(each, find);
      ++count;
    }
  }
  EXPECT_GT(count, 0U);
  if (!left_out.empty()) {
    GTEST_SKIP() << "the others are right, but " << left_out;
  }
}

// The fuzzer of builds without clang. FUZZ_PROGRAMS sets the number, FUZZ_FIRST the first seed,
// FUZZ_TARGET the target.
TEST(FuzzPrograms, TakeRandomBytes) {
  const char* name =
      std::getenv("FUZZ_TARGET");  // NOLINT(concurrency-mt-unsafe): before any thread
  const Target& chosen = target(name == nullptr ? "op_stream" : name);
  if (const std::string lack = chosen.lack(); !lack.empty()) {
    GTEST_SKIP() << lack;
  }
  const std::uint64_t first = testing::number_from("FUZZ_FIRST", 1);
  const std::uint64_t count = testing::number_from("FUZZ_PROGRAMS", 300);
  for (std::uint64_t number = first; number < first + count && !HasFailure(); ++number) {
    SCOPED_TRACE("program " + std::to_string(number));
    run(chosen, testing::bytes_of_seed(number, 3, 602));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets,
                         Fuzz,
                         ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace hearth::fuzz
