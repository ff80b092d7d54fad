// Buffer: a tensor that a module keeps but does not train: a running mean, a mask, a table. It is
// saved, loaded, moved and forked with the module's parameters. value_and_grad does not
// differentiate it; optimizers and parameter_count() skip it. A value, like Tensor. Threads: as
// Tensor.
// Invariant: every function treats it as a Tensor; only a walk over a module distinguishes it.
#pragma once

#include <utility>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// A member of a module that is saved with it but not trained.
///
///   struct Scaled {
///     hearth::Tensor weight;
///     hearth::Buffer mean;
///     HEARTH_MODULE(Scaled, weight, mean)
///   };
///
/// A loss function receives its model const. It updates a Buffer with
/// current_state_updates().blend(), or returns new values, which the program assigns (DataParallel:
/// in update_replicas()).
class Buffer final : public Tensor {
 public:
  Buffer() noexcept = default;
  Buffer(Tensor tensor) noexcept  // NOLINT(google-explicit-constructor)
      : Tensor(std::move(tensor)) {}
};

}  // namespace hearth
