#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hearth {
namespace {

// Two or three operands, the third one optional: shared by matmul and conv2d.
struct Factors {
  OpKind kind;
  Arg a;
  Arg b;
  const Arg* bias = nullptr;

  [[nodiscard]] Tensor submit(const TensorSpec& result,
                              std::span<const std::byte> attributes) const {
    const std::array<Arg, 3> inputs = all();
    return detail::submit({.kind = kind,
                           .location = a.location(),
                           .inputs = std::span<const Arg>(inputs).first(count()),
                           .attributes = attributes},
                          result.dtype,
                          result.shape);
  }
  /// The result of the kind's rule; its errors carry the place and the operands.
  [[nodiscard]] TensorSpec checked(Result<TensorSpec>&& rule) const {
    const std::array<Arg, 3> inputs = all();
    return detail::checked(std::move(rule), kind, std::span<const Arg>(inputs).first(count()));
  }
  [[nodiscard]] std::array<Arg, 3> all() const { return {a, b, bias != nullptr ? *bias : b}; }
  [[nodiscard]] std::size_t count() const noexcept { return bias != nullptr ? 3 : 2; }
  void require_tensors() const {
    static_cast<void>(detail::operand(kind, a));
    static_cast<void>(detail::operand(kind, b));
    if (bias != nullptr) {
      static_cast<void>(detail::operand(kind, *bias));
    }
  }
};

TensorSpec checked_matmul(const Factors& factors, const TensorSpec& a, const TensorSpec& b) {
  TensorSpec bias;
  if (factors.bias != nullptr) {
    bias = detail::spec_of(OpKind::matmul, *factors.bias);
  }
  return factors.checked(rules::matmul(a, b, factors.bias != nullptr ? &bias : nullptr));
}

// Multiplies with a row vector on the left or a column on the right, and removes its extra axis
// from the result.
Tensor matmul_with_vector(const Factors& factors, TensorSpec a, TensorSpec b) {
  const bool is_row = a.shape.rank() == 1;
  const bool is_column = b.shape.rank() == 1;
  const bool has_depths = a.shape.rank() > 0 && b.shape.rank() > 0;
  if (has_depths && a.shape[-1] != b.shape[is_column ? 0 : -2]) {
    const std::array inputs{factors.a, factors.b};
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           OpKind::matmul,
                           fmt::format("inner dimensions differ: lhs {}, rhs {}",
                                       describe(a.dtype, a.shape),
                                       describe(b.dtype, b.shape)),
                           factors.a.location(),
                           inputs);
  }
  if (is_row) {
    a.shape = Shape{1, a.shape[0]};
  }
  if (is_column) {
    b.shape = Shape{b.shape[0], 1};
  }
  const TensorSpec spec = checked_matmul(factors, a, b);
  const SourceLoc location = factors.a.location();
  Tensor left = reshape(factors.a, a.shape.dims());
  Tensor right = reshape(factors.b, b.shape.dims());
  Tensor product = Factors{OpKind::matmul,
                           Arg(std::move(left), location),
                           Arg(std::move(right), location),
                           factors.bias}
                       .submit(spec, {});
  if (is_column) {
    product = squeeze(Arg(std::move(product), location), -1);
  }
  if (is_row) {
    product = squeeze(Arg(std::move(product), location), is_column ? -1 : -2);
  }
  return product;
}

Tensor matmul_of(const Factors& factors) {
  factors.require_tensors();
  const TensorSpec a = detail::spec_of(OpKind::matmul, factors.a);
  const TensorSpec b = detail::spec_of(OpKind::matmul, factors.b);
  if (a.shape.rank() == 1 || b.shape.rank() == 1) {
    return detail::named_as("matmul", [&] { return matmul_with_vector(factors, a, b); });
  }
  return factors.submit(checked_matmul(factors, a, b), {});
}

Tensor conv2d_of(const Factors& factors, const Conv2dOptions& options) {
  factors.require_tensors();
  const ConvAttributes attributes{.stride = options.stride,
                                  .padding = options.padding,
                                  .dilation = options.dilation,
                                  .groups = options.groups};
  TensorSpec bias;
  if (factors.bias != nullptr) {
    bias = detail::spec_of(OpKind::conv2d, *factors.bias);
  }
  const TensorSpec spec = factors.checked(rules::conv2d(detail::spec_of(OpKind::conv2d, factors.a),
                                                        detail::spec_of(OpKind::conv2d, factors.b),
                                                        factors.bias != nullptr ? &bias : nullptr,
                                                        attributes));
  return factors.submit(spec, detail::bytes_of(attributes));
}

PoolAttributes pool_attributes(const Pool2dOptions& options, bool count_include_pad) {
  return {.kernel = options.kernel,
          .stride = options.stride.value_or(options.kernel),
          .padding = options.padding,
          .count_include_pad = count_include_pad ? 1 : 0};
}

}  // namespace

Tensor matmul(Arg a, Arg b) {
  return matmul_of({OpKind::matmul, a, b});
}
Tensor matmul(Arg a, Arg b, Arg bias) {
  return matmul_of({OpKind::matmul, a, b, &bias});
}

Tensor conv2d(Arg x, Arg weight, Conv2dOptions options) {
  return conv2d_of({OpKind::conv2d, x, weight}, options);
}
Tensor conv2d(Arg x, Arg weight, Arg bias, Conv2dOptions options) {
  return conv2d_of({OpKind::conv2d, x, weight, &bias}, options);
}

Tensor max_pool2d(Arg x, Pool2dOptions options) {
  static_cast<void>(detail::operand(OpKind::max_pool2d, x));
  const PoolAttributes attributes = pool_attributes(options, false);
  const TensorSpec spec = detail::checked(
      rules::pool2d(OpKind::max_pool2d, detail::spec_of(OpKind::max_pool2d, x), attributes),
      OpKind::max_pool2d,
      x);
  // Only the gradient needs the positions.
  const std::array specs{spec, TensorSpec{DType::i32, spec.shape}};
  const std::size_t count = x.tensor().is_tracked() ? 2 : 1;
  std::array<Tensor, 2> results;
  detail::submit({.kind = OpKind::max_pool2d,
                  .location = x.location(),
                  .inputs = {&x, 1},
                  .attributes = detail::bytes_of(attributes)},
                 std::span(specs).first(count),
                 std::span(results).first(count));
  return std::move(results[0]);
}

Tensor avg_pool2d(Arg x, Pool2dOptions options) {
  static_cast<void>(detail::operand(OpKind::avg_pool2d, x));
  const PoolAttributes attributes = pool_attributes(options, options.count_include_pad);
  const TensorSpec spec = detail::checked(
      rules::pool2d(OpKind::avg_pool2d, detail::spec_of(OpKind::avg_pool2d, x), attributes),
      OpKind::avg_pool2d,
      x);
  return detail::submit({.kind = OpKind::avg_pool2d,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        spec.dtype,
                        spec.shape);
}

}  // namespace hearth
