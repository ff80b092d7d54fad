// DataParallel: trains one model on several devices at once. Each device has a worker with a
// replica of the model and an optimizer of its own; a step gives every worker its shard of the
// batch, sums the gradients of all and updates every replica alike.
// Owned by the training loop; the Runtime and a given engine outlive it, and the engine also
// outlives those of its own calls that do not return. Threads: one at a time; the workers and the
// coordinator are its own. Invariants: (1) between steps all replicas on devices of one kind have
// the same bits; (2) a step happens on all of them or on none; (3) the same seed, shards and number
// of devices give the same bits; (4) a lost device, or a rank that hangs, costs no step that has
// happened.
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

/// What divides a batch for the ranks on these devices: into shards, or micro-batches of shards.
template <class Divide, class Shard>
concept BatchDivider = requires(Divide& divide, const std::vector<Device>& devices) {
  requires std::same_as<decltype(divide(devices)), std::vector<Shard>> ||
      std::same_as<decltype(divide(devices)), std::vector<std::vector<Shard>>>;
};

/// For a model that is no module.
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
  /// The mean loss over the shard's samples, on the context's device; or, for a mean over something
  /// else (targets that are not ignored, weights of classes), a LossSum or a LossOutputs with a
  /// weight, so that the number of devices and micro-batches makes no difference. Each worker calls
  /// a copy of its own; the shard is its to consume. Never called with a shard of size 0. A call
  /// that does not return may be left behind (DeviceLossPolicy, the destructor): what it refers to
  /// must outlive it.
  using LossFn = std::function<Tensor(const Model& model, Shard& shard, WorkerContext& context)>;
  /// The shards of one micro-batch, by rank.
  using Shards = std::vector<Shard>;

  /// Takes the model and gives each rank a copy of it. The loss: a LossFn, or one that returns a
  /// LossSum or a LossOutputs.
  /// Errors: ArgumentError when the options make no sense, the model has no float parameter, or one
  /// of the optimizer's groups matches none.
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
  /// Gives up the step under way and those behind it. Waits for the workers up to shutdown_limit,
  /// then as long for the engine's call; a loss function or a call that does not come back is named
  /// in the log and left behind with its thread.
  ~DataParallel() = default;

  /// One step over a batch, and waits for it. Shards may differ in size, and be empty.
  ///
  /// Errors: the first thing that went wrong on any rank, and then no replica has changed:
  /// what the loss function threw, with the rank's worker in its text, or worker_failed with the
  /// cause where that is no Exception of the library's; non_finite, with the step's number, for a
  /// loss that is NaN or infinite, or whose weights add up to 0; deadline_exceeded naming the
  /// ranks that did not come; what poisoned a gradient. After such an error elsewhere a rank has
  /// `deadline` and the time of the last step to come to the end, or step_limit before there was
  /// one; then it is given up. ArgumentError when there is not one shard a rank, no sample at all,
  /// or more than can be counted; of each call, when the Runtime has ended. After a loss, whatever
  /// the policy: device_lost. A step that returns has happened, even when a rank failed in
  /// committing it (see DataParallelReport::late_failure).
  DataParallelReport step(Shards shards, SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(shards), where), where);
  }
  /// The same for shards that are written down in the call: `step({first, second})`. An empty list
  /// is no shard at all.
  DataParallelReport step(std::initializer_list<Shard> shards,
                          SourceLoc where = SourceLoc::current()) {
    return step(Shards(shards), where);
  }
  /// One step over several micro-batches, as over one batch of all their samples. Gradients are
  /// added up on each rank and reduced once.
  DataParallelReport step(std::vector<Shards> micro_batches,
                          SourceLoc where = SourceLoc::current()) {
    return wait(step_later(std::move(micro_batches), where), where);
  }
  /// One step over a batch that can be divided again: `divide` gives the shards for the ranks on
  /// these devices, or a list of micro-batches of such. When a device is lost or a rank hangs
  /// before the step has happened, the trainer mends itself as DeviceLossPolicy says and does the
  /// step with the ranks that there are then: with the default limits, 8 s and a little after the
  /// others waited for the one that hangs. Errors: as above; the loss when the policy is to stop.
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
  /// The same without waiting. Steps run in the order of the calls. Where the report of a failed
  /// step was dropped unread, a later call throws what it carried, and begins no step.
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
    const std::int64_t sample_count = trainer_.begin_batch(sizes, where);
    std::vector<std::unique_ptr<RankShards>> parts;
    for (std::size_t index = 0; index < trainer_.size(); ++index) {
      auto part = std::make_unique<detail::ShardsOf<Shard>>();
      for (Shards& shards : micro_batches) {
        hand_over(shards[index]);
        part->all.push_back(std::move(shards[index]));
      }
      parts.push_back(std::move(part));
    }
    return trainer_.step(std::move(parts), sample_count, where);
  }

  /// A copy of fn(const Model&, WorkerContext&) on every rank, after the steps that were asked for.
  /// The results by rank. Errors: what fn throws, as for step(); deadline_exceeded as for
  /// update_replicas().
  template <class Fn>
  auto evaluate(Fn fn, SourceLoc where = SourceLoc::current()) {
    return on_ranks(
        [fn = std::move(fn)](RankReplica& replica, WorkerContext& context) mutable {
          return fn(std::as_const(detail::value_of<Model>(replica.model(context.where))), context);
        },
        where);
  }
  /// The same with the averaged weights (DataParallelOptions::average_decay).
  /// Errors: ArgumentError when no average is kept.
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

  /// A copy of fn(Model&, Optimizer&) on every rank, to load weights or state, say: every rank must
  /// end up with the same. Waits for the values.
  ///
  /// Errors: deadline_exceeded when a rank does not come in time: it is mended before the next
  /// step, or, when the policy is to stop, no step begins before it answers. What fn throws, as for
  /// step(), or what poisoned a value that it made. Then all ranks get the state of
  /// one on which it did not fail: the update has happened. Where it failed on all, they get that
  /// of the first rank, as fn left it.
  template <class Fn>
  void update_replicas(Fn fn, SourceLoc where = SourceLoc::current()) {
    trainer_.change_replicas(
        [fn = std::move(fn), where](RankReplica& replica, WorkerContext&) mutable {
          fn(detail::value_of<Model>(replica.model(where)), replica.optimizer());
          replica.require_values(where);
        },
        where);
  }
  /// Sets the rate of all ranks, or of none.
  /// Errors: ArgumentError when the optimizer refuses the rate; deadline_exceeded as for
  /// update_replicas(). Then no rank has changed.
  void set_learning_rate(double rate, SourceLoc where = SourceLoc::current()) {
    trainer_.set_learning_rate(rate, where);
  }

  /// Writes the state of the training to `file`, as save_training() does, after the steps that were
  /// asked for: weights, optimizer, average, and the generators of all ranks. `progress`: the rest
  /// of what the program needs to go on; its generators are not looked at. One rank writes; when it
  /// is lost or hangs and DeviceLossPolicy lets the others go on, another one does.
  ///
  /// Errors: those of save_training(); deadline_exceeded when a rank does not come in time, or the
  /// writing takes longer than DataParallelOptions::save_limit. The old file is kept, and the
  /// training can go on.
  void save(const std::filesystem::path& file,
            TrainingProgress progress = {},
            SourceLoc where = SourceLoc::current()) {
    trainer_.save(file, std::move(progress), where);
  }
  /// Writes the weights alone, as hearth::save_weights() does: the averaged ones, where an average
  /// is kept. Makes no copy of the model. Errors: those of hearth::save_weights(), else as save().
  void save_weights(const std::filesystem::path& file,
                    const Metadata& metadata = {},
                    SourceLoc where = SourceLoc::current()) {
    trainer_.save_weights(file, metadata, where);
  }
  /// Gives every rank the state in `file`. The caller seeks its loaders by what is returned. Every
  /// rank first brings the state to its device, beside what it has; when all have it, all take it.
  /// A rank that fails in that gets the state of another.
  ///
  /// Errors: those of load_training(); FileError bad_format when the file is of another number of
  /// ranks; deadline_exceeded as for update_replicas(). Then no rank has changed.
  TrainingProgress load(const std::filesystem::path& file, SourceLoc where = SourceLoc::current()) {
    return trainer_.load(file, where);
  }

  /// A copy of the model as it is after the steps that were asked for, on the device of rank 0, or
  /// of the first one that has the model still and is not known to hang.
  [[nodiscard]] Model snapshot(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.snapshot(where)));
  }
  /// The same with the averaged weights (DataParallelOptions::average_decay).
  /// Errors: ArgumentError when no average is kept.
  [[nodiscard]] Model averaged(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.averaged(where)));
  }
  /// Ends the training: the replica that snapshot() would copy moves back to the caller, after the
  /// steps that were asked for. The trainer can only be destroyed then.
  [[nodiscard]] Model take_model(SourceLoc where = SourceLoc::current()) {
    return std::move(detail::value_of<Model>(*trainer_.take_model(where)));
  }

  [[nodiscard]] int world() const noexcept { return static_cast<int>(trainer_.size()); }
  /// Where the ranks of the next step are, in their order: after a loss, others than before.
  [[nodiscard]] std::vector<Device> devices(SourceLoc where = SourceLoc::current()) {
    return trainer_.devices(where);
  }
  [[nodiscard]] const BucketPlan& buckets() const noexcept { return trainer_.buckets(); }
  /// Waits for nothing but the coordinator.
  [[nodiscard]] CoordinatorStatistics statistics(SourceLoc where = SourceLoc::current()) {
    return trainer_.statistics(where);
  }

 private:
  /// A copy of fn(RankReplica&, WorkerContext&) on every rank; the results by rank.
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
    trainer_.note_late(is_late);
    const Deadline now = Deadline::in(std::chrono::nanoseconds::zero());
    for (const Pending<R>& each : pending) {
      static_cast<void>(each.wait({.deadline = now}));  // the first failure stands for all: read
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
