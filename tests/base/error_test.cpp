#include <hearth/runtime/base/error.hpp>

#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace hearth {
namespace {

constexpr int kCodeCount = static_cast<int>(ErrorCode::internal) + 1;

TEST(ErrorCode, EachHasANameAndASentenceOfItsOwn) {
  std::set<std::string> names;
  std::set<std::string> sentences;
  for (int i = 0; i < kCodeCount; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_FALSE(name(code).empty()) << i;
    EXPECT_EQ(describe(code).back(), '.') << name(code);
    names.emplace(name(code));
    sentences.emplace(describe(code));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kCodeCount));
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(kCodeCount));
}

TEST(Error, WithoutATextSaysTheSentenceOfItsCode) {
  const Error error{.code = ErrorCode::device_lost, .text = ""};
  EXPECT_EQ(error.to_string(),
            "The device stopped working; all its tensors are gone. [device_lost]");
}

TEST(Error, SaysWhereItHappened) {
  const Error error{.code = ErrorCode::kernel_failed,
                    .text = "div: integer division by 0",
                    .op = "div",
                    .module_path = "model.norm",
                    .device = "cpu:0",
                    .stream = 2,
                    .sequence = 41,
                    .location = {"train.cpp", 7}};
  EXPECT_EQ(error.to_string(),
            "div: integer division by 0 [kernel_failed, op div, module model.norm, device cpu:0, "
            "stream 2 op number 41, called at train.cpp:7]");
}

TEST(Error, KeepsTheWholeChainOfCauses) {
  const auto first =
      std::make_shared<const Error>(Error{.code = ErrorCode::out_of_range, .text = "first"});
  const auto second = std::make_shared<const Error>(
      Error{.code = ErrorCode::worker_failed, .text = "second", .cause = first});
  const Error third{.code = ErrorCode::collective_failed, .text = "third", .cause = second};
  EXPECT_EQ(third.to_string(),
            "third [collective_failed]\n  caused by: second [worker_failed]\n  caused by: first "
            "[out_of_range]");
}

template <class Wanted>
void expect_thrown(ErrorCode code) {
  try {
    throw_error(Error{.code = code, .text = "text"});
  } catch (const Wanted& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(std::string(error.what()), error.error().to_string());
    return;
  } catch (const Exception& error) {
    ADD_FAILURE() << name(code) << " threw another class: " << error.what();
  }
}

TEST(ThrowError, ChoosesTheClassByTheCode) {
  expect_thrown<ShapeError>(ErrorCode::shape_mismatch);
  expect_thrown<DtypeError>(ErrorCode::dtype_mismatch);
  expect_thrown<DeviceMismatch>(ErrorCode::device_mismatch);
  expect_thrown<ArgumentError>(ErrorCode::invalid_argument);
  expect_thrown<DeviceError>(ErrorCode::kernel_failed);
  expect_thrown<DeviceError>(ErrorCode::out_of_memory);
  expect_thrown<FileError>(ErrorCode::io_error);
  expect_thrown<FileError>(ErrorCode::bad_format);
  expect_thrown<DeadlineExceeded>(ErrorCode::deadline_exceeded);
}

TEST(ThrowError, SharesTheErrorInsteadOfCopyingIt) {
  const auto error =
      std::make_shared<const Error>(Error{.code = ErrorCode::internal, .text = "text"});
  try {
    throw_error(error);
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.shared_error(), error);
  }
}

}  // namespace
}  // namespace hearth
