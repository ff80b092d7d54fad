// The backend of a CUDA device: on the host's driver (host_driver.cpp), or on a card if
// HEARTH_CUDA_LIBRARY_PATH names the folder of NVRTC.
#include "backends/cuda/driver/shared_library.hpp"
#include "tests/backends/small_call.hpp"
#include "tests/support/environment_variable.hpp"

#include <hearth/backends/cuda/cuda_backend.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cuda {
namespace {

using hearth::testing::SmallCall;
using ::testing::HasSubstr;

std::string nvidia_folders() {
  const char* const folder = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  return folder == nullptr ? HEARTH_HOST_CUDA : folder;
}

std::vector<float> some_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int>(engine() % 2001U) - 1000) / 1000;
  }
  return values;
}

class CudaBackendTest : public ::testing::Test {
 protected:
  void open(CudaOptions options) {
    backend_.reset();
    options.nvidia_folders = nvidia_folders();
    Result<std::unique_ptr<Backend>> backend = CudaBackend::open(std::move(options));
    ASSERT_TRUE(backend.has_value()) << backend.error().text;
    backend_ = std::move(backend).value();
    page_ = backend_->pages().allocate_page(std::int64_t{8} << 20).value();
  }
  void SetUp() override { open({}); }

  [[nodiscard]] std::byte* data(int number) const { return page_.data + number * (1 << 20); }
  [[nodiscard]] static Deadline soon() { return Deadline::in(std::chrono::seconds(60)); }

  template <class Value>
  TimelinePoint up(int to, const std::vector<Value>& values) {
    std::span<const std::byte> left = std::as_bytes(std::span(values));
    std::byte* at = data(to);
    TimelinePoint last;
    while (!left.empty()) {
      const CopyPart part = backend_->copies().upload(at, left, {}).value();
      at += part.size_bytes;
      left = left.subspan(part.size_bytes);
      last = part.point;
      if (part.size_bytes == 0) {
        EXPECT_TRUE(backend_->wait({&last, 1}, soon()).has_value());
      }
    }
    return last;
  }
  template <class Value = float>
  std::vector<Value> down(int from, std::size_t count, std::span<const TimelinePoint> after) {
    std::vector<Value> values(count);
    std::span<std::byte> left = std::as_writable_bytes(std::span(values));
    const std::byte* at = data(from);
    TimelinePoint last;
    while (!left.empty()) {
      const CopyPart part = backend_->copies().download(left, at, after).value();
      at += part.size_bytes;
      left = left.subspan(part.size_bytes);
      last = part.point;
      if (part.size_bytes == 0) {
        EXPECT_TRUE(backend_->wait({&last, 1}, soon()).has_value());
      }
    }
    const Status status = backend_->wait({&last, 1}, soon());
    EXPECT_TRUE(status.has_value()) << status.error().text;
    return values;
  }
  /// Runs the call behind the uploads, and returns the result of operand `to`.
  std::vector<float> run(const SmallCall& call,
                         std::span<const TimelinePoint> after,
                         int to,
                         std::size_t count) {
    const Launch launch{.call = call.call()};
    const Issue issue = backend_->submit({&launch, 1}, after);
    EXPECT_TRUE(issue.status.has_value()) << issue.status.error().text;
    return down(to, count, {&issue.point, 1});
  }

  std::vector<std::string> lines_;
  hearth::detail::Log log_{{.output = [this](hearth::detail::LogLevel, std::string_view line) {
    lines_.emplace_back(line);
  }}};
  const hearth::testing::EnvironmentVariable no_cache_{"HEARTH_CACHE_DIR", "/dev/null"};
  std::unique_ptr<Backend> backend_;
  Page page_;
};

TEST_F(CudaBackendTest, DescribesTheDeviceAndItsCompiler) {
  std::cout << backend_->info().name << ": " << backend_->info().description << "\n";
  EXPECT_THAT(backend_->info().description, HasSubstr("CUDA "));
  EXPECT_THAT(backend_->info().description, HasSubstr("NVRTC "));
}

TEST_F(CudaBackendTest, AddsElementByElement) {
  constexpr std::size_t kCount = 1003;
  const std::vector<float> a = some_values(kCount, 1);
  const std::vector<float> b = some_values(kCount, 2);
  const std::vector<TimelinePoint> after{up(0, a), up(1, b)};
  const hearth::detail::Layout layout{Shape({static_cast<std::int64_t>(kCount)})};
  const auto view = [&](int number) { return TensorView{data(number), &layout, DType::f32}; };
  const std::vector<float> sums =
      run(SmallCall(OpKind::add, {view(0), view(1)}, {view(2)}), after, 2, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sums[i], a[i] + b[i]) << i;
  }
}

