// Walks over elements on the host: broadcasting, strides, and selections along axes.
// Stateless. Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace hearth::onnx {

/// For each element of `target` in row-major order, the number of the element of `from` that
/// broadcasts to it. Requires that `from` broadcasts to `target`.
[[nodiscard]] std::vector<std::size_t> broadcast_places(const Shape& from, const Shape& target);

/// The array with these elements, by their numbers, under another shape.
[[nodiscard]] HostArray selected(const HostArray& from,
                                 const std::vector<std::size_t>& places,
                                 const Shape& shape);

/// Applies a function to each element. `real` is for floats; integers are wrapped to their type.
using UnaryOnReal = double (*)(double);
using UnaryOnInteger = std::int64_t (*)(std::int64_t);
/// Gives the results of input 0. A null function: the type is refused (returns false).
[[nodiscard]] bool unary_on_host(Call& call, UnaryOnReal real, UnaryOnInteger integer);

using BinaryOnReal = double (*)(double, double);
using BinaryOnInteger = std::int64_t (*)(std::int64_t, std::int64_t);
/// Combines two arrays element by element, as elements of `type`.
[[nodiscard]] HostArray combined(const HostArray& a,
                                 const HostArray& b,
                                 OnnxType type,
                                 BinaryOnReal real,
                                 BinaryOnInteger integer);
/// The shape to which the inputs broadcast.
///
/// Errors: ArgumentError if they do not.
[[nodiscard]] Shape broadcast_shape(const Shape& a, const Shape& b);

}  // namespace hearth::onnx
