#include <hearth/runtime/base/result.hpp>

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace hearth {
namespace {

Error bad_input() {
  return Error{.code = ErrorCode::invalid_argument, .text = "bad input"};
}

Result<int> half(int number) {
  if (number % 2 != 0) {
    return bad_input();
  }
  return number / 2;
}

Result<int> quarter(int number) {
  HEARTH_TRY(const int first, half(number));
  HEARTH_TRY(const int second, half(first));
  return second;
}

Status check_quarter(int number) {
  HEARTH_TRY_STATUS(quarter(number).status());
  return {};
}

TEST(Status, IsSuccessUnlessAnErrorIsGiven) {
  EXPECT_TRUE(Status().has_value());
  EXPECT_NO_THROW(Status().value());
  const Status failed = bad_input();
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().text, "bad input");
  EXPECT_THROW(failed.value(), ArgumentError);
}

TEST(Result, HoldsTheValueOrThrowsTheError) {
  EXPECT_EQ(half(8).value(), 4);
  EXPECT_THROW(static_cast<void>(half(7).value()), ArgumentError);
}

TEST(Result, MovesAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
}

TEST(Try, BindsTheValue) {
  EXPECT_EQ(quarter(12).value(), 3);
}

TEST(Try, ReturnsTheVeryErrorOfTheInnerCall) {
  const auto error = std::make_shared<const Error>(bad_input());
  const auto outer = [&]() -> Result<std::string> {
    HEARTH_TRY(const int value, Result<int>(error));
    return std::to_string(value);
  };
  EXPECT_EQ(outer().shared_error(), error);
}

TEST(TryStatus, StopsAtTheFirstFailure) {
  EXPECT_TRUE(check_quarter(12).has_value());
  EXPECT_EQ(check_quarter(6).error().text, "bad input");
}

}  // namespace
}  // namespace hearth
