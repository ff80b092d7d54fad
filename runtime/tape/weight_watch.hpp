// WeightWatch: warns of tensors that a loss uses but HEARTH_MODULE does not name: an omitted layer
// or tensor is silently not trained, moved or saved. Private to runtime.
// Threads: one, on which it lives and dies; it watches that thread's submissions to its current
// stream of each device.
// Invariants: (1) every walk that tracks, loads, moves or steps a model names its tensors by
// set_path(); (2) an unnamed weight outside the model is reported once, when the loss of a second
// value_and_grad uses it. At the first, its own model may not have been walked yet; (3) an unnamed
// tensor inside the model is reported at its first use, since the walk has named all others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

class StreamState;

namespace detail {

struct Submission;

class WeightWatch final {
 public:
  /// Watches the loss of this model.
  explicit WeightWatch(ModelPlaces model);
  WeightWatch(const WeightWatch&) = delete;
  WeightWatch& operator=(const WeightWatch&) = delete;
  ~WeightWatch();

  /// Starts to watch the devices of `leaves`, the model's parameters. Errors: as the ops of the
  /// call at `loc`.
  void watch(std::span<const Tensor> leaves, SourceLoc loc);
  /// Logs a warning for an input that is an unnamed weight or an unnamed member of the model. Of
  /// each model's warnings it logs the first, the tenth, the hundredth and so on.
  void inspect(const Submission& submission) const;
  /// Explains an operand on another device than the model: it is a member that the model does not
  /// name. Empty if it is no such member.
  [[nodiscard]] std::string explain(const Tensor& operand) const;

 private:
  /// Returns whether the tensor is a member of the model, or of a module in it, that the walk has
  /// not named.
  [[nodiscard]] bool is_unnamed_member(const Tensor& tensor) const noexcept;
  void report(const Submission& submission, const TensorImpl& weight, bool is_member) const;

  ModelPlaces model_;
  const std::uint64_t number_;
  /// the previous watch of each stream
  std::vector<std::pair<StreamState*, const WeightWatch*>> before_;
};

}  // namespace detail

}  // namespace hearth
