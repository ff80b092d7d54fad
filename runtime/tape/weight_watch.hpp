// Looks out for weights that a loss uses and no model names: a layer that was left out of
// HEARTH_MODULE is neither trained, moved nor saved, and nothing else would tell. Private to
// runtime. Threads: one, on which it lives and dies; it watches what that thread submits to its
// current stream of each device. Invariants: (1) every walk that tracks, loads, moves or steps a
// model names its tensors by set_path(); (2) a weight is told of once, when the loss of a second
// value_and_grad uses it: at the first, the model that has it may not have been walked yet.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

class StreamState;

namespace detail {

struct Submission;

class WeightWatch final {
 public:
  /// Of the loss of a model of this name; empty: it has none.
  explicit WeightWatch(std::string_view model);
  WeightWatch(const WeightWatch&) = delete;
  WeightWatch& operator=(const WeightWatch&) = delete;
  ~WeightWatch();

  /// On the devices of these, the model's parameters. Errors: as the ops of the call at `loc`.
  void watch(std::span<const Tensor> leaves, SourceLoc loc);
  /// Writes a warning for a weight among the op's inputs that no model has named: the first of a
  /// model, the tenth, the hundredth.
  void look_at(const Submission& submission) const;

 private:
  void tell(const Submission& submission, const TensorImpl& weight) const;

  const std::string model_;
  const std::uint64_t number_;
  std::vector<std::pair<StreamState*, const WeightWatch*>> before_;  ///< What each stream had.
};

}  // namespace detail

}  // namespace hearth
