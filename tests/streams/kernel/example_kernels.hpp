// The three example kernels of streams/kernel/README.md. Threads: any.
#pragma once

#include <array>
#include <vector>

#include <hearth/streams/kernel/kernel_builder.hpp>

namespace hearth::testing {

/// The unchanged index along an axis.
[[nodiscard]] inline AffineIndex axis(int number) {
  return {.terms = {{.axis = number}}};
}

/// y = relu(x * scale + bias) of a matrix in f16; the scale is a scalar, the bias repeats along the
/// rows.
[[nodiscard]] inline KernelIR scale_bias_relu() {
  KernelBuilder b({0, 1});
  const KernelValue x = b.convert(b.input(DType::f16, {axis(0), axis(1)}), DType::f32);
  const KernelValue bias = b.convert(b.input(DType::f16, {axis(1)}), DType::f32);
  const KernelValue y = x * b.parameter(DType::f32) + bias;
  b.output(b.convert(select(less(y, 0.0), 0.0, y), DType::f16));
  return b.take();
}

/// Each row divided by the root of the mean of its squares, and that root.
[[nodiscard]] inline KernelIR root_mean_square() {
  KernelBuilder b({0, 1}, 0b10);
  const KernelValue x = b.input(DType::f32, {axis(0), axis(1)});
  const KernelValue mean = b.fold(FoldOp::mean, x * x);
  const KernelValue root = sqrt(mean + b.parameter(DType::f32));
  b.output(x / root);
  b.output(root);
  return b.take();
}

/// Every second column from the right of a 6-column matrix that is read as [i, 2, 3]: views are
/// index maps.
[[nodiscard]] inline KernelIR columns_as_planes() {
  KernelBuilder b({0, 1});
  const AffineIndex column{.start = 5, .terms = {{.axis = 1, .step = -2}}};
  const KernelValue x = b.input(DType::i32, {axis(0), column});
  const AffineIndex plane{.terms = {{.axis = 1, .modulus = 2}}};
  const AffineIndex place{.terms = {{.axis = 1, .divisor = 2}}};
  const KernelValue y = b.input(DType::i32, {axis(0), plane, place});
  b.output(x + y);
  return b.take();
}

}  // namespace hearth::testing
