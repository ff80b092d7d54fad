// Temporary memory of ops: sums of narrow types widen as they load, and draws search.
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class TransientMemory : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  /// The peak of live bytes while fn ran, above those from before it.
  template <class Fn>
  [[nodiscard]] std::int64_t bytes_of(const Fn& fn) const {
    device().sync();
    device().reset_peak_memory();
    const std::int64_t before = device().memory().peak_live_bytes;
    fn();
    device().sync();
    return device().memory().peak_live_bytes - before;
  }

  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(TransientMemory, IsNoneOfSumsOfNarrowIntegers) {
  constexpr std::int64_t kCount = 4 * kMiB;
  for (const DType dtype : {DType::boolean, DType::u8, DType::i8, DType::i32}) {
    const Tensor x = full(device(), {4, kCount / 4}, 1, dtype);
    const std::string what(name(dtype));
    const auto expect_small = [&](const auto& fn) {
      EXPECT_LE(bytes_of([&] { EXPECT_EQ(fn(), kCount) << what; }), kCount / 8) << what;
    };
    expect_small([&] { return sum(x).item<std::int64_t>(); });
    expect_small([&] { return sum(sum(x, 1)).item<std::int64_t>(); });
    expect_small([&] { return static_cast<std::int64_t>(mean(x).item() * kCount); });
    expect_small([&] { return prod(x).item<std::int64_t>() * kCount; });
  }
}

TEST_P(TransientMemory, OfACumulativeSumIsItsResult) {
  constexpr std::int64_t kCount = kMiB;
  const Tensor x = full(device(), {kCount}, 1, DType::u8);
  const auto run = [&] {
    const Tensor ends = cumsum(x, 0);
    EXPECT_EQ(slice(ends, 0, {.start = -1}).item<std::int64_t>(), kCount);
  };
  EXPECT_LE(bytes_of(run), 8 * kCount + kCount / 2);
}

TEST_P(TransientMemory, OfACountedComparisonIsAByteAnElement) {
  constexpr std::int64_t kCount = 4 * kMiB;
  const Tensor x = full(device(), {kCount}, 7, DType::u8);
  const auto run = [&] { EXPECT_EQ(sum(x == 7).item<std::int64_t>(), kCount); };
  EXPECT_LE(bytes_of(run), kCount + kCount / 8);
}

TEST_P(TransientMemory, OfDrawsIsThatOfClassesAndOfDraws) {
  constexpr std::int64_t kClasses = 50'000;
  constexpr std::int64_t kDraws = 10'000;
  Generator generator(1);
  const Tensor weights = ones(device(), {kClasses});
  std::vector<std::int64_t> drawn;
  const std::int64_t bytes = bytes_of([&] {
    drawn = multinomial(weights, kDraws, generator, {.with_replacement = true})
                .to_vector<std::int64_t>();
  });
  EXPECT_LE(bytes, 8 * kMiB);
  std::vector<std::int64_t> tenths(10);
  for (const std::int64_t place : drawn) {
    ASSERT_TRUE(place >= 0 && place < kClasses) << place;
    ++tenths[static_cast<std::size_t>(place * 10 / kClasses)];
  }
  for (const std::int64_t count : tenths) {
    EXPECT_NEAR(static_cast<double>(count), kDraws / 10.0, 6 * 30);  // six deviations
  }
}

TEST_P(TransientMemory, LeavesWeightsOfZeroUndrawn) {
  constexpr std::int64_t kClasses = 3001;
  std::vector<float> weights(kClasses);
  for (std::size_t i = 1; i < weights.size(); i += 3) {
    weights[i] = i % 2 == 0 ? 1e-3F : 3.0F;
  }
  Generator generator(5);
  for (const std::int64_t place : multinomial(Tensor::from(device(), weights, {kClasses}),
                                              20'000,
                                              generator,
                                              {.with_replacement = true})
                                      .to_vector<std::int64_t>()) {
    EXPECT_GT(weights[static_cast<std::size_t>(place)], 0) << place;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         TransientMemory,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0"),
                         [](const auto& param) { return std::string(param.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
