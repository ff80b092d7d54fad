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

// Weight and bias have the sizes of the axes that are normalised, and the type of x.
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
  Tensor squares = mean(Arg(square(Arg(value, loc)), loc), axes, true);
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
    Tensor middle = mean(Arg(value, loc), axes, true);
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

}  // namespace hearth
