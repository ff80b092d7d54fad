// DataParallel: trains one model on several devices at once. Each device has a worker with a
// replica of the model and an optimizer of its own. A step gives every worker its shard of the
// batch, sums the gradients of all ranks and updates every replica alike.
// Owned by the training loop. The Runtime and a given engine outlive it; the engine also outlives
// its own calls that do not return.
// Threads: one at a time; it owns the threads of the workers and the coordinator.
// Invariants: (1) between steps all replicas on devices of one kind have the same bits; (2) a step
// happens on all replicas or on none; (3) the same seed, shards and number of devices give the same
// bits; (4) the loss of a device, or a rank that hangs, undoes no step that has happened.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/parallel/call_place.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/replica_trainer.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/runtime.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

/// A function that divides a batch among the ranks on these devices: into shards, or micro-batches
/// of shards.
template <class Divide, class Shard>
concept BatchDivider = requires(Divide& divide, const std::vector<Device>& devices) {
  requires std::same_as<decltype(divide(devices)), std::vector<Shard>> ||
      std::same_as<decltype(divide(devices)), std::vector<std::vector<Shard>>>;
};

/// Rejects a model that is no Module, with a readable message.
template <class Model, BatchShard Shard>
class DataParallel {
  static_assert(detail::refuse_no_module<Model>());

 public:
  template <class Loss>
  DataParallel(const Runtime& runtime,
               const Model& model,
               Loss loss,
               const DataParallelOptions& options,
               SourceLoc where = SourceLoc::current());
  DataParallelReport step(std::vector<Shard> shards, SourceLoc where = SourceLoc::current());
};

template <Module Model, BatchShard Shard>
class DataParallel<Model, Shard> final {
 public:
  /// Loss function. Returns the mean loss over the shard's samples, on the context's device. For a
  /// mean over something other than samples (targets that are not ignored, class weights), it
  /// returns a LossSum, or a LossOutputs with a weight. Then the numbers of devices and
  /// micro-batches make no difference. Each worker calls its own copy, which may consume the shard.
  /// Never called with a shard of size 0.
  ///
  /// Lifetime: a call that does not return may be abandoned (DeviceLossPolicy, the destructor);
  /// what it refers to must outlive it.
  using LossFn = std::function<Tensor(const Model& model, Shard& shard, WorkerContext& context)>;
  /// The shards of one micro-batch, by rank.
  using Shards = std::vector<Shard>;

  /// Takes the model and gives each rank a copy of it. The loss: a LossFn, or a function that
  /// returns a LossSum or a LossOutputs.
  ///
  /// Errors: ArgumentError for invalid options, a model without a float parameter, or an optimizer
  /// group that matches no parameter.
  template <class Loss>
  requires std::invocable<Loss&, const Model&, Shard&, WorkerContext&> DataParallel(
      const Runtime& runtime,
      Model model,
      Loss loss,
      DataParallelOptions options,
      SourceLoc where = SourceLoc::current())
      : trainer_(runtime,
                 std::make_unique<detail::ModelOf<Model>>(std::move(model)),
                 detail::LossOf<Model, Shard>::of(std::move(loss)),
                 std::move(options),
                 where) {}
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  /// Cancels the current step and the queued ones. Waits up to shutdown_limit for the workers, then
  /// up to shutdown_limit for the engine's call. A loss function or an engine call that has not
  /// returned by then is logged and abandoned with its thread.
  ~DataParallel() = default;

