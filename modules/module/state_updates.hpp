// StateUpdates: pending changes to a model's Buffers from a forward pass in training, such as the
// running statistics of BatchNorm2d. A loss function sees its model const, so the changes wait here
// until the program commits them.
//
//   hearth::StateUpdates updates;
//   const hearth::StateScope scope(updates);
//   auto [loss, gradients] = hearth::value_and_grad(model, …);  // layers use the scope
//   auto report = optimizer.step(model, std::move(gradients));
//   auto running = updates.commit(model);
//
// DataParallel and Trainer do this themselves, and commit the mean over their ranks.
// Owned by the training loop. Threads: one at a time; a scope is created and destroyed on one
// thread.
// Invariants: (1) a commit is atomic: if the forward pass failed, all buffers keep their values;
// (2) nothing is pending after a commit or clear().
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

class UpdateGroup;

/// Returns a mutable reference to each Buffer of a module, in visit order.
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

/// Makes a Buffer for a running statistic, which changes little in each step. It is f32 if `values`
/// has 16 bits, and stays f32 in to_dtype(): 16 bits lose a change below 1/250 of the value.
/// load_weights() widens 16-bit statistics of a file.
[[nodiscard]] Buffer running_statistic(const Tensor& values, SourceLoc loc = SourceLoc::current());

class StateUpdates final {
 public:
  StateUpdates();
  StateUpdates(const StateUpdates&) = delete;
  StateUpdates& operator=(const StateUpdates&) = delete;
  ~StateUpdates() = default;

  /// Queues a move of the buffer by `share` of the distance to `value`. For layers. Several moves
  /// of one buffer are applied in order. A frozen buffer is not changed.
  ///
  /// Errors: ShapeError and DtypeError if the value does not match the buffer; ArgumentError for a
  /// share outside [0, 1].
  void blend(const Buffer& buffer,
             const Tensor& value,
             double share,
             SourceLoc loc = SourceLoc::current());

  /// Number of buffers with pending updates.
  [[nodiscard]] std::size_t size() const noexcept { return updates_.size(); }
  /// Drops all pending updates, for a step that must not count.
  void clear() noexcept { updates_.clear(); }

  /// Applies the pending updates to the model's buffers, on the calling thread's stream. The
  /// Pending becomes ready when they are applied. If it carries an error, the buffers kept their
  /// values.
  ///
  /// Errors: ArgumentError for an update of a buffer that the model lacks (it belongs to another
  /// model or to a fork); ArgumentError for a buffer that it holds twice (its layer was copied:
  /// fork() each copy); DeviceMismatch when the buffers are on several devices. On an error nothing
  /// is applied and all updates stay pending.
  template <Module Model>
  Pending<void> commit(Model& model, SourceLoc loc = SourceLoc::current()) {
    return commit_to(buffer_refs(model), loc);
  }

  /// Adds the pending updates to a group: they happen with its other updates and under its
  /// condition, or not at all. Clears them.
  ///
  /// Errors: those of commit(); DeviceMismatch when a buffer is on another device than the group.
  void add_to(UpdateGroup& group,
              const std::vector<TensorRef>& buffers,
              SourceLoc loc = SourceLoc::current());

  /// Returns each buffer's pending change, times `factor`, in the order of `buffers`; an empty
  /// tensor where none is pending. For trainers. Clears the pending updates.
  ///
  /// Errors: ArgumentError as commit(), or for a buffer that is not of floats.
  [[nodiscard]] std::vector<Tensor> take_moves(const std::vector<TensorRef>& buffers,
                                               double factor,
                                               SourceLoc loc = SourceLoc::current());

 private:
  struct Update {
    Tensor buffer;  // the original value; its identity names the buffer
    Tensor value;
    double share = 0;
  };

  Pending<void> commit_to(const std::vector<TensorRef>& buffers, SourceLoc loc);
  /// By update, its buffer among these. Errors: those of commit().
  [[nodiscard]] std::vector<const TensorRef*> owners_among(const std::vector<TensorRef>& buffers,
                                                           SourceLoc loc) const;

  std::vector<Update> updates_;  // one per buffer
  UpdateRule rule_;
};

/// Makes `updates` current for layers on the calling thread until the scope ends. Scopes nest. The
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

/// The updates of the calling thread's innermost scope.
///
/// Errors: ArgumentError naming `user`, outside of any scope.
[[nodiscard]] StateUpdates& current_state_updates(std::string_view user,
                                                  SourceLoc loc = SourceLoc::current());

}  // namespace hearth
