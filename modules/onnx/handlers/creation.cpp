// Tensors made from shapes and numbers.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"

#include <cmath>

namespace hearth::onnx {
namespace creation_ops {
namespace {

OnnxType type_attribute(const Call& call, std::string_view name, OnnxType otherwise) {
  const auto* const number = call.node().attribute<std::int64_t>(name);
  return number == nullptr ? otherwise : onnx_type_of(*number);
}

DType dtype_or_refuse(const Call& call, OnnxType type) {
  const std::optional<DType> dtype = device_type(type);
  if (!dtype) {
    call.refuse("element type {} is not supported", name(type));
  }
  return *dtype;
}

void constant_of_shape(Call& call) {
  const Shape shape(call.integers(0));
  const auto* const given = call.node().attribute<std::shared_ptr<const HostArray>>("value");
  if (given == nullptr) {
    call.give(zeros(call.device(), shape));
    return;
  }
  const HostArray& value = **given;
  const DType dtype = dtype_or_refuse(call, value.type);
  call.give(has_reals(value) ? full(call.device(), shape, value.reals().front(), dtype)
                             : full(call.device(), shape, value.integers().front(), dtype),
            value.type);
}

void range(Call& call) {
  const OnnxType type = call.type(0);
  const double start = call.real(0);
  const double step = call.real(2);
  const double count = std::max(0.0, std::ceil((call.real(1) - start) / step));
  const DType dtype = dtype_or_refuse(call, type);
  if (!std::isfinite(count)) {
    call.refuse("the range from {} to {} by {} has no end", start, call.real(1), step);
  }
  const Tensor places = arange(call.device(), 0, count, 1, is_float(dtype) ? dtype : DType::i64);
  call.give(add(mul(places, step), start), type);
}

// 1 on diagonal number k.
void eye_like(Call& call) {
  const OnnxType type = type_attribute(call, "dtype", call.type(0));
  const DType dtype = dtype_or_refuse(call, type);
  const Shape shape = call.shape(0);
  if (shape.rank() != 2) {
    call.refuse("{} is no matrix", shape.to_string());
  }
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  const Tensor row = arange(call.device(), 0, rows, 1, DType::i64);
  const Tensor column = arange(call.device(), 0, columns, 1, DType::i64);
  const Tensor diagonal = add(reshape(row, {shape[0], 1}), call.node().integer("k", 0));
  call.give(cast(equal(reshape(column, {1, shape[1]}), diagonal), dtype), type);
}

// values[0] off, values[1] on, along a new axis; an index outside gives off.
void one_hot_values(Call& call) {
  const OnnxType type = call.type(2);
  const std::int64_t depth = integers_of(call.host(1)).at(0);
  const int rank = call.rank(0) + 1;
  const int axis = call.axis(call.node().integer("axis", -1), rank);
  const HostArray values = call.host(2);
  Tensor index = call.take(0);
  index = cast(std::move(index), DType::i64);
  index = where(less(index, 0), add(index, depth), index);
  const Tensor classes = arange(call.device(), 0, static_cast<double>(depth), 1, DType::i64);
  const Tensor is_on = equal(unsqueeze(std::move(index), axis), along_axis(classes, rank, axis));
  const DType dtype = dtype_or_refuse(call, type);
  const Tensor off = full(call.device(), {}, real_at(values, 0), dtype);
  const Tensor on = full(call.device(), {}, real_at(values, 1), dtype);
  call.give(where(is_on, on, off), type);
}

void triangle(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t diagonal = call.has(1) ? call.integer(1) : 0;
  Tensor x = call.take(0);
  const bool is_bool = x.dtype() == DType::boolean;
  x = is_bool ? cast(std::move(x), DType::u8) : std::move(x);
  call.give(call.node().integer("upper", 1) != 0 ? triu(std::move(x), diagonal)
                                                 : tril(std::move(x), diagonal),
            type);
}

constexpr OpRow kRows[] = {
    {.op = "ConstantOfShape",
     .since = 9,
     .run = constant_of_shape,
     .on_host = constant_of_shape_on_host,
     .host_inputs = inputs(0)},
    {.op = "Range",
     .since = 11,
     .run = range,
     .on_host = range_on_host,
     .host_inputs = inputs(0, 1, 2)},
    {.op = "EyeLike", .since = 9, .run = eye_like},
    {.op = "OneHot", .since = 9, .run = one_hot_values, .host_inputs = inputs(1, 2)},
    {.op = "Trilu", .since = 14, .run = triangle, .host_inputs = inputs(1)},
};

}  // namespace
}  // namespace creation_ops

std::span<const OpRow> creation_rows() {
  return creation_ops::kRows;
}

}  // namespace hearth::onnx
