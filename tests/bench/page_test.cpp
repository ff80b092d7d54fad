// Parts of the page of results. tests/repo/results_test.py checks whole pages.
#include "bench/kernels/page.hpp"

#include <string>

#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

TEST(Page, NumbersKeepTheirDigits) {
  EXPECT_EQ(readable_number("40700"), "40,700");
  EXPECT_EQ(readable_number("1234567.50"), "1,234,567.50");
  EXPECT_EQ(readable_number("-2"), "−2");
  EXPECT_EQ(readable_number("3.9E-7"), "3.9e-7");
  EXPECT_EQ(readable_number("0.70"), "0.70");
}

TEST(Page, CodeStaysOnOneLine) {
  const std::string code = "`" + std::string(60, 'a') + " " + std::string(30, 'b') + "`";
  EXPECT_EQ(wrapped_text("Command before it: " + code + "."), "Command before it:\n" + code + ".");
}

}  // namespace
}  // namespace hearth::bench
