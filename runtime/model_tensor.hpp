// Checks of a tensor that a walk through a model visits: it is not empty, and on no tape.
// Header-internal: functions that take a model, from value_and_grad() to save_weights(), refuse an
// empty tensor; those that detach a model from its tape refuse a differentiated one. Stateless.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/tensor.hpp>

namespace hearth::detail {

[[noreturn]] void throw_empty_tensor(std::string_view op, const std::string& path, SourceLoc loc);

/// Checks that the model's tensor is not empty. `op` is the function that the program called.
/// Errors: ArgumentError naming the path.
inline void require_tensor(std::string_view op,
                           const std::string& path,
                           const Tensor& tensor,
                           SourceLoc loc) {
  if (!tensor.is_valid()) [[unlikely]] {
    throw_empty_tensor(op, path, loc);
  }
}

[[noreturn]] void throw_tracked(std::string_view op, const std::string& path, SourceLoc loc);

/// Checks that value_and_grad() does not track the model's tensor: results of `op` are detached
/// from the tape, so the gradient would be lost silently.
/// Errors: ArgumentError naming the path.
inline void require_untracked(std::string_view op,
                              const std::string& path,
                              const Tensor& tensor,
                              SourceLoc loc) {
  if (tensor.is_tracked()) [[unlikely]] {
    throw_tracked(op, path, loc);
  }
}

}  // namespace hearth::detail
