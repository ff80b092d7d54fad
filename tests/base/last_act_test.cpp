#include <hearth/runtime/base/last_act.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>

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
      "^last first .*nobody catches this");
}

}  // namespace
}  // namespace hearth
