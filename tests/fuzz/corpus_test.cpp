// The fuzzers' targets on their seeds, on damaged copies of these, and on what fuzzing found, in
// every build.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "finds.hpp"
#include "fuzz_targets.hpp"

namespace hearth::fuzz {
namespace {

std::string hex(Input bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned>(byte) >> 4U];
    text += kDigits[static_cast<unsigned>(byte) & 15U];
  }
  return text;
}

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? fallback : std::stoull(text);
}

void run(const Target& target, const std::vector<std::byte>& input) {
  try {
    target.run(input);
  } catch (const std::exception& failure) {
    ADD_FAILURE() << target.name << ": " << failure.what() << "\ninput: " << hex(input);
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
  const std::uint64_t first = number_from("FUZZ_FIRST", 1);
  const std::uint64_t count = number_from("FUZZ_PROGRAMS", 60);
  for (std::uint64_t number = first; number < first + count && !HasFailure(); ++number) {
    std::mt19937_64 random(number);
    std::vector<std::byte> bytes(3 + random() % 600);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random() & 0xffU);
    }
    SCOPED_TRACE("program " + std::to_string(number));
    run(target("op_stream"), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets,
                         Fuzz,
                         ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace hearth::fuzz
