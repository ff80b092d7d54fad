#include <hearth/runtime/base/last_act.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(LastActDeathTest, TheNewestRunsFirstAndAllRunBeforeTheProgramDies) {
  const auto fail = [] { throw std::runtime_error("nobody catches this"); };
  EXPECT_DEATH(
      {
        const LastAct first([] { std::fputs("first ", stderr); });
        const LastAct broken([]() { throw std::runtime_error("the act itself"); });
        const LastAct last([] { std::fputs("last ", stderr); });
        {
          const LastAct over([] { std::fputs("over ", stderr); });
        }
        [&]() noexcept { fail(); }();
      },
      "^last hearth: a last act failed: .*the act itself.*first .*nobody catches this");
}

// An act may then take a lock, or ask a device, that the dying thread holds.
TEST(LastActDeathTest, ActsRunOnAThreadOfTheirOwn) {
  const auto fail = [] { throw std::runtime_error("nobody catches this"); };
  EXPECT_DEATH(
      {
        const LastAct act([dying = std::this_thread::get_id()] {
          std::fputs(std::this_thread::get_id() == dying ? "here " : "elsewhere ", stderr);
        });
        [&]() noexcept { fail(); }();
      },
      "^elsewhere .*nobody catches this");
}

}  // namespace
}  // namespace hearth
