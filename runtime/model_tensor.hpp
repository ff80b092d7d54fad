// A tensor that a walk through a model has come to: whether it is there. Header-internal: what
// takes a model, from value_and_grad() to save_weights(), refuses one that lacks a tensor with it.
// Stateless. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/tensor.hpp>

namespace hearth::detail {

[[noreturn]] void throw_empty_tensor(std::string_view op, const std::string& path, SourceLoc loc);

/// Errors: ArgumentError naming the path, when the model's tensor is empty. `op` is what the
/// program called.
inline void require_tensor(std::string_view op,
                           const std::string& path,
                           const Tensor& tensor,
                           SourceLoc loc) {
  if (!tensor.is_valid()) [[unlikely]] {
    throw_empty_tensor(op, path, loc);
  }
}

}  // namespace hearth::detail
