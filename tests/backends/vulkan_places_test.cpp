// Vulkan kernels that address memory by an index or a position: indices out of range, positions
// outside their window, many indices for few targets.
#include "tests/backends/small_call.hpp"
#include "tests/conformance/case_tensor.hpp"
#include "tests/conformance/device_mirror.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/backends/vulkan/vulkan_backend.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace hearth::vulkan {
namespace {

using conformance::CaseTensor;
using conformance::LayoutKind;
using conformance::Number;
using testing::run_mirrored;
using testing::SmallCall;

std::unique_ptr<Backend> open_device() {
  return VulkanBackend::open({}).value();
}

CaseTensor values(DType dtype, const Shape& shape, std::uint64_t seed = 1) {
  return {dtype,
          shape,
          LayoutKind::dense,
          conformance::case_values(
              {.shape = shape, .values = conformance::Values::apart}, dtype, seed)};
}

CaseTensor integers(DType dtype, const Shape& shape, const std::vector<std::int64_t>& numbers) {
  std::vector<Number> all;
  for (const std::int64_t number : numbers) {
    all.push_back({.real = static_cast<double>(number), .integer = number});
  }
  return {dtype, shape, LayoutKind::dense, all};
}

/// The number of output elements that differ from the oracle's, which are left in `want`.
std::size_t differences(const CaseTensor& got,
                        const std::vector<Number>& want,
                        const testing::Tolerance& tolerance) {
  const std::vector<Number> have = got.values();
  std::size_t count = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    count += tolerance.accepts(have[i].real, want[i].real) ? 0U : 1U;
  }
  return count;
}

TEST(VulkanPlaces, AnIndexOutsideItsAxisIsNamed) {
  const auto device = open_device();
  const auto text_of =
      [&](OpKind kind, const CaseTensor& x, const CaseTensor& index, const CaseTensor& out) {
        const Status status = run_mirrored(*device,
                                           SmallCall(kind, {x.view(), index.view()}, {out.view()})
                                               .with(AxisAttributes{.axis = 1})
                                               .call());
        EXPECT_FALSE(status.has_value() || status.error().code != ErrorCode::out_of_range);
        return status.has_value() ? "no error" : status.error().text;
      };
  const CaseTensor x = values(DType::f32, {2, 3});
  const CaseTensor out(DType::f32, {2, 2});
  const CaseTensor whole(DType::f32, {2, 5});
  EXPECT_EQ(text_of(OpKind::gather, x, integers(DType::i32, {2, 2}, {0, 2, 3, 1}), out),
            "gather: index 2 is 3, but the axis has 3 elements");
  EXPECT_EQ(text_of(OpKind::index_select, x, integers(DType::i64, {2}, {0, -1}), out),
            "index_select: index 1 is -1, but the axis has 3 elements");
  EXPECT_EQ(
      text_of(OpKind::scatter_add, x, integers(DType::i64, {2, 3}, {0, 1, 4, 4, 5, 0}), whole),
      "scatter_add: index 4 is 5, but the axis has 5 elements");
  EXPECT_EQ(text_of(OpKind::index_add, x, integers(DType::i32, {3}, {0, -7, 2}), whole),
            "index_add: index 1 is -7, but the axis has 5 elements");
}

TEST(VulkanPlaces, AnIndexOutsideIsNamedWherePlacesAreSorted) {
  const auto device = open_device();
  for (const std::int64_t places : {50, 5000}) {  // by one workgroup, by several
    std::vector<std::int64_t> index(static_cast<std::size_t>(2 * places), 3);
    index[static_cast<std::size_t>(places + 17)] = std::int64_t{1} << 40;
    const CaseTensor source = values(DType::f32, {2, places});
    const CaseTensor out(DType::f32, {2, 5});
    const CaseTensor of_each = integers(DType::i64, {2, places}, index);
    const Status status =
        run_mirrored(*device,
                     SmallCall(OpKind::scatter_add, {source.view(), of_each.view()}, {out.view()})
                         .with(AxisAttributes{.axis = 1})
                         .call());
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().text,
              "scatter_add: index " + std::to_string(places + 17) +
                  " is 1099511627776, but the axis has 5 elements");
  }
}

// Also of an index that repeats along the rows, whose lines are sorted once.
TEST(VulkanPlaces, AnIndexOutsideIsNamedWhereUpdatesAreWritten) {
  const auto device = open_device();
  const CaseTensor x = values(DType::f32, {5, 3});
  const CaseTensor updates = values(DType::f32, {2, 3}, 2);
  const CaseTensor out(DType::f32, {5, 3});
  const CaseTensor each = integers(DType::i64, {2, 3}, {0, 1, 4, 4, 5, 0});
  const CaseTensor rows = integers(DType::i64, {2, 1}, {0, 7});
  const detail::Layout repeated(Shape{2, 3}, Strides{1, 0});
  const TensorView row_view{rows.view().data, &repeated, DType::i64};
  const auto text_of = [&](const TensorView& index) {
    const Status status =
        run_mirrored(*device,
                     SmallCall(OpKind::scatter, {x.view(), index, updates.view()}, {out.view()})
                         .with(ScatterAttributes{.axis = 0, .mode = ScatterMode::max})
                         .call());
    return status.has_value() ? "no error" : status.error().text;
  };
  EXPECT_EQ(text_of(each.view()), "scatter: index 4 is 5, but the axis has 5 elements");
  EXPECT_EQ(text_of(row_view), "scatter: index 3 is 7, but the axis has 5 elements");
}

