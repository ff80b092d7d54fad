// UpdateGroup: the optimizer's ops of one step, all or nothing.
// The actor checks all inputs and allocates all memory before the first op runs. If any gradient is
// poisoned, no op of the group runs, parameters and state keep their values, and the Pending
// carries the first error. If an op fails after that, the values that the group has overwritten are
// lost. Every tensor that the group replaces then carries the error, so that no half step is used.
// On an asynchronous device whose kernels may still fail, the device makes this decision, so that
// the host does not wait. Such a device refuses a group with an op that may fail while it runs
// (unsupported, by the Pending).
// A group may have a condition (when()), which the device evaluates. The Pending then does not show
// whether the parameters moved; a read of the condition does.
// Threads: the thread whose stream owns the parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/prepared_update.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/update_counts.hpp>
#include <hearth/runtime/update_rule.hpp>

namespace hearth {

class StreamState;
struct OpenGroup;
class UpdateGroup;

struct SgdUpdate {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first =
      false;  ///< First update of this parameter: the momentum buffer starts as the gradient.
  /// Number of earlier updates of the parameter, in place of `first`, if the device counts
  /// (update_counts.hpp). Lifetime: until the end of the call.
  const Tensor* count = nullptr;
};
struct AdamUpdate {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  std::int64_t step = 1;  ///< Number of this update, from 1.
  /// Factors that replace `step`, and the rate except for the decay, if the device counts.
  /// Lifetime: until the end of the call.
  const AdamFactors* factors = nullptr;
};

/// Part of a group in one step of several devices.
struct JointUpdate {
  /// The shared decision; nullptr: the group runs on its own.
  std::shared_ptr<UpdateDecision> decision = nullptr;
  /// Called on the device's loop when the group is ready and waits, or with the error that prevents
  /// it (then it has aborted). Not called if the decision was there first. It must only pass its
  /// argument on.
  UniqueFunction<void(Result<PreparedUpdate> prepared)> prepared = {};
  Deadline deadline = Deadline::never();  ///< When the group aborts on its own.
  /// Condition of an optimizer's updates, of `more`, and of the step's count, as
  /// UpdateGroup::when() takes it. Empty: none.
  Tensor when = {};
  /// Called when the group is open and has no condition yet: adds ops that run whether or not the
  /// condition holds.
  UniqueFunction<void(UpdateGroup& group)> before = {};
  /// Called when the group is otherwise complete: adds ops that run with it or not at all.
  UniqueFunction<void(UpdateGroup& group)> more = {};
};

class UpdateGroup {
 public:
  /// Opens a group on the calling thread's stream of `device`. Its results exist only after
  /// commit(): an op on that stream that uses or reads one is refused.
  /// Errors: ArgumentError if another group is open on that stream.
  explicit UpdateGroup(const Device& device, SourceLoc loc = SourceLoc::current());
  UpdateGroup(const UpdateGroup&) = delete;
  UpdateGroup& operator=(const UpdateGroup&) = delete;
  /// Discards the group if commit() was not called.
  ~UpdateGroup();

  /// Makes the updates that follow conditional. If `condition` is 0, false or NaN, they keep the
  /// old bits of every tensor that they replace, whatever the gradients hold. The device decides,
  /// in the updates' own kernels; the host does not wait. The Pending reports success in both
  /// cases. A second call replaces the condition for the updates after it.
  ///
  /// Shapes: one element. Dtypes: bool, or a number.
  /// Errors: ShapeError for another number of elements; DeviceMismatch, and ArgumentError if this
  /// group makes the tensor or is not open, as below. A poisoned condition fails the group.
  void when(const Tensor& condition);
  /// Replaces `parameter` (and `momentum`, which may be empty if update.momentum is 0) by the
  /// updated tensors; in place if no other copies exist.
  ///
  /// Dtypes: f16 and bf16 parameters have f32 state and f32 computation. A 16-bit state is accepted
  /// once, and replaced by an f32 one. A gradient has the parameter's type or f32.
  /// Errors: ShapeError, DtypeError if the tensors do not fit; DeviceMismatch for a tensor of
  /// another device; ArgumentError if this group has already made one of them (a parameter is
  /// updated once a step); ArgumentError if the group was committed, or was opened on another
  /// stream than the thread's current one. The functions below have the same errors.
  void sgd(Tensor& parameter, Tensor gradient, Tensor& momentum, const SgdUpdate& update);
  void adam(
      Tensor& parameter, Tensor gradient, Tensor& mean, Tensor& variance, const AdamUpdate& update);
  /// Increments a count; call it after the updates that it counts. Errors: also ArgumentError for a
  /// tensor that is no count (update_counts.hpp).
  void count(Tensor& updates);
  /// Applies an update rule of your own. Each tensor of `state` is replaced like the parameter.
  /// `inputs` are read only. Each has the parameter's shape, or [] for one number.
  /// Errors: also those of UpdateRule::expression(); ArgumentError for another number of states,
  /// scalars or inputs than the rule has.
  void update(UpdateRule& rule,
              Tensor& parameter,
              Tensor gradient,
              std::span<Tensor* const> state,
              std::span<const double> scalars,
              std::span<const Tensor> inputs = {});
  /// Closes the group. The Pending is ready when the step is done, or carries the reason why it was
  /// not.
  /// Errors: ArgumentError if it was already committed, or was opened on another stream than the
  /// thread's current one.
  [[nodiscard]] Pending<void> commit();
  /// Closes the group, for callers that fulfil promises of their own. The actor calls `finish` with
  /// nullptr when the step is done, else with the error. `finish` runs on the device's loop and
  /// must not block; it is destroyed uncalled if the commit itself throws. With `joint`, the group
  /// is prepared and then waits for its decision; later work of this stream waits too.
  /// Errors: those of commit(); ArgumentError for a decision without `prepared`; exceptions of
  /// `joint.more`.
  void commit(UniqueFunction<void(ErrorRef error)> finish, JointUpdate joint = {});
  /// Options for those promises: their readers may run the device's loop meanwhile, as with
  /// commit().
  [[nodiscard]] PendingOptions pending_options() const;

 private:
  /// The stream that the group is open on. Errors: ArgumentError if that is not the thread's
  /// current one, or the group was committed.
  StreamState& require_open() const;
  void require_outside(std::string_view op, const Tensor& tensor, const char* what) const;
  void require_fit(std::string_view op,
                   const Tensor& parameter,
                   const Tensor& other,
                   const char* what) const;
  void require_input(std::string_view op, const Tensor& parameter, const Tensor& input) const;

  Device device_;
  SourceLoc loc_;
  std::shared_ptr<OpenGroup> open_;  ///< Shared with its stream; nullptr after commit().
  Tensor condition_;                 ///< bool[]; empty: the updates have none.
};

}  // namespace hearth
