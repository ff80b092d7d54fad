// DataParallel: trains one model on several devices at once. Each device has a worker with a
// replica of the model and an optimizer of its own; a step gives every worker its shard of the
// batch, sums the gradients of all and updates every replica alike.
// Owned by the training loop; the Runtime and a given engine outlive it, and the engine also outlives
// those of its own calls that do not return. Threads: one at a time; the workers and the coordinator
// are its own.
// Invariants: (1) between steps all replicas on devices of one kind have the same bits; (2) a step
// happens on all of them or on none; (3) the same seed, shards and number of devices give the same
// bits; (4) a lost device, or a rank that hangs, costs no step that has happened.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/rank_group.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

template <Module Model, BatchShard Shard>
class DataParallel final {
 public:
  /// The mean loss over the shard's samples, on the context's device. Each worker calls a copy of
  /// its own; the shard is its to consume. Never called with a shard of size 0. A call that does not
  /// return may be left behind (LossPolicy, the destructor): what it refers to must outlive it.
  using LossFn = typename Replica<Model, Shard>::LossFn;
  /// The shards of one micro-batch, by rank.
  using Shards = std::vector<Shard>;

  /// Takes the model and gives each rank a copy of it.
  /// Errors: ArgumentError when the options make no sense or the model has no float parameter.
  DataParallel(const Runtime& runtime,
               Model model,
               LossFn loss,
               DataParallelOptions options,
               SourceLoc where = SourceLoc::current())
      : options_((detail::require_sound(options, where), std::move(options))),
        engine_(options_.engine != nullptr ? options_.engine : inproc_.get()),
        plan_(forms_of(model), options_.bucket_bytes),
        coordinator_(runtime.executor(), *engine_, coordinator_options(runtime)),
        ranks_((detail::require_trainable(plan_, where), runtime),
               model,
               std::move(loss),
               options_,
               where) {}
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  /// Gives up the step under way and those behind it. Waits for the workers up to shutdown_limit, then
  /// as long for the engine's call; a loss function or a call that does not come back is named in the
  /// log and left behind with its thread.
  ~DataParallel() {
    coordinator_.cancel(std::make_shared<const Error>(
        Error{.code = ErrorCode::cancelled, .text = "the trainer was destroyed"}));
  }

