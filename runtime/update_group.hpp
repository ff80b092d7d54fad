// An update group: the optimizer's ops of one step, all or nothing.
// The actor checks all inputs and takes all memory before the first op runs; if any gradient is
// poisoned, nothing in it runs, parameters and state keep their values, and the Pending carries the
// first error. Should an op fail although all was prepared, what the group has overwritten is lost:
// all that it replaces carries the error then, so that nobody goes on with half a step. A device
// that answers later decides that by itself where kernels may still fail, so that nothing waits for
// them; an op that may fail while it runs is refused in a group there (unsupported, with the
// Pending). Threads: the thread whose stream owns the parameters.
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
      false;  ///< The first update of this parameter: the momentum buffer starts as the gradient.
  /// In place of `first` where the device counts: how many updates the parameter has had
  /// (update_counts.hpp). Lifetime: up to the end of the call.
  const Tensor* count = nullptr;
};
struct AdamUpdate {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  std::int64_t step = 1;  ///< From 1.
  /// In place of `step`, and of the rate but for the decay, where the device counts. Lifetime: as
  /// SgdUpdate::count.
  const AdamFactors* factors = nullptr;
};

/// How a group takes part in one step of several devices.
struct JointUpdate {
  std::shared_ptr<UpdateDecision> decision = nullptr;  ///< nullptr: it happens by itself.
  /// Hears on the device's loop that the group can run and waits, or why it cannot (then it has
  /// said no); nothing when the decision was there first. It must only hand this on.
  UniqueFunction<void(Result<PreparedUpdate> prepared)> prepared = {};
  Deadline deadline = Deadline::never();  ///< When the group says no by itself.
  /// Called when the group is complete but for this: adds what is to happen with it or not at all.
  UniqueFunction<void(UpdateGroup& group)> more = {};
};

class UpdateGroup {
 public:
  /// Opens a group on the calling thread's stream of `device`. Until commit() its results are not
  /// there: an op on that stream that takes one, or reads it, is refused. Errors: ArgumentError
  /// when another group is open on that stream.
  explicit UpdateGroup(const Device& device, SourceLoc loc = SourceLoc::current());
  UpdateGroup(const UpdateGroup&) = delete;
  UpdateGroup& operator=(const UpdateGroup&) = delete;
  /// Discards the group when commit() was not called.
  ~UpdateGroup();

  /// Errors of these: ShapeError, DtypeError when the tensors do not fit; DeviceMismatch for one of
  /// another device than the group's; ArgumentError when this group has made one of them already (a
  /// parameter is updated once a step), was committed, or was opened on another stream than the
  /// thread's current one. Replaces `parameter` (and `momentum`, which may be empty when
  /// update.momentum is 0) by the updated tensors; in place where nobody else holds them.
  ///
  /// Dtypes: the state of f16 and bf16 parameters is f32, and so is all that is computed; a state
  /// of 16 bits is taken once, and replaced by one of f32. A gradient has the parameter's type or
  /// f32.
  void sgd(Tensor& parameter, Tensor gradient, Tensor& momentum, const SgdUpdate& update);
  void adam(
      Tensor& parameter, Tensor gradient, Tensor& mean, Tensor& variance, const AdamUpdate& update);
  /// Replaces a count by one more; comes behind the updates that it counts. Errors besides:
  /// ArgumentError for what is no count (update_counts.hpp).
  void count(Tensor& updates);
  /// An update of your own. Each tensor of `state` is replaced as the parameter is. Errors besides:
  /// those of UpdateRule::expression(); ArgumentError for another number of states or scalars than
  /// the rule has.
  void update(UpdateRule& rule,
              Tensor& parameter,
              Tensor gradient,
              std::span<Tensor* const> state,
              std::span<const double> scalars);
  /// Closes the group. The Pending is ready when the step is done, or carries why it was not.
  /// Errors: ArgumentError when it was committed already, or was opened on another stream than the
  /// thread's current one.
  [[nodiscard]] Pending<void> commit();
  /// The same for callers that fulfil promises of their own: the actor calls `finish` with nullptr
  /// when the step is done, else with the reason why not. It runs on the device's loop and must not
  /// block; it is dropped uncalled when the commit itself throws. With `joint`, the group is
  /// prepared and then waits for its decision, as does what comes behind it on this stream. Errors:
  /// those of commit(); ArgumentError for a decision without `prepared`; what `joint.more` throws.
  void commit(UniqueFunction<void(ErrorRef error)> finish, JointUpdate joint = {});
  /// For those promises: their readers may run the device's loop meanwhile, as with commit().
  [[nodiscard]] PendingOptions pending_options() const;

 private:
  /// The stream that it is open on. Errors: ArgumentError when that is not the thread's current
  /// one, or it was committed.
  StreamState& require_open() const;
  void require_outside(std::string_view op, const Tensor& tensor, const char* what) const;
  void require_fit(std::string_view op,
                   const Tensor& parameter,
                   const Tensor& other,
                   const char* what) const;

  Device device_;
  SourceLoc loc_;
  std::shared_ptr<OpenGroup> open_;  ///< Shared with its stream; nullptr once it was committed.
};

}  // namespace hearth
