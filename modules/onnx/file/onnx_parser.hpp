// Parses the messages of ONNX files. Stateless. Threads: any.
// Invariant: memory and stack have limits whatever the bytes are: graphs nest at most kMostNesting
// deep, and a file has at most kMostMessages messages.
#pragma once

#include "modules/onnx/file/onnx_proto.hpp"

#include <cstddef>
#include <span>

namespace hearth::onnx {

inline constexpr int kMostNesting = 32;
inline constexpr std::size_t kMostMessages = 1'000'000;

/// Parses a model.
///
/// Errors: FileError bad_format, with the broken rule and its values.
[[nodiscard]] ModelProto parse_model(std::span<const std::byte> file);
/// Parses one tensor, as the files beside test cases hold it.
///
/// Errors: as parse_model().
[[nodiscard]] TensorProto parse_tensor(std::span<const std::byte> file);
/// Parses a sequence of tensors.
///
/// Errors: as parse_model(); bad_format for a sequence of anything else.
[[nodiscard]] std::vector<TensorProto> parse_sequence(std::span<const std::byte> file);
/// An optional: nothing, one tensor, or a sequence of tensors.
struct OptionalProto {
  std::vector<TensorProto> tensors = {};
  bool is_sequence = false;
};
/// Parses an optional. Errors: as parse_sequence().
[[nodiscard]] OptionalProto parse_optional(std::span<const std::byte> file);

}  // namespace hearth::onnx
