#include "cpu_contraction.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pool {
  Shape x;
  PoolAttributes attributes;
  DType dtype = DType::f32;

  [[nodiscard]] Shape y() const {
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      return (x[axis] + 2 * attributes.padding[i] - attributes.kernel[i]) / attributes.stride[i] +
             1;
    };
    return {x[0], x[1], places(2), places(3)};
  }
  [[nodiscard]] double window() const {
    return static_cast<double>(attributes.kernel[0] * attributes.kernel[1]);
  }
};

// Pairs with whole, half and partial vectors and odd sizes; then overlapping, padded and gapped
// windows.
std::vector<Pool> pools() {
  std::vector<Pool> list;
  for (const Shape& shape : {Shape{2, 3, 4, 64},
                             Shape{1, 2, 6, 28},
                             Shape{3, 1, 14, 14},
                             Shape{1, 2, 7, 9},
                             Shape{1, 1, 2, 3}}) {
    list.push_back({shape, {}});
  }
  list.push_back({{2, 2, 9, 11}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}});
  list.push_back({{1, 3, 10, 7},
                  {.kernel = {2, 4}, .stride = {1, 3}, .padding = {1, 2}, .count_include_pad = 1}});
  list.push_back({{1, 2, 12, 12}, {.kernel = {2, 2}, .stride = {5, 4}}});
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    list.push_back({{2, 2, 6, 10}, {}, dtype});
  }
  return list;
}

// The oracle's positions, for the backward ops.
SmallTensor positions_of(const Pool& pool, const SmallTensor& x) {
  const SmallTensor y(pool.dtype, pool.y());
  SmallTensor positions(DType::i32, pool.y());
  reference::evaluate(SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()})
                          .with(pool.attributes)
                          .call())
      .value();
  return positions;
}

TEST(CpuPool, MaxAndItsPositionsAreTheOracles) {
  DevicePerIsa devices;
  for (const Pool& pool : pools()) {
    const SmallTensor x = random_tensor(pool.dtype, pool.x, 1);
    const SmallTensor y(pool.dtype, pool.y());
    const SmallTensor positions(DType::i32, pool.y());
    const SmallCall call = SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()})
                               .with(pool.attributes);
    reference::evaluate(call.call()).value();
    const std::vector<double> values = y.values();
    const std::vector<double> places = positions.values();
    for (cpu::CpuBackend* device : devices.all()) {
      EXPECT_EQ(computed(*device, call, y), values) << describe(pool.dtype, pool.x);
      EXPECT_EQ(positions.values(), places) << describe(pool.dtype, pool.x);
    }
  }
}

TEST(CpuPool, BackwardAndMeansAgreeWithTheOracle) {
  DevicePerIsa devices;
  for (const Pool& pool : pools()) {
    const std::string what = describe(pool.dtype, pool.x);
    const SmallTensor x = random_tensor(pool.dtype, pool.x, 2);
    const SmallTensor grad = random_tensor(pool.dtype, pool.y(), 3);
    const SmallTensor positions = positions_of(pool, x);
    const SmallTensor y(pool.dtype, pool.y());
    const SmallTensor dx(pool.dtype, pool.x);
    expect_like_the_oracle(
        devices,
        SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {dx.view()})
            .with(pool.attributes),
        dx,
        pool.window(),
        what);
    expect_like_the_oracle(
        devices,
        SmallCall(OpKind::avg_pool2d, {x.view()}, {y.view()}).with(pool.attributes),
        y,
        pool.window(),
        what);
    expect_like_the_oracle(
        devices,
        SmallCall(OpKind::avg_pool2d_backward, {grad.view()}, {dx.view()}).with(pool.attributes),
        dx,
        pool.window(),
        what);
  }
}