TEST(VulkanPlaces, AnIndexIsLookedAtWhereNothingIsPicked) {
  const auto device = open_device();
  const CaseTensor x = values(DType::f32, {4, 0});
  const CaseTensor index = integers(DType::i64, {2}, {3, 4});
  const CaseTensor out(DType::f32, {2, 0});
  const Status status =
      run_mirrored(*device,
                   SmallCall(OpKind::index_select, {x.view(), index.view()}, {out.view()})
                       .with(AxisAttributes{.axis = 0})
                       .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "index_select: index 1 is 4, but the axis has 4 elements");
}

// Rows of a table: few and many indices, most of them for one target.
TEST(VulkanPlaces, SumsByIndexAreTheOraclesAndTheSameEveryTime) {
  const auto device = open_device();
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32}) {
    for (const std::int64_t places : {3, 200, 4099}) {
      std::vector<std::int64_t> index;
      for (std::int64_t i = 0; i < places; ++i) {
        index.push_back(i % 3 == 0 ? i * 7 % 91 : 5);
      }
      const CaseTensor source = values(dtype, {places, 136});
      const CaseTensor rows = integers(DType::i32, {places}, index);
      const CaseTensor out(dtype, {91, 136});
      const SmallCall call =
          SmallCall(OpKind::index_add, {source.view(), rows.view()}, {out.view()})
              .with(AxisAttributes{.axis = 0});
      ASSERT_TRUE(reference::evaluate(call.call()).has_value());
      const std::vector<Number> want = out.values();
      const auto tolerance =
          testing::tolerance(testing::Precision::sum, dtype, 4 * static_cast<double>(places), 2);
      ASSERT_TRUE(run_mirrored(*device, call.call()).has_value());
      EXPECT_EQ(differences(out, want, tolerance), 0U) << name(dtype) << ", " << places;
      EXPECT_TRUE(out.margins_are_whole());
      const std::vector<std::byte> once(out.bytes().begin(), out.bytes().end());
      ASSERT_TRUE(run_mirrored(*device, call.call()).has_value());
      EXPECT_TRUE(std::ranges::equal(once, out.bytes())) << name(dtype) << ", " << places;
    }
  }
}

struct Pool {
  Shape x;
  PoolAttributes attributes;

  [[nodiscard]] Shape y() const {
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      return (x[axis] + 2 * attributes.padding[i] - attributes.kernel[i]) / attributes.stride[i] +
             1;
    };
    return {x[0], x[1], places(2), places(3)};
  }
};

/// Positions as max_pool2d of the oracle gives them.
std::vector<std::int64_t> positions_of(const Pool& pool) {
  const CaseTensor x = values(DType::f32, pool.x);
  const CaseTensor y(DType::f32, pool.y());
  const CaseTensor positions(DType::i32, pool.y());
  const SmallCall call =
      SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()}).with(pool.attributes);
  EXPECT_TRUE(reference::evaluate(call.call()).has_value());
  std::vector<std::int64_t> out;
  for (const Number& number : positions.values()) {
    out.push_back(number.integer);
  }
  return out;
}

TEST(VulkanPlaces, GradientsOfMaximaGoBackFromWindowsAndFromWhereverElse) {
  const auto device = open_device();
  const Pool pools[] = {
      {{2, 3, 12, 10}, {}},
      {{2, 2, 13, 11}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {{1, 2, 9, 14}, {.kernel = {2, 2}, .stride = {3, 5}}},
      {{1, 2, 140, 70}, {.kernel = {2, 3}, .stride = {1, 1}}},  // windows of several groups
  };
  for (const Pool& pool : pools) {
    for (const bool strays : {false, true}) {
      std::vector<std::int64_t> places = positions_of(pool);
      if (strays) {
        places.back() = 1;  // of the last plane, at its other end
      }
      const CaseTensor grad = values(DType::f32, pool.y(), 2);
      const CaseTensor positions = integers(DType::i32, pool.y(), places);
      const CaseTensor out(DType::f32, pool.x);
      const SmallCall call =
          SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {out.view()})
              .with(pool.attributes);
      ASSERT_TRUE(reference::evaluate(call.call()).has_value());
      const std::vector<Number> want = out.values();
      ASSERT_TRUE(run_mirrored(*device, call.call()).has_value());
      const auto tolerance = testing::tolerance(testing::Precision::sum, DType::f32, 10, 2);
      EXPECT_EQ(differences(out, want, tolerance), 0U) << pool.x.to_string() << strays;
      EXPECT_TRUE(out.margins_are_whole());
    }
  }
}

TEST(VulkanPlaces, APositionOutsideItsPlaneIsNamed) {
  const auto device = open_device();
  const CaseTensor grad = values(DType::f32, {1, 1, 2, 2});
  const CaseTensor positions = integers(DType::i32, {1, 1, 2, 2}, {0, 2, 16, 10});
  const CaseTensor out(DType::f32, {1, 1, 4, 4});
  const Status status = run_mirrored(
      *device,
      SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {out.view()})
          .with(PoolAttributes{})
          .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(status.error().text,
            "max_pool2d_backward: index 2 is 16, but the axis has 16 elements");
}

TEST(VulkanPlaces, ASliceOutsideItsResultIsRefusedAtOnce) {
  const auto device = open_device();
  const CaseTensor grad = values(DType::f32, {3});
  const CaseTensor out(DType::f32, {5});
  const Status status = run_mirrored(*device,
                                     SmallCall(OpKind::slice_scatter, {grad.view()}, {out.view()})
                                         .with(SliceAttributes{.start = {1}, .step = {2}})
                                         .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "slice_scatter: index 5 of axis 0 is outside [5]");
}

}  // namespace
}  // namespace hearth::vulkan
