// Products that may run as one: a row of a joined thin product has the bits of the row alone.
#include "cpu_contraction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::Each;

detail::Layout by_columns(const Shape& shape) {
  Strides strides{};
  strides[0] = 1;
  strides[1] = shape[0];
  return detail::Layout(shape, strides);
}

/// Bytes of row `row` of x [rows, k] times w [k, n], plus bias, with `at_once` rows a call.
std::vector<std::byte> product_bytes(cpu::CpuBackend& device,
                                     const SmallTensor& x,
                                     const TensorView& w,
                                     const SmallTensor& bias,
                                     std::int64_t at_once) {
  const std::int64_t rows = x.view().shape()[0];
  const std::int64_t depth = x.view().shape()[1];
  const std::int64_t columns = w.shape()[1];
  const std::int64_t element = size_bytes(x.view().dtype);
  SmallTensor y(x.view().dtype, {rows, columns});
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const std::int64_t count = std::min(at_once, rows - row);
    const detail::Layout in(Shape{count, depth});
    const detail::Layout out(Shape{count, columns});
    const SmallCall call(
        OpKind::matmul,
        {{x.view().data + row * depth * element, &in, x.view().dtype}, w, bias.view()},
        {{y.view().data + row * columns * element, &out, y.view().dtype}});
    testing::run_call(device, call.call()).value();
  }
  const std::byte* data = y.view().data;
  return {data, data + rows * columns * element};
}

TEST(CpuJoin, ARowOfAThinProductHasTheBitsItHasAlone) {
  constexpr std::int64_t kDepth = 203;
  DevicePerIsa devices;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::int64_t columns : {1, 10, 37, 64}) {
      const SmallTensor x = random_tensor(dtype, {16, kDepth}, 1);
      const SmallTensor w = random_tensor(dtype, {kDepth, columns}, 2);
      const SmallTensor bias = random_tensor(dtype, {columns}, 3);
      const detail::Layout transposed = by_columns({kDepth, columns});
      for (const TensorView& view : {w.view(), TensorView{w.view().data, &transposed, dtype}}) {
        for (cpu::CpuBackend* device : devices.all()) {
          const std::vector<std::byte> alone = product_bytes(*device, x, view, bias, 1);
          const detail::Layout one(Shape{1, kDepth});
          const detail::Layout out(Shape{1, columns});
          const SmallCall single(OpKind::matmul,
                                 {{x.view().data, &one, dtype}, view, bias.view()},
                                 {{x.view().data, &out, dtype}});
          const std::int64_t most = device->kernels().joinable_calls(single.call());
          EXPECT_GE(most, 8);
          for (std::int64_t at_once = 2; at_once <= most; ++at_once) {
            EXPECT_EQ(product_bytes(*device, x, view, bias, at_once), alone)
                << name(dtype) << ", " << columns << " columns, " << at_once << " at once";
          }
        }
      }
    }
  }
}

TEST(CpuJoin, ProductsOfManyRowsAndOtherOpsDoNotJoin) {
  cpu::CpuBackend device(serial_device());
  const SmallTensor x = random_tensor(DType::f32, {9, 4}, 1);
  const SmallTensor w = random_tensor(DType::f32, {4, 5}, 2);
  const SmallTensor y(DType::f32, {9, 5});
  EXPECT_EQ(device.kernels().joinable_calls(
                SmallCall(OpKind::matmul, {x.view(), w.view()}, {y.view()}).call()),
            1);
  EXPECT_EQ(device.kernels().joinable_calls(SmallCall(OpKind::relu, {x.view()}, {x.view()}).call()),
            1);
}

}  // namespace
}  // namespace hearth::testing