TEST(CpuPool, MaximaWithoutPositionsAreTheOraclesOverAllPlanes) {
  DevicePerIsa devices;
  std::vector<Pool> list = pools();
  list.push_back({{3, 9, 96, 65}, {}});  // several parts
  list.push_back({{3, 9, 95, 64}, {}});  // a row of each plane is in no window
  for (const Pool& pool : list) {
    const SmallTensor x = random_tensor(pool.dtype, pool.x, 7);
    const SmallTensor y(pool.dtype, pool.y());
    const SmallCall call =
        SmallCall(OpKind::max_pool2d, {x.view()}, {y.view()}).with(pool.attributes);
    reference::evaluate(call.call()).value();
    const std::vector<double> values = y.values();
    for (cpu::CpuBackend* device : devices.all()) {
      EXPECT_EQ(computed(*device, call, y), values) << describe(pool.dtype, pool.x);
    }
  }
}

TEST(CpuPool, PositionsAreOptional) {
  const SmallTensor x(DType::f32, {1, 1, 2, 4}, {1, 5, 2, 3, 4, 0, 9, 2});
  const SmallTensor y(DType::f32, {1, 1, 1, 2});
  EXPECT_THAT(computed(serial_device(),
                       SmallCall(OpKind::max_pool2d, {x.view()}, {y.view()}).with(PoolAttributes{}),
                       y),
              ElementsAre(5, 9));
}

TEST(CpuPool, TiesTakeTheFirstAndTheFirstNaNWins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const SmallTensor x(DType::f32, {1, 1, 2, 6}, {4, 4, 1, nan, 3, 8, 4, 4, nan, 7, nan, 2});
  const SmallTensor y(DType::f32, {1, 1, 1, 3});
  const SmallTensor positions(DType::i32, {1, 1, 1, 3});
  const SmallCall call = SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()})
                             .with(PoolAttributes{});
  const std::vector<double> got = computed(serial_device(), call, y);
  EXPECT_EQ(got[0], 4);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_THAT(positions.values(), ElementsAre(0, 3, 10));
}

TEST(CpuPool, APlaneOfMinusInfinityKeepsItsFirstPosition) {
  const SmallTensor x(DType::f32, {1, 1, 2, 2}, std::vector<double>(4, -HUGE_VAL));
  const SmallTensor y(DType::f32, {1, 1, 1, 1});
  const SmallTensor positions(DType::i32, {1, 1, 1, 1});
  const SmallCall call = SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()})
                             .with(PoolAttributes{});
  EXPECT_THAT(computed(serial_device(), call, y), ElementsAre(-HUGE_VAL));
  EXPECT_THAT(positions.values(), ElementsAre(0));
}

TEST(CpuPool, PositionsOutsideTheirWindowButInThePlaneAreSummed) {
  const SmallTensor grad(DType::f32, {1, 1, 1, 2}, {2, 3});
  const SmallTensor positions(DType::i32, {1, 1, 1, 2}, {7, 7});
  const SmallTensor dx(DType::f32, {1, 1, 2, 4}, std::vector<double>(8, 9.0));
  const SmallCall call =
      SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {dx.view()})
          .with(PoolAttributes{});
  EXPECT_THAT(computed(serial_device(), call, dx), ElementsAre(0, 0, 0, 0, 0, 0, 0, 5));
}

TEST(CpuPool, APositionOutsideThePlaneIsRefusedByItsValue) {
  const SmallTensor grad(DType::f32, {1, 1, 1, 1}, {2});
  const SmallTensor positions(DType::i32, {1, 1, 1, 1}, {4});
  const SmallTensor dx(DType::f32, {1, 1, 2, 2});
  const SmallCall call =
      SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {dx.view()})
          .with(PoolAttributes{});
  cpu::CpuBackend device(serial_device());
  const Status status = testing::run_call(device, call.call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
  EXPECT_THAT(status.error().text, HasSubstr("position 4 is outside a plane of 4 elements"));
}

TEST(CpuPool, TheBitsDoNotDependOnTheNumberOfCores) {
  const Pool pool{{16, 8, 30, 30}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}};
  const SmallTensor grad = random_tensor(DType::f32, pool.y(), 4);
  const SmallTensor dx(DType::f32, pool.x);
  const SmallCall call =
      SmallCall(OpKind::avg_pool2d_backward, {grad.view()}, {dx.view()}).with(pool.attributes);
  EXPECT_EQ(computed({.cores = available_cores()}, call, dx), computed(serial_device(), call, dx));
}

}  // namespace
}  // namespace hearth::testing
