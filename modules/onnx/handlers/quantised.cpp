// Quantised models. Whole numbers are computed exactly: products of i8 in i32, all others in f64,
// whose sums are exact below 2^53.
#include "modules/onnx/handlers/convolve.hpp"
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/windows.hpp"

#include <algorithm>

namespace hearth::onnx {
namespace quantised_ops {
namespace {

struct Limits {
  double low = 0;
  double high = 255;
};

Limits limits_of(const Call& call, OnnxType type) {
  switch (type) {
    case OnnxType::u8:
      return {0, 255};
    case OnnxType::i8:
      return {-128, 127};
    case OnnxType::u16:
      return {0, 65'535};
    case OnnxType::i16:
      return {-32'768, 32'767};
    case OnnxType::u4:
      return {0, 15};
    case OnnxType::i4:
      return {-8, 7};
    default:
      call.refuse("element type {} is no quantised one", name(type));
  }
}

// Scales and zero points of one element, of one axis, or of blocks along an axis.
Tensor spread_over(Call& call, Tensor values, const Shape& x, std::string_view axis_name) {
  if (values.rank() == 0 || values.element_count() == 1) {
    return reshape(std::move(values), Shape{});
  }
  const std::int64_t block = call.node().integer("block_size", 0);
  const int axis = call.axis(call.node().integer(axis_name, 1), x.rank());
  if (block > 0) {
    Sizes sizes = sizes_of(values.shape());
    sizes.insert(sizes.begin() + axis + 1, 1);
    Tensor wide = reshape(std::move(values), sizes);
    sizes[static_cast<std::size_t>(axis) + 1] = block;
    wide = expand(std::move(wide), Shape(sizes));
    sizes.erase(sizes.begin() + axis + 1);
    sizes[static_cast<std::size_t>(axis)] *= block;
    wide = reshape(std::move(wide), sizes);
    return slice(std::move(wide), axis, {.stop = x[axis]});
  }
  return along_axis(std::move(values), x.rank(), axis);
}

Tensor quantised(
    const Call& call, Tensor x, const Tensor& scale, const Tensor& zero, OnnxType type) {
  const Limits limits = limits_of(call, type);
  Tensor steps = round(div(std::move(x), scale));
  if (zero.is_valid()) {
    steps = add(std::move(steps), cast(zero, steps.dtype()));
  }
  return clamp(std::move(steps), limits.low, limits.high);
}

void quantise(Call& call) {
  const auto* const stated = call.node().attribute<std::int64_t>("output_dtype");
  const OnnxType type = call.has(2)         ? call.type(2)
                        : stated == nullptr ? OnnxType::u8
                        : *stated == 0      ? OnnxType::u8
                                            : onnx_type_of(*stated);
  const Shape shape = call.shape(0);
  const Tensor scale = spread_over(call, as_float(call.take(1)), shape, "axis");
  const Tensor zero = call.has(2) ? spread_over(call, call.take(2), shape, "axis") : Tensor();
  call.give(quantised(call, as_float(call.take(0)), scale, zero, type), type);
}

void dequantise(Call& call) {
  const OnnxType type = call.type(1);
  const Shape shape = call.shape(0);
  const Tensor scale = spread_over(call, widened(call.take(1)), shape, "axis");
  // In whole numbers, as differences of large i32 are not exact in f32.
  Tensor x = cast(call.take(0), DType::i32);
  if (call.has(2)) {
    x = sub(std::move(x), spread_over(call, cast(call.take(2), DType::i32), shape, "axis"));
  }
  call.give(mul(cast(std::move(x), scale.dtype()), scale), type);
}

// u8 with the range of x, widened to hold 0.
void quantise_dynamically(Call& call) {
  const Tensor x = widened(call.take(0));
  const Tensor low = minimum(min(x), 0.0);
  const Tensor high = maximum(max(x), 0.0);
  const Tensor scale = div(sub(high, low), 255.0);
  const Tensor zero = clamp(round(div(neg(low), scale)), 0.0, 255.0);
  const Tensor steps = add(round(div(x, scale)), zero);
  call.give(0, clamp(steps, 0.0, 255.0), OnnxType::u8);
  call.give(1, OnnxValue(scale));
  call.give(2, cast(zero, DType::u8), OnnxType::u8);
}

// Elements minus their zero point, in f64. A vector of zero points belongs to rows or columns.
Tensor centred(Call& call, std::size_t i, std::size_t zero, int axis_of_vector) {
  Tensor x = cast(call.take(i), DType::f64);
  if (!call.has(zero)) {
    return x;
  }
  Tensor point = cast(call.take(zero), DType::f64);
  if (point.rank() == 1 && point.element_count() > 1) {
    const int rank = x.rank();
    point = along_axis(
        std::move(point), rank, axis_of_vector < 0 ? rank + axis_of_vector : axis_of_vector);
  } else if (point.element_count() == 1) {
    point = reshape(std::move(point), Shape{});
  }
  return sub(std::move(x), std::move(point));
}

void multiply_integers(Call& call) {
  Tensor a = centred(call, 0, 2, call.rank(0) > 1 ? -2 : -1);
  call.give(matmul(std::move(a), centred(call, 1, 3, -1)), OnnxType::i32);
}

// y = round(a·b·(scale a·scale b / scale y)) + zero point.
void multiply_quantised(Call& call) {
  const OnnxType type = call.type(7);
  Tensor a = centred(call, 0, 2, call.rank(0) > 1 ? -2 : -1);
  Tensor product = matmul(std::move(a), centred(call, 3, 5, -1));
  const Tensor scale = div(mul(cast(call.take(1), DType::f64), cast(call.take(4), DType::f64)),
                           cast(call.take(6), DType::f64));
  const Tensor one = full(call.device(), {}, 1.0, DType::f64);
  product = quantised(call, mul(std::move(product), scale), one, call.take(7), type);
  call.give(std::move(product), type);
}

Tensor convolved(Call& call, std::size_t weight_input, Tensor x, Tensor weight) {
  const Sizes sizes = sizes_of(call.shape(weight_input));
  const std::vector<WindowAxis> axes =
      windows_of(call, x.shape(), Sizes(sizes.begin() + 2, sizes.end()));
  const std::int64_t groups = call.node().integer("group", 1);
  return convolve(call, std::move(x), std::move(weight), Tensor(), axes, groups);
}

void convolve_integers(Call& call) {
  const Shape shape = call.shape(1);
  Tensor x = centred(call, 0, 2, 1);
  Tensor weight = cast(call.tensor(1), DType::f64);
  if (call.has(3)) {
    Tensor zero = cast(call.take(3), DType::f64);
    zero = zero.element_count() == 1 ? reshape(std::move(zero), Shape{})
                                     : along_axis(std::move(zero), shape.rank(), 0);
    weight = sub(std::move(weight), std::move(zero));
  }
  call.give(convolved(call, 1, std::move(x), std::move(weight)), OnnxType::i32);
}

// Inputs: x, its scale and zero point, weight, its scale and zero point, those of the result, bias.
void convolve_quantised(Call& call) {
  const OnnxType type = call.type(7);
  const int rank = call.rank(3);
  const auto channelwise = [&](std::size_t i, int axis) {
    Tensor values = cast(call.take(i), DType::f64);
    return values.element_count() == 1 ? reshape(std::move(values), Shape{})
                                       : along_axis(std::move(values), rank, axis);
  };
  Tensor x = sub(cast(call.take(0), DType::f64), channelwise(2, 1));
  Tensor weight = sub(cast(call.tensor(3), DType::f64), channelwise(5, 0));
  Tensor sums = convolved(call, 3, std::move(x), std::move(weight));
  if (call.has(8)) {
    sums = add(std::move(sums), along_axis(cast(call.take(8), DType::f64), rank, 1));
  }
  const Tensor scale = div(mul(channelwise(1, 1), channelwise(4, 1)), channelwise(6, 1));
  const Tensor one = full(call.device(), {}, 1.0, DType::f64);
  Tensor zero = reshape(call.take(7), Shape{});
  call.give(quantised(call, mul(std::move(sums), scale), one, zero, type), type);
}

constexpr OpRow kRows[] = {
    {.op = "QuantizeLinear", .since = 10, .run = quantise},
    {.op = "DequantizeLinear", .since = 10, .run = dequantise},
    {.op = "DynamicQuantizeLinear", .since = 11, .run = quantise_dynamically},
    {.op = "MatMulInteger", .since = 10, .run = multiply_integers},
    {.op = "QLinearMatMul", .since = 10, .run = multiply_quantised},
    {.op = "ConvInteger", .since = 10, .run = convolve_integers, .check = check_windows},
    {.op = "QLinearConv", .since = 10, .run = convolve_quantised, .check = check_windows},
};

}  // namespace
}  // namespace quantised_ops

std::span<const OpRow> quantised_rows() {
  return quantised_ops::kRows;
}

}  // namespace hearth::onnx