  /// Runs one step over a batch and waits for it. With several processes, each passes the shards of
  /// its own ranks, and all begin the step. Shards may differ in size, and may be empty. A
  /// step that returns has happened, even when a rank failed to commit it (see
  /// DataParallelReport::late_failure).
  ///
  /// Errors: ArgumentError without one shard for each rank, without samples, or with more samples
  /// than std::int64_t holds; ArgumentError from each call after the Runtime has ended; device_lost
  /// after a loss, with any policy. Otherwise the first failure on any rank; then no replica has
  /// changed. It is one of these:
  /// - the loss function's exception, with the worker's name in its text, or worker_failed with the
  ///   cause if that is none of the library's exceptions;
  /// - non_finite, with the step's number, for a loss that is NaN or infinite, or whose weights sum
  ///   to 0. With a loss scale (DataParallelOptions::precision) the step is skipped if the loss or
  ///   a gradient is NaN or infinite, and the report states that;
  /// - deadline_exceeded naming the ranks that missed the deadline;
  /// - the error of a poisoned gradient.
  ///
  /// A failure in one process is thrown by all; collective_failed when a process is missing.
  ///
  /// After a failure, each other rank has `deadline` plus the time of the last step to finish, or
  /// step_limit before the first step. Then it is abandoned.
  DataParallelReport step(Shards shards, SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(shards), where), where);
  }
  /// Overload for shards listed in the call: `step({first, second})`. An empty list means no
  /// shards.
  DataParallelReport step(std::initializer_list<Shard> shards,
                          SourceLoc where = SourceLoc::current()) {
    return step(Shards(shards), where);
  }
  /// Runs one step over several micro-batches, with the result of one batch of all their samples.
  /// Each rank accumulates gradients, which are reduced once.
  DataParallelReport step(std::vector<Shards> micro_batches,
                          SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(micro_batches), where), where);
  }
  /// Runs one step over a batch that can be divided again. `divide` returns the shards, or a list
  /// of micro-batches of shards, for the ranks on these devices. A device may be lost, or a rank
  /// may hang, before the step has happened. Then the trainer mends itself (DeviceLossPolicy) and
  /// retries the step with the remaining ranks. With the default limits, that is about 8 s after
  /// the others began to wait for the hung rank.
  ///
  /// Errors: those of step(Shards); the loss with DeviceLossPolicy::stop.
  template <BatchDivider<Shard> Divide>
  DataParallelReport step(Divide divide, SourceLoc where = SourceLoc::current()) {
    for (std::size_t left = trainer_.most_repeats();; --left) {
      Pending<DataParallelReport> report = step_later(divide(devices(where)), where);
      const Status status = report.wait({.deadline = trainer_.step_deadline()});
      if (left == 0 || !trainer_.can_repeat(status)) {
        return detail::at_call(where, [&] {
          status.value();
          const Deadline now = Deadline::in(std::chrono::nanoseconds::zero());
          return std::move(report).get({.deadline = now});
        });
      }
    }
  }
  /// Queues a step and returns its pending report. Steps run in the order of the calls. If the
  /// report of a failed step was dropped unread, a later call throws its failure and begins no
  /// step.
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
                                         SourceLoc where = SourceLoc::current()) {
    std::vector<std::vector<std::int64_t>> sizes;
    for (const Shards& shards : micro_batches) {
      sizes.emplace_back();
      for (const Shard& shard : shards) {
        sizes.back().push_back(shard.size);
      }
    }
    std::vector<std::unique_ptr<RankShards>> parts;
    const auto make_parts = [&] {
      for (std::size_t index = 0; index < trainer_.size(); ++index) {
        auto part = std::make_unique<detail::ShardsOf<Shard>>();
        for (Shards& shards : micro_batches) {
          hand_over(shards[index]);
          part->all.push_back(std::move(shards[index]));
        }
        parts.push_back(std::move(part));
      }
    };
    const std::int64_t sample_count = trainer_.begin_batch(sizes, make_parts, where);
    return trainer_.step(std::move(parts), sample_count, where);
  }

  /// Runs a copy of fn(const Model&, WorkerContext&) on every rank of this process, after the steps
  /// that were queued before. Returns the results by rank.
  ///
  /// Errors: exceptions of fn, as for step(); deadline_exceeded as for update_replicas().
  template <class Fn>
  auto evaluate(Fn fn, SourceLoc where = SourceLoc::current()) {
    return on_ranks(
        [fn = std::move(fn)](RankReplica& replica, WorkerContext& context) mutable {
          return fn(std::as_const(detail::value_of<Model>(replica.model(context.where))), context);
        },
        where);
  }
  /// Runs evaluate() with the averaged weights (DataParallelOptions::average_decay).
  ///
  /// Errors: those of evaluate(); ArgumentError when no average is kept.
  template <class Fn>
  auto evaluate_averaged(Fn fn, SourceLoc where = SourceLoc::current()) {
    trainer_.require_average(where);
    return on_ranks(
        [fn = std::move(fn), where](RankReplica& replica, WorkerContext& context) mutable {
          const Model averaged =
              replica.average()->applied_to(detail::value_of<Model>(replica.model(where)), where);
          return fn(averaged, context);
        },
        where);
  }

  /// Runs a copy of fn(Model&, Optimizer&) on every rank, to load weights or state for example.
  /// Every rank, in all processes, must end up with the same values. Waits for the values, with
  /// several processes for all of them.
  ///
  /// Errors: deadline_exceeded when a rank misses the deadline; it is mended before the next step,
  /// or, with DeviceLossPolicy::stop, no step begins before it answers. Exceptions of fn, as for
  /// step(), and the error of a poisoned value. After these, all ranks get the state of a rank on
  /// which fn succeeded, so the update has happened. If fn failed on all ranks, they get the state
  /// of the first rank, as fn left it. With several processes each throws its own failure, else
  /// that of the first process that failed. If fn failed on all ranks of some processes and not of
  /// others, every later step throws collective_failed, until load().
  template <class Fn>
  void update_replicas(Fn fn, SourceLoc where = SourceLoc::current()) {
    trainer_.change_replicas(
        [fn = std::move(fn), where](RankReplica& replica, WorkerContext&) mutable {
          fn(detail::value_of<Model>(replica.model(where)), replica.optimizer());
          replica.require_values(where);
        },
        where);
  }
  /// Sets the learning rate of all ranks, or of none.
  ///
  /// Errors: ArgumentError when the optimizer rejects the rate; deadline_exceeded as for
  /// update_replicas(). Then no rank of this process has changed.
  void set_learning_rate(double rate, SourceLoc where = SourceLoc::current()) {
    trainer_.set_learning_rate(rate, where);
  }

  /// Writes the state of the training to `file`, as save_training() does, after the steps that were
  /// queued before. This state is the weights, the optimizer, the average, and the generators of
  /// all ranks. `progress` holds the rest of the program's state; its generators are ignored. One
  /// rank writes. When it is lost or hangs, another rank writes, if DeviceLossPolicy lets the
  /// others continue.
  ///
  /// Errors: those of save_training(); deadline_exceeded when a rank misses the deadline, or the
  /// writing takes longer than DataParallelOptions::save_limit. The old file is kept, and the
  /// training can continue.
  void save(const std::filesystem::path& file,
            TrainingProgress progress = {},
            SourceLoc where = SourceLoc::current()) {
    trainer_.save(file, std::move(progress), where);
  }
  /// Writes the weights alone, as hearth::save_weights() does: the averaged ones, if an average is
  /// kept. Makes no copy of the model.
  ///
  /// Errors: those of hearth::save_weights() and of save().
  void save_weights(const std::filesystem::path& file,
                    const Metadata& metadata = {},
                    SourceLoc where = SourceLoc::current()) {
    trainer_.save_weights(file, metadata, where);
  }
  /// Gives every rank the state in `file`. The returned progress holds the cursor that the caller's
  /// loaders seek. Every rank first brings the state to its device, beside its current one; when
  /// all ranks have it, all replace theirs. A rank that fails to replace its state gets that of
  /// another rank.
  ///
  /// Errors: those of load_training(); FileError bad_format when the file is from another number of
  /// ranks; deadline_exceeded as for update_replicas(). Then no rank has changed.
  TrainingProgress load(const std::filesystem::path& file, SourceLoc where = SourceLoc::current()) {
    return trainer_.load(file, where);
  }

  /// Returns a copy of the model after the steps that were queued before. The copy is on the device
  /// of rank 0, or of the first rank that still has the model and is not known to hang.
  [[nodiscard]] Model snapshot(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.snapshot(where)));
  }
  /// Returns the copy that snapshot() makes, with the averaged weights
  /// (DataParallelOptions::average_decay).
  ///
  /// Errors: ArgumentError when no average is kept.
  [[nodiscard]] Model averaged(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.averaged(where)));
  }
  /// Ends the training: moves the replica that snapshot() would copy back to the caller, after the
  /// steps that were queued before. Afterwards the trainer can only be destroyed.
  [[nodiscard]] Model take_model(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.take_model(where)));
  }

  /// Number of ranks, over all processes.
  [[nodiscard]] int world() const { return trainer_.ranks().world; }
  /// The ranks of this process, which step() takes shards for; a ShardedLoader makes them.
  [[nodiscard]] RankRange ranks() const { return trainer_.ranks(); }
  [[nodiscard]] const ProcessGroup& processes() const noexcept { return trainer_.processes(); }
  /// Throws `failure` if it is not null. With several processes, waits for all of them; each throws
  /// its own failure, else that of the first process that has one. For code outside of steps that
  /// may fail in one process alone. `what` names it in errors.
  void settle(const ErrorRef& failure,
              std::string_view what,
              SourceLoc where = SourceLoc::current()) const {
    trainer_.settle(failure, what, where);
  }
  /// Devices of the next step's ranks in this process, in rank order. They change after a loss.
  [[nodiscard]] std::vector<Device> devices(SourceLoc where = SourceLoc::current()) {
    return trainer_.devices(where);
  }
  [[nodiscard]] const BucketPlan& buckets() const noexcept { return trainer_.buckets(); }
  /// Waits for the coordinator only.
  [[nodiscard]] CoordinatorStatistics statistics(SourceLoc where = SourceLoc::current()) {
    return trainer_.statistics(where);
  }

 private:
  /// Runs a copy of fn(RankReplica&, WorkerContext&) on every rank; returns the results by rank.
  template <class Fn>
  auto on_ranks(Fn fn, SourceLoc where) {
    using R = std::invoke_result_t<Fn&, RankReplica&, WorkerContext&>;
    static_assert(!std::is_void_v<R>, "evaluate() gathers what the function returns");
    trainer_.require_all(where);
    std::vector<Pending<R>> pending;
    for (std::size_t index = 0; index < trainer_.size(); ++index) {
      pending.push_back(trainer_.worker(index).run(
          [fn, place = trainer_.replica(index), where](WorkerContext& context) mutable {
            context.where = where;
            return fn(*place, context);
          }));
    }
    const Deadline deadline = trainer_.step_deadline();
    for (const Pending<R>& each : pending) {
      static_cast<void>(detail::PendingAccess::is_ready_by(each, deadline));
    }
    std::vector<bool> is_late;
    is_late.reserve(pending.size());
    for (const Pending<R>& each : pending) {
      is_late.push_back(!each.is_ready());
    }
    trainer_.record_late(is_late);
    const Deadline now = Deadline::in(std::chrono::nanoseconds::zero());
    for (const Pending<R>& each : pending) {
      // marked as read: the first failure stands for all
      static_cast<void>(each.wait({.deadline = now}));
    }
    return detail::at_call(where, [&] {
      std::vector<R> results;
      for (Pending<R>& each : pending) {
        R result = std::move(each).get({.deadline = now});
        take_over(result);
        results.push_back(std::move(result));
      }
      return results;
    });
  }
  DataParallelReport wait(Pending<DataParallelReport> pending, SourceLoc where) {
    const Deadline limit = trainer_.step_deadline();
    return detail::at_call(where, [&] { return std::move(pending).get({.deadline = limit}); });
  }

  ReplicaTrainer trainer_;
};

}  // namespace hearth
