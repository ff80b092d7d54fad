// Reads and uploads of sizes that no machine has memory for: the library's own error, at once, and nothing is lost.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/op_trace.hpp>

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::int64_t kImpossible = std::int64_t{1} << 50;

template <class Fn>
Error refusal(const Fn& fn) {
  try {
    fn();
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.error().location.file, EndsWith("host_memory_test.cpp")) << error.what();
    return error.error();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

class HostMemory : public ::testing::Test {
 protected:
  const Runtime runtime_{{.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}}};
  const Device cpu_ = runtime_.device("cpu:0");
  const Device other_ = runtime_.device("reference:0");
  const Tensor small_ = Tensor::from(cpu_, {2.5F}, {1});
  const Tensor huge_ = expand(small_, {kImpossible});  // a view: four bytes on the device
};

TEST_F(HostMemory, AReadThatFitsIntoNoHostIsRefusedAndTheTensorStays) {
  const std::uint32_t line = __LINE__ + 1;
  const Error vector = refusal([&] { (void)huge_.to_vector<float>(); });
  EXPECT_EQ(vector.op, "to_vector");
  EXPECT_EQ(vector.location.line, line);
  EXPECT_THAT(vector.text, HasSubstr("4503599627370496 bytes"));
  EXPECT_EQ(refusal([&] { (void)huge_.read_bytes(); }).op, "read_bytes");
  EXPECT_EQ(refusal([&] { (void)huge_.to_string(); }).op, "read_bytes");
  EXPECT_THAT(slice(huge_, 0, {.start = 5, .stop = 7}).to_vector<float>(), ElementsAre(2.5F, 2.5F));
}

TEST_F(HostMemory, ACopyToAnotherDeviceThatFitsIntoNoHostIsRefusedAndBothDevicesGoOn) {
  const std::int64_t live = other_.memory().live_tensor_count;
  EXPECT_EQ(refusal([&] { (void)huge_.to(other_); }).op, "to");
  EXPECT_EQ(other_.memory().live_tensor_count, live);
  EXPECT_EQ(small_.to(other_).item(), 2.5);
  EXPECT_EQ(small_.item(), 2.5);
}

TEST_F(HostMemory, AnUploadThatFitsIntoNoHostIsRefused) {
  const std::byte first{};
  const std::span<const std::byte> all(&first, static_cast<std::size_t>(kImpossible));
  const Error error =
      refusal([&] { (void)Tensor::from_bytes(cpu_, all, DType::u8, {kImpossible}); });
  EXPECT_EQ(error.op, "from");
  EXPECT_THAT(error.text, HasSubstr("1125899906842624 bytes"));
}

TEST_F(HostMemory, ARecordingThatCannotHoldAnUploadEndsAndTheProgramGoesOn) {
  RecordScope scope(runtime_);
  const Tensor before = small_ + 1.0;
  const std::byte first{};
  const std::span<const std::byte> all(&first, static_cast<std::size_t>(kImpossible));
  const Tensor upload = Tensor::from_owned_bytes(cpu_, all, nullptr, DType::u8, {kImpossible});
  EXPECT_EQ(refusal([&] {
              (void)slice(upload, 0, {.start = 0, .stop = 1}).to_vector<std::uint8_t>();
            }).op,
            "upload")
      << "the device has no room either";
  EXPECT_EQ(before.item(), 3.5);
  EXPECT_THAT(scope.take().value().notes.at("ended early"),
              HasSubstr("record: no host memory for 1125899906842624 bytes"));
}

TEST_F(HostMemory, ARecordingThatCannotHoldATensorOfBeforeEndsAndTheProgramGoesOn) {
  RecordScope scope(runtime_);
  EXPECT_EQ(slice(huge_, 0, {.start = 0, .stop = 1}).item(), 2.5);
  EXPECT_THAT(scope.take().value().notes.at("ended early"), HasSubstr("no host memory"));
}

}  // namespace
}  // namespace hearth::testing
