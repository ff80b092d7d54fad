// Small helpers that several families of handlers share. Stateless. Threads: any.
#pragma once

#include "modules/onnx/values/op_row.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace hearth::onnx {

[[nodiscard]] inline Sizes sizes_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

/// Checks that the inputs from `first` on have one type. ONNX converts nothing by itself; the
/// library's ops would. Floats may differ, since to_dtype() changes those of weights alone.
inline void require_one_type(const Call& call, std::size_t first = 0) {
  for (std::size_t i = first + 1; i < call.count(); ++i) {
    const bool is_alike =
        call.type(i) == call.type(first) || (is_float(call.type(i)) && is_float(call.type(first)));
    if (call.has(i) && !is_alike) {
      call.refuse("input {} is {}, input {} is {}; the op needs one type",
                  first,
                  name(call.type(first)),
                  i,
                  name(call.type(i)));
    }
  }
}

/// A vector under the shape [.., n, 1, ..] that broadcasts along one axis of a tensor of this rank.
[[nodiscard]] inline Tensor along_axis(Tensor vector, int rank, int axis) {
  Sizes sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(axis)] = vector.element_count();
  return reshape(std::move(vector), sizes);
}

/// Numbers from the host as a tensor of rank 1 and a float type.
[[nodiscard]] inline Tensor vector_of(const Call& call,
                                      const std::vector<double>& values,
                                      DType dtype) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return upload(cast_host(host_reals(values, shape, OnnxType::f64), onnx_type_of(dtype)),
                call.device(),
                call.context().loc);
}

/// Positions from the host as a tensor of rank 1.
[[nodiscard]] inline Tensor positions_of(const Call& call, const Sizes& values) {
  return Tensor::from(
      call.device(), values, Shape{static_cast<std::int64_t>(values.size())}, call.context().loc);
}

/// Input i, for ops that broadcast by attributes before opset 7: with `broadcast`, its axes start
/// at axis `axis` of input 0, or end with it.
[[nodiscard]] inline Tensor operand(Call& call, std::size_t i) {
  const std::int64_t axis = call.node().integer("axis", -1);
  if (call.opset() >= 7 || call.node().integer("broadcast", 0) == 0 || axis < 0 || i == 0) {
    return call.take(i);
  }
  Sizes sizes = sizes_of(call.shape(i));
  const std::int64_t behind = call.rank(0) - axis - static_cast<std::int64_t>(sizes.size());
  if (behind < 0) {
    call.refuse("axis {} leaves no room for {} in {}",
                axis,
                call.shape(i).to_string(),
                call.shape(0).to_string());
  }
  sizes.resize(sizes.size() + static_cast<std::size_t>(behind), 1);
  return reshape(call.take(i), sizes);
}

/// Casts f16 and bf16 to f32; other floats unchanged.
[[nodiscard]] inline Tensor widened(Tensor x) {
  const DType dtype = x.dtype();
  return dtype == DType::f16 || dtype == DType::bf16 ? cast(std::move(x), DType::f32)
                                                     : std::move(x);
}
/// As widened(), also for integers and bools.
[[nodiscard]] inline Tensor as_float(Tensor x) {
  return is_float(x.dtype()) ? widened(std::move(x)) : cast(std::move(x), DType::f32);
}

}  // namespace hearth::onnx
