// Looks out for what a loss uses of a model and HEARTH_MODULE does not name: a layer or a tensor
// that was left out is neither trained, moved nor saved, and nothing else would tell. Private to
// runtime. Threads: one, on which it lives and dies; it watches what that thread submits to its
// current stream of each device. Invariants: (1) every walk that tracks, loads, moves or steps a
// model names its tensors by set_path(); (2) a weight that lies elsewhere is told of once, when the
// loss of a second value_and_grad uses it: at the first, the model that has it may not have been
// walked yet; (3) a tensor that lies in the model, where the walk has named all there is, needs no
// second use.
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

  /// On the devices of these, the model's parameters. Errors: as the ops of the call at `loc`.
  void watch(std::span<const Tensor> leaves, SourceLoc loc);
  /// Writes a warning for a weight among the op's inputs that no model has named, and for one that
  /// lies in the model without a name: the first of a model, the tenth, the hundredth.
  void look_at(const Submission& submission) const;
  /// Why an operand may be on another device than the model: it is a member that the model does not
  /// name. Empty where it is none.
  [[nodiscard]] std::string explain(const Tensor& operand) const;

 private:
  /// Whether the tensor is a member of the model, or of a module in it, that the walk has not
  /// named.
  [[nodiscard]] bool is_unnamed_member(const Tensor& tensor) const noexcept;
  void tell(const Submission& submission, const TensorImpl& weight, bool is_member) const;

  ModelPlaces model_;
  const std::uint64_t number_;
  std::vector<std::pair<StreamState*, const WeightWatch*>> before_;  ///< What each stream had.
};

}  // namespace detail

}  // namespace hearth
