// An expression for tests. Threads: any.
#pragma once

#include <string>
#include <utility>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>

namespace hearth::testing {

/// (x, y) to x * scale + y, in f32; the scale is a parameter.
[[nodiscard]] inline ExpressionRef scaled_sum(std::string name) {
  const std::vector<AffineIndex> map{{.terms = {{.axis = 0}}}};
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::f32, map);
  const KernelValue y = b.input(DType::f32, map);
  b.output(x * b.parameter(DType::f32) + y);
  return make_expression(std::move(name), b.take()).value();
}

}  // namespace hearth::testing
