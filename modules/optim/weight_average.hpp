// WeightAverage: exponential moving average (EMA) of a model's weights over the steps of a
// training. It often predicts better than the weights of the last step.
// Owned by the training loop. It is a module itself, so it can be saved, forked and handed over.
// Threads: the one whose stream owns the model.
// Invariant: after n updates with weights w1 … wn it holds the sum of decay^(n-i)·wi, divided by
// the sum of the decay^(n-i). After one update these are the weights themselves.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/base/move_mark.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hearth {

/// Averages a model's weights:
///
///   hearth::WeightAverage average(0.999);
///   ...                                            // after each step:
///   average.update(model);
///   ...                                            // at the end:
///   save_weights(average.applied_to(model), "averaged.safetensors");
///
/// Dtypes: floats; averages of f16 and bf16 weights are f32. Integer tensors, and tensors frozen
/// since the first update, are taken from the model.
/// Cost: memory for one copy of the weights; an update reads both and writes one.
/// Paper: Polyak, Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control
/// Optim. 30 (1992); decay and its correction: Kingma, Ba, Adam, arXiv:1412.6980.
class WeightAverage final {
 public:
  static constexpr std::string_view module_name() noexcept { return "WeightAverage"; }

  /// Errors: ArgumentError when the decay is not in [0, 1).
  explicit WeightAverage(double decay, SourceLoc loc = SourceLoc::current());

  // Overloads for types that are no modules: each fails with a readable static_assert.
  template <class Model>
  requires(!Module<Model> &&
           !std::convertible_to<Model&, std::span<const TensorRef>>) void update(Model& /*model*/) {
    static_assert(detail::refuse_no_module<Model>());
  }
  template <class Model>
  requires(!Module<Model>) [[nodiscard]] Model applied_to(const Model& model) const {
    static_assert(detail::refuse_no_module<Model>());
    return model;
  }

  /// Adds the current weights to the average; queued on the calling thread's stream.
  ///
  /// Errors: ArgumentError when the model's parameters differ from those of the update before.
  template <Module Model>
  void update(Model& model, SourceLoc loc = SourceLoc::current()) {
    update(parameter_refs(model), loc);
  }
  void update(std::span<const TensorRef> parameters, SourceLoc loc = SourceLoc::current());

  /// Returns the model with averaged weights in its own dtypes; Buffers are the model's. The result
  /// shares values with both. Before the first update it equals the model.
  template <Module Model>
  [[nodiscard]] Model applied_to(const Model& model, SourceLoc loc = SourceLoc::current()) const {
    Model averaged = model;
    apply_to(parameter_refs(averaged), loc);
    return averaged;
  }
  /// Replaces these parameters by their averages.
  void apply_to(std::span<const TensorRef> parameters, SourceLoc loc = SourceLoc::current()) const;

  [[nodiscard]] double decay() const noexcept { return decay_; }
  [[nodiscard]] std::int64_t update_count() const noexcept { return update_count_; }
  /// Creates the tensors that update() would create. To load an average, call prepare(), load the
  /// tensors, then call set_update_count().
  void prepare(std::span<const TensorRef> parameters, SourceLoc loc = SourceLoc::current());
  /// Sets the number of updates, after loading.
  ///
  /// Errors: ArgumentError for a count below 0.
  void set_update_count(std::int64_t count, SourceLoc loc = SourceLoc::current());

  /// Visits the averages under the parameters' paths.
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    visit_tensors(*this, prefix, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    visit_tensors(*this, prefix, fn);
  }

 private:
  template <class Self, class Fn>
  static void visit_tensors(Self& self, const std::string& prefix, Fn& fn) {
    for (std::size_t i = 0; i < self.tensors_.size(); ++i) {
      if (self.tensors_[i].is_valid()) {
        fn(detail::join_path(prefix, self.paths_[i]), self.tensors_[i]);
      }
    }
  }
  /// Checks that the average was not moved from.
  ///
  /// Errors: ArgumentError otherwise.
  void require_there(SourceLoc loc) const;
  void require_same(std::span<const TensorRef> parameters, SourceLoc loc) const;

  double decay_;
  std::int64_t update_count_ = 0;
  std::vector<std::string> paths_;
  detail::MoveMark mark_;
  std::vector<Tensor> tensors_;  ///< By parameter; empty where it is not trained.
};

}  // namespace hearth
