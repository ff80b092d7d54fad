// A tensor that a walk through a model has come to: whether it is there, and on no tape.
// Header-internal: functions that take a model, from value_and_grad() to save_weights(), refuse one
// that lacks a tensor; those that cut a model from its tape refuse one that is differentiated.
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

[[noreturn]] void throw_tracked(std::string_view op, const std::string& path, SourceLoc loc);

/// Errors: ArgumentError naming the path, when value_and_grad() tracks the model's tensor: what
/// `op` makes of it is cut from the tape, and its gradient would be lost without a word.
inline void require_untracked(std::string_view op,
                              const std::string& path,
                              const Tensor& tensor,
                              SourceLoc loc) {
  if (tensor.is_tracked()) [[unlikely]] {
    throw_tracked(op, path, loc);
  }
}

}  // namespace hearth::detail