TEST_F(CudaBackendTest, SumsAlongEachAxis) {
  constexpr std::size_t kRows = 129;
  constexpr std::size_t kColumns = 517;
  const std::vector<float> x = some_values(kRows * kColumns, 3);
  const std::vector<TimelinePoint> after{up(0, x)};
  const hearth::detail::Layout whole{
      Shape({static_cast<std::int64_t>(kRows), static_cast<std::int64_t>(kColumns)})};
  for (const std::uint32_t axis : {0U, 1U}) {
    const std::size_t kept = axis == 0 ? kColumns : kRows;
    const hearth::detail::Layout line{Shape({static_cast<std::int64_t>(kept)})};
    SmallCall call(OpKind::reduce_sum,
                   {TensorView{data(0), &whole, DType::f32}},
                   {TensorView{data(1), &line, DType::f32}});
    call.with(ReduceAttributes{.axes = 1U << axis});
    const std::vector<float> sums = run(call, after, 1, kept);
    for (std::size_t i = 0; i < kept; ++i) {
      double wanted = 0;
      for (std::size_t j = 0; j < kRows * kColumns / kept; ++j) {
        wanted += static_cast<double>(axis == 0 ? x[j * kColumns + i] : x[i * kColumns + j]);
      }
      ASSERT_NEAR(sums[i], wanted, 1e-4) << "axis " << axis << ", place " << i;
    }
  }
}

TEST_F(CudaBackendTest, MultipliesMatrices) {
  constexpr std::size_t kRows = 131;
  constexpr std::size_t kDepth = 75;
  constexpr std::size_t kColumns = 142;
  const std::vector<float> a = some_values(kRows * kDepth, 4);
  const std::vector<float> b = some_values(kDepth * kColumns, 5);
  const std::vector<TimelinePoint> after{up(0, a), up(1, b)};
  const auto layout_of = [](std::size_t rows, std::size_t columns) {
    return hearth::detail::Layout(
        Shape({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}));
  };
  const hearth::detail::Layout of_a = layout_of(kRows, kDepth);
  const hearth::detail::Layout of_b = layout_of(kDepth, kColumns);
  const hearth::detail::Layout of_y = layout_of(kRows, kColumns);
  const std::vector<float> y = run(
      SmallCall(OpKind::matmul,
                {TensorView{data(0), &of_a, DType::f32}, TensorView{data(1), &of_b, DType::f32}},
                {TensorView{data(2), &of_y, DType::f32}}),
      after,
      2,
      kRows * kColumns);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      double wanted = 0;
      for (std::size_t k = 0; k < kDepth; ++k) {
        wanted += static_cast<double>(a[i * kDepth + k]) * static_cast<double>(b[k * kColumns + j]);
      }
      ASSERT_NEAR(y[i * kColumns + j], wanted, 1e-4) << "row " << i << ", column " << j;
    }
  }
}

// The host has no cuBLASLt.
TEST_F(CudaBackendTest, WarnsOnceWithoutTheLibraryOfProducts) {
  if (std::getenv("HEARTH_CUDA_LIBRARY_PATH") != nullptr) {
    GTEST_SKIP() << "on a card";
  }
  open({.log = &log_});
  const hearth::detail::Layout layout{Shape({128, 128})};
  const auto view = [&](int number) { return TensorView{data(number), &layout, DType::bf16}; };
  const SmallCall call(OpKind::matmul, {view(0), view(1)}, {view(2)});
  const Launch launch{.call = call.call()};
  for (int i = 0; i < 2; ++i) {
    const Issue issue = backend_->submit({&launch, 1}, {});
    ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text;
    ASSERT_TRUE(backend_->flush().has_value());
    EXPECT_TRUE(backend_->wait({&issue.point, 1}, soon()).has_value());
  }
  const auto is_of_products = HasSubstr("cuda:0 multiplies matrices by slower kernels of Hearth: ");
  EXPECT_EQ(
      std::ranges::count_if(
          lines_, [&](const std::string& line) { return ::testing::Value(line, is_of_products); }),
      1);
}

// Lines that begin at no whole word of 16 bytes are padded for the library, and so is an odd depth
// of i8. The values are whole numbers whose sums are exact.
template <class Factor, class Sum>
std::vector<Sum> product_of(const std::vector<Factor>& a,
                            const std::vector<Factor>& b,
                            std::size_t rows,
                            std::size_t depth,
                            std::size_t columns) {
  std::vector<float> sums(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < depth; ++k) {
      const auto left = static_cast<float>(a[row * depth + k]);
      for (std::size_t column = 0; column < columns; ++column) {
        sums[row * columns + column] += left * static_cast<float>(b[k * columns + column]);
      }
    }
  }
  return {sums.begin(), sums.end()};
}

class RaggedProducts : public CudaBackendTest {
 protected:
  static constexpr std::size_t kRows = 259;
  static constexpr std::size_t kDepth = 515;
  static constexpr std::size_t kColumns = 1027;

