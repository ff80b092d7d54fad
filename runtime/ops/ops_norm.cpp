#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr OpKind kNormKind = OpKind::reduce_mean;

std::vector<int> last_axes(const Arg& x, const NormOptions& options) {
  const Shape& shape = detail::accepted_operand(kNormKind, x).layout->shape;
  if (options.axis_count < 1 || options.axis_count > shape.rank()) {
    detail::throw_op_error(
        ErrorCode::invalid_argument,
        kNormKind,
        fmt::format("there are no last {} axes of {}", options.axis_count, shape.to_string()),
        x);
  }
  if (!(options.epsilon >= 0)) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kNormKind,
                           fmt::format("epsilon {} is not 0 or more", options.epsilon),
                           x);
  }
  std::vector<int> axes;
  for (int axis = 1; axis <= options.axis_count; ++axis) {
    axes.push_back(-axis);
  }
  return axes;
}

// Checks that a weight or bias has the sizes of the normalised axes, and the type of x.
void check_beside(std::string_view what, const Arg& beside, const Arg& x, int axis_count) {
  const TensorImpl& impl = detail::operand(kNormKind, x);
  const Shape& whole = impl.layout->shape;
  Shape wanted;
  for (int axis = whole.rank() - axis_count; axis < whole.rank(); ++axis) {
    wanted.push_back(whole[axis]);
  }
  const TensorImpl& given = detail::operand(kNormKind, beside);
  if (given.layout->shape == wanted && given.dtype == impl.dtype) {
    return;
  }
  const bool is_shape = given.dtype == impl.dtype;
  detail::throw_op_error(is_shape ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                         kNormKind,
                         fmt::format("{} must be {}, is {}: x {}",
                                     what,
                                     describe(impl.dtype, wanted),
                                     describe(given.dtype, given.layout->shape),
                                     describe(impl.dtype, whole)),
                         beside);
}

// value / sqrt(mean of its squares + epsilon)
Tensor scaled_to_one(Tensor value, const Axes& axes, double epsilon, SourceLoc loc) {
  Tensor squares = mean(Arg(square(Arg(value, loc)), loc), axes, {.keep_dims = true});
  Tensor scale = rsqrt(Arg(add(Arg(std::move(squares), loc), Arg(epsilon, loc)), loc));
  return mul(Arg(std::move(value), loc), Arg(std::move(scale), loc));
}

Tensor normalised(
    const Arg& x, const Arg* weight, const Arg* bias, bool is_centred, const NormOptions& options) {
  const Axes axes = last_axes(x, options);
  if (weight != nullptr) {
    check_beside("weight", *weight, x, options.axis_count);
  }
  if (bias != nullptr) {
    check_beside("bias", *bias, x, options.axis_count);
  }
  const SourceLoc loc = x.location();
  const DType dtype = x.tensor().dtype();
  Tensor value = detail::wide(x);
  if (is_centred) {
    Tensor middle = mean(Arg(value, loc), axes, {.keep_dims = true});
    value = sub(Arg(std::move(value), loc), Arg(std::move(middle), loc));
  }
  value = scaled_to_one(std::move(value), axes, options.epsilon, loc);
  if (weight != nullptr) {
    value = mul(Arg(std::move(value), loc), Arg(detail::wide(*weight), loc));
  }
  if (bias != nullptr) {
    value = add(Arg(std::move(value), loc), Arg(detail::wide(*bias), loc));
  }
  return cast(Arg(std::move(value), loc), dtype);
}

// Normalises each example's groups of channels as separate rows.
Tensor by_groups(const Arg& x, std::int64_t groups, double epsilon) {
  const Shape shape = detail::accepted_operand(kNormKind, x).layout->shape;
  if (shape.rank() < 2) {
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           kNormKind,
                           fmt::format("needs [n, channels, ...], got {}", shape.to_string()),
                           x);
  }
  if (groups < 1 || shape[1] % groups != 0) {
    detail::throw_op_error(
        ErrorCode::invalid_argument,
        kNormKind,
        fmt::format("{} groups do not divide the channels of {}", groups, shape.to_string()),
        x);
  }
  std::int64_t row = shape[1] / groups;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    row *= shape[axis];
  }
  const SourceLoc loc = x.location();
  Tensor rows = reshape(x, {shape[0], groups, row});
  Tensor normal = layer_norm(Arg(std::move(rows), loc), NormOptions{.epsilon = epsilon});
  return reshape(Arg(std::move(normal), loc), shape.dims());
}

// A weight or bias of the channels, shaped to broadcast with x, in the compute type.
Tensor by_channel(std::string_view what, const Arg& beside, const Arg& x) {
  const TensorImpl& impl = detail::operand(kNormKind, x);
  const Shape& shape = impl.layout->shape;
  const TensorImpl& given = detail::operand(kNormKind, beside);
  if (given.layout->shape != Shape{shape[1]} || given.dtype != impl.dtype) {
    detail::throw_op_error(
        given.dtype == impl.dtype ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
        kNormKind,
        fmt::format("{} must be {}, is {}: x {}",
                    what,
                    describe(impl.dtype, Shape{shape[1]}),
                    describe(given.dtype, given.layout->shape),
                    describe(impl.dtype, shape)),
        beside);
  }
  Shape column{shape[1]};
  for (int axis = 2; axis < shape.rank(); ++axis) {
    column.push_back(1);
  }
  return reshape(Arg(detail::wide(detail::shared_operand(beside)), x.location()), column.dims());
}

}  // namespace

Tensor layer_norm(Arg x, NormOptions options) {
  return detail::named_as("layer_norm",
                          [&] { return normalised(x, nullptr, nullptr, true, options); });
}
Tensor layer_norm(Arg x, Arg weight, NormOptions options) {
  return detail::named_as("layer_norm",
                          [&] { return normalised(x, &weight, nullptr, true, options); });
}
Tensor layer_norm(Arg x, Arg weight, Arg bias, NormOptions options) {
  return detail::named_as("layer_norm",
                          [&] { return normalised(x, &weight, &bias, true, options); });
}

Tensor rms_norm(Arg x, NormOptions options) {
  return detail::named_as("rms_norm",
                          [&] { return normalised(x, nullptr, nullptr, false, options); });
}
Tensor rms_norm(Arg x, Arg weight, NormOptions options) {
  return detail::named_as("rms_norm",
                          [&] { return normalised(x, &weight, nullptr, false, options); });
}

Tensor group_norm(Arg x, std::int64_t groups, double epsilon) {
  return detail::named_as("group_norm", [&] { return by_groups(x, groups, epsilon); });
}
Tensor group_norm(Arg x, std::int64_t groups, Arg weight, Arg bias, double epsilon) {
  return detail::named_as("group_norm", [&] {
    const SourceLoc loc = x.location();
    const DType dtype = detail::accepted_operand(kNormKind, x).dtype;
    const Arg wide_x(x.tensor(), loc);
    Tensor value = by_groups(Arg(detail::wide(wide_x), loc), groups, epsilon);
    value = mul(Arg(std::move(value), loc), Arg(by_channel("weight", weight, x), loc));
    value = add(Arg(std::move(value), loc), Arg(by_channel("bias", bias, x), loc));
    return cast(Arg(std::move(value), loc), dtype);
  });
}

}  // namespace hearth
