// Elements on the host: conversions to and from tensors and a file's bytes, and the arithmetic that
// keeps each type's range. Stateless. Threads: any.
#pragma once

#include "modules/onnx/file/model_file.hpp"

#include <hearth/modules/onnx_value.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>

#include <cstdint>
#include <vector>

namespace hearth::onnx {

using HostArray = OnnxHostArray;

/// Values with at most this many elements are computed on the host if all inputs are there.
inline constexpr std::int64_t kMostHostElements = 65'536;

/// Rounds or wraps a value as an element of the type stores it.
[[nodiscard]] double stored(double value, OnnxType type) noexcept;
[[nodiscard]] std::int64_t stored(std::int64_t value, OnnxType type) noexcept;

/// An array of integers; of rank 1 if no shape is given.
[[nodiscard]] HostArray host_integers(std::vector<std::int64_t> values,
                                      OnnxType type = OnnxType::i64);
[[nodiscard]] HostArray host_integers(std::vector<std::int64_t> values,
                                      const Shape& shape,
                                      OnnxType type = OnnxType::i64);
[[nodiscard]] HostArray host_reals(std::vector<double> values, const Shape& shape, OnnxType type);
[[nodiscard]] HostArray host_strings(std::vector<std::string> values, const Shape& shape);
/// Whether `type` is held as reals.
[[nodiscard]] inline bool has_reals(const HostArray& array) noexcept {
  return array.elements.index() == 1;
}
[[nodiscard]] inline bool has_strings(const HostArray& array) noexcept {
  return array.elements.index() == 2;
}
/// The element with this number as a double.
[[nodiscard]] double real_at(const HostArray& array, std::size_t i);
/// The elements as integers; reals are truncated.
[[nodiscard]] std::vector<std::int64_t> integers_of(const HostArray& array);
/// The elements as reals.
[[nodiscard]] std::vector<double> reals_of(const HostArray& array);
/// Converts as Cast does: to integers truncated and wrapped, to bool by "not 0".
///
/// Errors: ArgumentError for a string that is no number, and for an unsupported type.
[[nodiscard]] HostArray cast_host(const HostArray& array, OnnxType type);

[[nodiscard]] HostArray host_array_of(const TensorBytes& bytes, OnnxType type);
/// Queues an upload.
///
/// Errors: ArgumentError for strings.
[[nodiscard]] Tensor upload(const HostArray& array, const Device& device, SourceLoc loc);
/// Reads a tensor. Waits.
///
/// Errors: as Tensor::to_vector().
[[nodiscard]] HostArray download(const Tensor& tensor,
                                 OnnxType type,
                                 const WaitOptions& wait,
                                 SourceLoc loc);

}  // namespace hearth::onnx