  template <class Factor, class Sum>
  void check(DType factors, DType sums, unsigned most) {
    if (std::getenv("HEARTH_CUDA_LIBRARY_PATH") == nullptr) {
      GTEST_SKIP() << "cuBLASLt pads on a card alone";
    }
    std::mt19937 engine(5);
    const auto draw = [&](std::size_t count) {
      std::vector<Factor> values(count);
      for (Factor& value : values) {
        value = static_cast<Factor>(static_cast<float>(engine() % most) - 1);
      }
      return values;
    };
    const std::vector<Factor> a = draw(kRows * kDepth);
    const std::vector<Factor> b = draw(kDepth * kColumns);
    const std::vector<TimelinePoint> after{up(0, a), up(1, b)};
    const hearth::detail::Layout of_a{Shape({kRows, kDepth})};
    const hearth::detail::Layout of_b{Shape({kDepth, kColumns})};
    const hearth::detail::Layout of_y{Shape({kRows, kColumns})};
    const SmallCall call(OpKind::matmul,
                         {TensorView{data(0), &of_a, factors}, TensorView{data(1), &of_b, factors}},
                         {TensorView{data(4), &of_y, sums}});
    const Launch launch{.call = call.call()};
    const Issue issue = backend_->submit({&launch, 1}, after);
    ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text;
    const std::vector<Sum> got = down<Sum>(4, kRows * kColumns, {&issue.point, 1});
    const auto want = product_of<Factor, Sum>(a, b, kRows, kDepth, kColumns);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(want[i])) << i;
    }
  }
};

TEST_F(RaggedProducts, OfBf16) {
  check<bf16, bf16>(DType::bf16, DType::bf16, 3);
}
TEST_F(RaggedProducts, OfF16) {
  check<f16, f16>(DType::f16, DType::f16, 3);
}
TEST_F(RaggedProducts, OfI8) {
  check<std::int8_t, std::int32_t>(DType::i8, DType::i32, 3);
}

// In four batches: the clock uses the events of the earlier ones again.
TEST_F(CudaBackendTest, TimesTheLaunchesThatHaveANumber) {
  const std::vector<TimelinePoint> after{up(0, some_values(64, 1)), up(1, some_values(64, 2))};
  const hearth::detail::Layout layout{Shape({64})};
  const auto view = [&](int number) { return TensorView{data(number), &layout, DType::f32}; };
  const SmallCall sum(OpKind::add, {view(0), view(1)}, {view(2)});
  const SmallCall doubled(OpKind::add, {view(2), view(2)}, {view(3)});
  std::chrono::nanoseconds before = {};
  for (std::uint32_t round = 0; round < 4; ++round) {
    const std::array<Launch, 3> launches{{
        {.call = sum.call(), .timed_as = 10 * round + 1},
        {.call = doubled.call()},
        {.call = doubled.call(), .timed_as = 10 * round + 2},
    }};
    const Issue issue = backend_->submit(launches, after);
    ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text;
    ASSERT_TRUE(backend_->flush().has_value());
    ASSERT_TRUE(backend_->wait({&issue.point, 1}, soon()).has_value());
    const std::vector<LaunchTime> times = backend_->times()->take_launch_times();
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[0].number, 10 * round + 1);
    EXPECT_EQ(times[1].number, 10 * round + 2);
    for (const LaunchTime& each : times) {
      EXPECT_LE(before, each.begin);
      EXPECT_LE(each.begin, each.end);
      EXPECT_FALSE(each.is_shared_out);
      before = each.end;
    }
  }
  const auto now = hearth::detail::current_context().clock().now().time_since_epoch();
  EXPECT_LE(before, now);
  EXPECT_LE(now - before, std::chrono::minutes(1));
}

TEST_F(CudaBackendTest, ALaunchIsRefusedByThePlan) {
  open({.faults = {.refused_at_call = 1}});
  const hearth::detail::Layout layout{Shape({64})};
  const auto view = [&](int number) { return TensorView{data(number), &layout, DType::f32}; };
  const SmallCall call(OpKind::add, {view(0), view(1)}, {view(2)});
  const Launch launch{.call = call.call()};
  static_cast<void>(backend_->submit({&launch, 1}, {}));
  const Status status = backend_->flush();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::device_lost);
}

TEST(CudaBackend, NamesThePlacesOfAMissingLibrary) {
  static constexpr std::array kNames = {"libhearth_nothing.so.2", "libhearth_nothing.so.1"};
  const auto library = open_library(
      {.title = "library of nothing", .names = kNames, .wheel_folders = {}, .remedy = "make one"},
      "/none");
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::not_found);
  EXPECT_THAT(library.error().text,
              HasSubstr("there is no library of nothing on this machine: no libhearth_nothing.so.2 "
                        "or libhearth_nothing.so.1 in /none, on the loader's path"));
  EXPECT_THAT(library.error().text,
              HasSubstr("; make one, or HEARTH_CUDA_LIBRARY_PATH may name its folder"));
}

TEST(CudaBackend, SaysWhatIsMissing) {
  const Result<std::unique_ptr<Backend>> backend =
      CudaBackend::open({.name = "cuda:77", .index = 77, .nvidia_folders = nvidia_folders()});
  ASSERT_FALSE(backend.has_value());
  EXPECT_EQ(backend.error().code, ErrorCode::not_found);
  EXPECT_THAT(backend.error().text, HasSubstr("no device 'cuda:77'"));
}

}  // namespace
}  // namespace hearth::cuda
