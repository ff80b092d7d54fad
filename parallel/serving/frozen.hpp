// Frozen<Model>: a model whose weights no longer change, for inference by many threads at once.
// Every stream of the device reads the same weights without a copy, a lock, or a wait for another
// stream. A request writes nothing that another request reads. A value: a copy shares the weights.
// Threads: any number may use one Frozen at once.
// Invariant: all weights are present and lie on one device.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/named_tensor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/freeze_tensor.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

namespace detail {
/// Freezes the weights of a model one by one: detaches them from their tapes, freezes them, and
/// waits for them.
class Freezing {
 public:
  /// Errors: ArgumentError, naming the path, for an empty tensor or one on another device than the
  /// first.
  void take(const std::string& path, Tensor& tensor, SourceLoc loc);
  /// Errors: ArgumentError without a tensor; DeviceError when a weight is poisoned;
  /// DeadlineExceeded.
  [[nodiscard]] Device finish(SourceLoc loc);

 private:
  Device device_;
  std::vector<Pending<std::vector<std::byte>>> corners_;  // one element of each weight
};
/// Errors: ArgumentError naming the first tensor that only one list has, or whose shape or type
/// differs.
void require_alike(const std::vector<NamedTensor>& served,
                   const std::vector<NamedTensor>& next,
                   SourceLoc loc);
}  // namespace detail

/// Rejects a model that is no Module, with a readable message.
template <class Model>
class Frozen {
  static_assert(detail::refuse_no_module<Model>());
};
template <Module Model>
class Frozen<Model>;
template <Module Model>
[[nodiscard]] Frozen<Model> freeze(const Model& model, SourceLoc loc = SourceLoc::current());

template <Module Model>
class Frozen<Model> {
 public:
  [[nodiscard]] const Model& operator*() const noexcept { return model_; }
  [[nodiscard]] const Model* operator->() const noexcept { return &model_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  template <Module Other>
  friend Frozen<Other> freeze(const Other& model, SourceLoc loc);
  Frozen(Model model, Device device) : model_(std::move(model)), device_(std::move(device)) {}

  Model model_;
  Device device_;
};

/// Freezes the model's current weights for use by any number of threads. The weights are shared
/// with `model`, not copied. When `model` is trained further, its weights move to memory of their
/// own, and the frozen ones stay. For another device: freeze(fork(model, device)).
///
/// Errors: ArgumentError when the model has no tensor, an empty one, or tensors on several devices;
/// DeviceError when a weight is poisoned.
/// Threads: the model's owner; waits until the weights are computed.
/// Cost: one record and one element read back for each weight.
template <Module Model>
[[nodiscard]] Frozen<Model> freeze(const Model& model, SourceLoc loc) {
  Model copy = model;
  detail::Freezing freezing;
  for (const TensorRef& ref : tensor_refs(copy)) {
    const detail::SoleName sole(ref);
    freezing.take(ref.path, *ref.tensor, loc);
  }
  Device device = freezing.finish(loc);
  return Frozen<Model>(std::move(copy), std::move(device));
}

// Rejects a type that is no Module, with a readable message.
template <class Model>
requires(!Module<Model>) Frozen<Model> freeze(const Model& /*model*/) {
  static_assert(detail::refuse_no_module<Model>());
  return {};
}

}  // namespace hearth
