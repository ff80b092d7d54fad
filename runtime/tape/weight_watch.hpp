// Looks out for weights that a loss uses and its model does not name: a layer that was left out of
// HEARTH_MODULE is neither trained, moved nor saved, and nothing else would tell. Private to
// runtime. Threads: one, on which it lives and dies; it watches what that thread submits to its
// current stream of each device. Invariant: every walk that tracks, loads, moves or steps a
// model names its tensors by set_path(), so what none has named is no model's.
#pragma once

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
  /// On the devices of `leaves`, the parameters of a model of this name; empty: it has none.
  WeightWatch(std::string_view model, std::span<const Tensor> leaves);
  WeightWatch(const WeightWatch&) = delete;
  WeightWatch& operator=(const WeightWatch&) = delete;
  ~WeightWatch();

  /// Writes a warning for each input of the op that is a weight which no model has named: the first
  /// time, the tenth, the hundredth.
  void look_at(const Submission& submission) const;

 private:
  std::string model_;
  std::vector<std::pair<StreamState*, const WeightWatch*>> before_;  ///< What each stream had.
};

}  // namespace detail

}  // namespace hearth