  /// One step over a batch, and waits for it. Shards may differ in size, and be empty.
  ///
  /// Errors: the first thing that went wrong on any rank, and then no replica has changed:
  /// worker_failed with the cause when the loss function threw; non_finite, with the step's number,
  /// for a loss that is NaN or infinite; deadline_exceeded naming the ranks that did not come; what
  /// poisoned a gradient. After such an error elsewhere a rank has `deadline` and the time of the last
  /// step to come to the end, or step_limit before there was one; then it is given up.
  /// ArgumentError when there is not one shard a rank, or no sample at all.
  /// After a loss, whatever the policy: device_lost. A step that returns has happened, even when a
  /// rank failed in committing it (see DataParallelReport::late_failure).
  DataParallelReport step(Shards shards, SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(shards), where));
  }
  /// The same for shards that are written down in the call: `step({first, second})`. An empty list is
  /// no shard at all.
  DataParallelReport step(std::initializer_list<Shard> shards,
                          SourceLoc where = SourceLoc::current()) {
    return step(Shards(shards), where);
  }
  /// One step over several micro-batches, as over one batch of all their samples. Gradients are
  /// added up on each rank and reduced once.
  DataParallelReport step(std::vector<Shards> micro_batches,
                          SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(micro_batches), where));
  }
  /// One step over a batch that can be divided again: `divide` gives the shards for the ranks on
  /// these devices. When a device is lost or a rank hangs before the step has happened, the trainer
  /// mends itself as LossPolicy says and does the step with the ranks that there are then: with the
  /// default limits, 8 s and a little after the others waited for the one that hangs.
  /// Errors: as above; the loss when the policy is to stop.
  template <class Divide>
  requires std::is_invocable_r_v < Shards, Divide&, const std::vector<Device>
  & > DataParallelReport step(Divide divide, SourceLoc where = SourceLoc::current()) {
    for (std::size_t left = ranks_.size() + options_.spares.size();; --left) {
      Pending<DataParallelReport> report = step_later(divide(devices()), where);
      const Status status = report.wait(step_deadline());
      const bool is_mended = !status.has_value() &&
                             (detail::is_device_loss(status.error()) || coordinator_.has_trouble());
      if (!is_mended || left == 0 || options_.on_loss == LossPolicy::stop) {
        status.value();
        return std::move(report).get(Deadline::in(Duration::zero()));
      }
    }
  }
  /// The same without waiting. Steps run in the order of the calls.
  Pending<DataParallelReport> step_later(Shards shards, SourceLoc where = SourceLoc::current()) {
    std::vector<Shards> micro_batches;
    micro_batches.push_back(std::move(shards));
    return step_later(std::move(micro_batches), where);
  }
  Pending<DataParallelReport> step_later(std::initializer_list<Shard> shards,
                                         SourceLoc where = SourceLoc::current()) {
    return step_later(Shards(shards), where);
  }
  Pending<DataParallelReport> step_later(std::vector<Shards> micro_batches,
                                         SourceLoc where = SourceLoc::current());

  /// A copy of fn(const Model&, WorkerContext&) on every rank, after the steps that were asked for.
  /// The results by rank. Errors: worker_failed with the cause; deadline_exceeded as for
  /// update_replicas().
  template <class Fn>
  auto evaluate(Fn fn) {
    using R = std::invoke_result_t<Fn&, const Model&, WorkerContext&>;
    static_assert(!std::is_void_v<R>, "evaluate() gathers what the function returns");
    require_all();
    std::vector<Pending<R>> pending;
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      Rank& rank = ranks_[index];
      pending.push_back(rank.worker.run([fn, place = rank.replica](WorkerContext& context) mutable {
        return fn(std::as_const(place->model()), context);
      }));
    }
    wait_for_all(pending);
    std::vector<R> results;
    for (Pending<R>& each : pending) {
      R result = std::move(each).get(Deadline::in(Duration::zero()));
      take_over(result);
      results.push_back(std::move(result));
    }
    return results;
  }

  /// A copy of fn(Model&, Optimizer&) on every rank, to load weights or state, say: every rank must
  /// end up with the same. Waits for the values.
  ///
  /// Errors: deadline_exceeded when a rank does not come in time: it is mended before the next step,
  /// or, when the policy is to stop, no step begins before it answers.
  /// worker_failed with the cause, when fn throws, or a value that it made is poisoned. Then
  /// all ranks get the state of one on which it did not fail: the update has happened. Where it
  /// failed on all, they get that of the first rank, as fn left it.
  template <class Fn>
  void update_replicas(Fn fn) {
    change_replicas([fn = std::move(fn)](Replica<Model, Shard>& replica) mutable {
      fn(replica.model(), replica.optimizer());
      replica.require_values();
    });
  }
  /// Errors: worker_failed with the cause: ArgumentError when the optimizer refuses the rate.
  void set_learning_rate(double rate, SourceLoc where = SourceLoc::current()) {
    change_replicas([rate, where](Replica<Model, Shard>& replica) {
      replica.optimizer().set_learning_rate(rate, where);
    });
  }

  /// A copy of the model as it is after the steps that were asked for, on the device of rank 0, or
  /// of the first one that has the model still and is not known to hang.
  [[nodiscard]] Model snapshot(SourceLoc where = SourceLoc::current()) {
    mend();
    Rank& rank = ranks_.good();
    return retrieve(rank, rank.worker.run([place = rank.replica, where](WorkerContext& context) {
      return fork(place->model(), context.device, where);
    }));
  }
  /// Ends the training: the replica that snapshot() would copy moves back to the caller, after the
  /// steps that were asked for. The trainer can only be destroyed then.
  [[nodiscard]] Model take_model() {
    mend();
    is_model_taken_ = true;
    Rank& rank = ranks_.good();
    return retrieve(
        rank, rank.worker.run([place = rank.replica](WorkerContext&) { return place->take(); }));
  }

  [[nodiscard]] int world() const noexcept { return static_cast<int>(ranks_.size()); }
  /// Where the ranks of the next step are, in their order: after a loss, others than before.
  [[nodiscard]] std::vector<Device> devices() {
    mend();
    return ranks_.devices();
  }
  [[nodiscard]] const BucketPlan& buckets() const noexcept { return plan_; }
  /// Waits for nothing but the coordinator.
  [[nodiscard]] CoordinatorStatistics statistics() { return coordinator_.statistics(); }

 private:
  using Rank = typename RankGroup<Model, Shard>::Rank;

  static std::vector<ParameterForm> forms_of(const Model& model) {
    std::vector<ParameterForm> forms;
    model.visit("", [&](const std::string& /*path*/, const Tensor& tensor) {
      forms.push_back({tensor.dtype(), tensor.shape()});
    });
    return forms;
  }
  // A call of the built-in engine may be left behind, too.
  CoordinatorOptions coordinator_options(const Runtime& runtime) const {
    CoordinatorOptions all = detail::coordinator_options(runtime, options_, plan_.buckets().size());
    all.kept_alive = inproc_;
    return all;
  }
  Model retrieve(Rank& rank, Pending<Model> pending) {
    const bool has_come = pending.wait_until(step_deadline());
    rank.is_late =
        !has_come && options_.on_loss == LossPolicy::stop;  // then the next call asks another
    Model model = std::move(pending).get(Deadline::in(Duration::zero()));
    take_over(model);
    return model;
  }
  DataParallelReport wait(Pending<DataParallelReport> pending) {
    return std::move(pending).get(step_deadline());
  }

  /// A rank that does not come in time is late.
  template <class T>
  std::vector<Status> wait_for_all(const std::vector<Pending<T>>& pending) {
    const Deadline deadline = step_deadline();
    std::vector<Status> outcomes;
    for (const Pending<T>& each : pending) {
      outcomes.push_back(each.wait(deadline));
    }
    ranks_.note_late(pending);
    return outcomes;
  }

  template <class Fn>
  void change_replicas(Fn fn) {
    require_all();
    std::vector<Pending<void>> pending;
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      Rank& rank = ranks_[index];
      pending.push_back(
          rank.worker.run([fn, place = rank.replica](WorkerContext&) mutable { fn(*place); }));
    }
    const std::vector<Status> outcomes = wait_for_all(pending);
    if (!std::ranges::all_of(outcomes, &Status::has_value)) {
      ranks_.keep_alike(outcomes, coordinator_.trouble().stragglers);
    }
    for (const Status& outcome : outcomes) {
      outcome.value();
    }
  }
  /// After a step that some rank could not commit, or a loss: see RankGroup::mend.
  void mend();
  /// Errors: DeviceError device_lost when there was a loss and the policy is to stop, or
  /// deadline_exceeded when a rank hangs that may not have the weights of the others.
  void require_all() {
    mend();
    if (loss_) {
      throw_error(loss_);
    }
    ranks_.require_answers();
  }
  [[nodiscard]] Duration step_wait() const { return options_.step_limit + 2 * options_.deadline; }
  // A lane gives a lost bucket up after step_limit, a worker waits a little longer, so that it hears
  // why, and the caller longer still.
  [[nodiscard]] Deadline step_deadline() const { return Deadline::in(step_wait()); }

  const DataParallelOptions options_;
  const std::shared_ptr<InprocCollective> inproc_ = std::make_shared<InprocCollective>();
  Collective* const engine_;
  const BucketPlan plan_;
  Coordinator coordinator_;
  const std::shared_ptr<const StepTerms> terms_ = std::make_shared<const StepTerms>(
      StepTerms{.plan = plan_,
                .coordinator = coordinator_.inbox(),
                .lane_limit = options_.step_limit,
                .update_limit = options_.step_limit + options_.deadline});
  RankGroup<Model, Shard> ranks_;
  ErrorRef loss_;  ///< Why there are no steps any more.
  std::int64_t last_step_ = 0;
  bool is_model_taken_ = false;
};

