// StateUpdates: what a forward pass in training wants to change in a model's Buffers: the running
// statistics of BatchNorm2d. A loss function sees its model const, so the changes wait here beside
// the gradients until the program commits them.
//
//   hearth::StateUpdates updates;
//   const hearth::StateScope scope(updates);
//   auto [loss, gradients] = hearth::value_and_grad(model, …);  // its layers find the scope
//   auto report = optimizer.step(model, std::move(gradients));
//   auto running = updates.commit(model);
//
// DataParallel and Trainer do all this by themselves, and commit the mean over their ranks.
// Owned by the training loop. Threads: one at a time; a scope lives and dies on one thread.
// Invariants: (1) a commit happens whole or not at all: should the pass have failed, the buffers
// keep their values; (2) after a commit, and after clear(), nothing waits.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/update_rule.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hearth {

/// The Buffers of a module, in visit order.
template <Module Model>
[[nodiscard]] std::vector<TensorRef> buffer_refs(Model& model) {
  std::vector<TensorRef> all;
  model.visit("", [&]<class Part>(const std::string& path, Part& tensor) {
    if constexpr (std::is_same_v<Part, Buffer>) {
      all.push_back({.path = path, .tensor = &tensor});
    }
  });
  return all;
}

/// A Buffer for values that move a little in each step, running statistics. It is f32 where
/// `values` have 16 bits, and stays so in to_dtype(): 16 bits lose a change below a 250th of what
/// is there. load_weights() widens those of a file that has 16 bits.
[[nodiscard]] Buffer running_statistic(const Tensor& values, SourceLoc loc = SourceLoc::current());

class StateUpdates final {
 public:
  StateUpdates();
  StateUpdates(const StateUpdates&) = delete;
  StateUpdates& operator=(const StateUpdates&) = delete;
  ~StateUpdates() = default;

  /// For layers: the buffer is to move by `share` of the way to `value`. Several moves of one
  /// buffer follow one another. A frozen buffer stays.
  ///
  /// Errors: ShapeError and DtypeError when the value is not like the buffer; ArgumentError for a
  /// share outside of 0 to 1.
  void blend(const Buffer& buffer,
             const Tensor& value,
             double share,
             SourceLoc loc = SourceLoc::current());

  /// How many buffers have updates that wait.
  [[nodiscard]] std::size_t size() const noexcept { return updates_.size(); }
  /// Drops those that wait: of a step that is not to count.
  void clear() noexcept { updates_.clear(); }

  /// Gives the model's buffers what waits for them, on the calling thread's stream. The Pending is
  /// ready when that is done, or carries why it was not: the buffers keep their values then.
  ///
  /// Errors: ArgumentError for an update of a buffer that the model does not have (it is of another
  /// model, or of a fork of this one) or has twice (its layer was copied: fork() each);
  /// DeviceMismatch when the buffers are on several devices. Then none is made, and all still wait.
  template <Module Model>
  Pending<void> commit(Model& model, SourceLoc loc = SourceLoc::current()) {
    return commit_to(buffer_refs(model), loc);
  }

  /// For trainers: how far each of these buffers is to move, times `factor`, in their order; an
  /// empty tensor where nothing waits. Nothing waits then.
  ///
  /// Errors: ArgumentError as commit(), or for a buffer that is not of floats.
  [[nodiscard]] std::vector<Tensor> take_moves(const std::vector<TensorRef>& buffers,
                                               double factor,
                                               SourceLoc loc = SourceLoc::current());

 private:
  struct Update {
    Tensor buffer;  // as it was, which tells whose update it is
    Tensor value;
    double share = 0;
  };

  Pending<void> commit_to(const std::vector<TensorRef>& buffers, SourceLoc loc);

  std::vector<Update> updates_;  // one a buffer
  UpdateRule rule_;
};

/// Makes `updates` what layers on the calling thread find, until the scope ends. Scopes nest; the
/// updates outlive the scope.
class [[nodiscard]] StateScope final {
 public:
  explicit StateScope(StateUpdates& updates);
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;
  ~StateScope();

 private:
  StateUpdates* previous_;
};

/// Those of the calling thread's innermost scope.
///
/// Errors: ArgumentError outside of any scope, naming `user`.
[[nodiscard]] StateUpdates& current_state_updates(std::string_view user,
                                                  SourceLoc loc = SourceLoc::current());

}  // namespace hearth
