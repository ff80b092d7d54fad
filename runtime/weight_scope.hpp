// WeightScope: marks tensors made while it is open as long-lived: parameters and optimizer state.
// The device allocates them apart from temporaries, so that they never fragment the memory of a
// step. Layers, optimizers, fork() and load_weights() open one; so does a module of your own around
// the lines that make its parameters:
//
//   const hearth::WeightScope weights(device);
//   scale = hearth::ones(device, {width});
//
// Threads: a scope lives and dies on one thread, and holds for that thread's current stream of the
// device. Scopes nest.
// Invariant: only the place of results changes, never their values.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

class StreamState;

class WeightScope final {
 public:
  /// Errors: DeviceError device_closed.
  explicit WeightScope(const Device& device);
  WeightScope(const WeightScope&) = delete;
  WeightScope& operator=(const WeightScope&) = delete;
  ~WeightScope();

 private:
  StreamState* stream_;
  std::uint16_t previous_flags_;
};

}  // namespace hearth