template <Module Model, BatchShard Shard>
Pending<DataParallelReport> DataParallel<Model, Shard>::step_later(
    std::vector<Shards> micro_batches, SourceLoc where) {
  if (is_model_taken_) {
    detail::throw_model_taken(where);
  }
  require_all();
  std::int64_t sample_count = 0;
  for (const Shards& shards : micro_batches) {
    detail::require_shard_count(shards.size(), ranks_.size(), where);
    for (const Shard& shard : shards) {
      sample_count += detail::checked_size(shard.size, where);
    }
  }
  detail::require_samples(sample_count, where);
  const std::int64_t step = ++last_step_;
  const auto decision = std::make_shared<UpdateDecision>();
  Pending<DataParallelReport> report = coordinator_.begin(step, sample_count, decision);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    ReplicaTask<Shard> task{.step = step, .sample_count = sample_count, .decision = decision};
    for (Shards& shards : micro_batches) {
      hand_over(shards[index]);
      task.shards.push_back(std::move(shards[index]));
    }
    Rank& rank = ranks_[index];
    rank.worker.post(
        [replica = rank.replica, terms = terms_, task = std::move(task)](
            WorkerContext& context) mutable { replica->run(std::move(task), *terms, context); });
  }
  return report;
}

template <Module Model, BatchShard Shard>
void DataParallel<Model, Shard>::mend() {
  if (loss_ || (!coordinator_.has_trouble() && ranks_.is_whole())) {
    return;
  }
  loss_ = ranks_.mend([this] { return coordinator_.trouble(); }, step_wait());
  if (!loss_ && !ranks_.has_hung()) {  // else what it says of its last step is to be heard
    coordinator_.rejoin(detail::rank_names(ranks_.devices()));
    detail::tell_mended(ranks_.devices());
  }
}

}  // namespace hearth
