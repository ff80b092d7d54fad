// Reads and uploads of sizes beyond any machine's memory: the library's own error, at once, and no
// state is lost.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/trace/op_trace.hpp>

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
  EXPECT_THAT(huge_.to_string(), ::testing::StartsWith("[2.5000, 2.5000, 2.5000, …, 2.5000"))
      << "the rest is not read";
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

// ---- sizes between free memory and the kernel's limit ----

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Error read_error(const Tensor& tensor) {
  try {
    static_cast<void>(tensor.item());
  } catch (const OutOfMemory& error) {
    return error.error();
  }
  ADD_FAILURE() << "there was room";
  return {};
}

TEST(HugeSizes, DevicesThatNobodyAskedForTakeNothingFromTheOthersBudget) {
  const detail::PretendedHostBytes pretended(1600 * kMiB);
  const Runtime runtime({.cpu_device_count = 2});
  EXPECT_EQ(runtime.device("cpu:0").memory().budget_bytes, 480 * kMiB);
  EXPECT_EQ(runtime.device("cpu:1").memory().budget_bytes, 480 * kMiB);
  EXPECT_EQ(runtime.device("sim:0").memory().budget_bytes, 100 * kMiB);
}

TEST(HugeSizes, ADefaultBudgetIsAPartOfWhatIsFreeAndOneRequestAboveItIsRefused) {
  const detail::PretendedHostBytes pretended(1000 * kMiB);
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  EXPECT_EQ(device.memory().budget_bytes, 600 * kMiB);
  const Error error = read_error(sum(zeros(device, {601 * kMiB / 4})));
  EXPECT_EQ(error.op, "zeros");
  EXPECT_THAT(error.text, HasSubstr("that is more than the device's whole budget"));
  EXPECT_EQ(device.memory().peak_reserved_bytes, 0);
}

TEST(HugeSizes, ABudgetAboveTheMachineDoesNotMakeItsMemoryMore) {
  for (const char* const name : {"cpu:0", "reference:0", "sim:0"}) {
    const Runtime runtime(
        {.devices = {{.name = name, .memory_budget_bytes = std::int64_t{1} << 45}}});
    const Device device = runtime.device(name);
    const detail::PretendedHostBytes pretended(200 * kMiB);
    const Error error = read_error(sum(zeros(device, {201 * kMiB / 4})));
    EXPECT_THAT(error.text, HasSubstr("the machine has no more memory"));
    EXPECT_EQ(sum(ones(device, {100})).item(), 100) << "it goes on";
    EXPECT_LE(device.memory().peak_reserved_bytes, 2 * kMiB)
        << "the smallest page, where pages do not grow";
  }
}

// The f64 copies of its operands are eight times as large as these.
TEST(HugeSizes, TheOraclesCopiesAreComparedWithTheMachineToo) {
  const Runtime runtime({.devices = {{.name = "reference:0"}}});
  const Device device = runtime.device("reference:0");
  const detail::PretendedHostBytes pretended(100 * kMiB);
  const Tensor bytes = zeros(device, {20 * kMiB}, DType::u8);
  const Error error = read_error(slice(bytes, 0, {.stop = 1}));
  EXPECT_EQ(error.op, "zeros");
  EXPECT_THAT(error.text, HasSubstr("no host memory for 167772160 bytes"));
}

TEST(HugeSizes, AReadOrUploadThatTheMachineHasNoRoomForIsRefused) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor large = expand(zeros(device, {1}), {101 * kMiB / 4});
  const detail::PretendedHostBytes pretended(100 * kMiB);
  EXPECT_EQ(refusal([&] { (void)large.to_vector<float>(); }).op, "to_vector");
  const std::byte first{};
  const std::span<const std::byte> all(&first, static_cast<std::size_t>(101 * kMiB));
  EXPECT_EQ(refusal([&] { (void)Tensor::from_bytes(device, all, DType::u8, {101 * kMiB}); }).op,
            "from");
}

}  // namespace
}  // namespace hearth::testing
