// DataParallel: trains one model on several devices at once. Each device has a worker with a
// replica of the model and an optimizer of its own; a step gives every worker its shard of the
// batch, sums the gradients of all and updates every replica alike.
// Owned by the training loop; the Runtime and a given engine outlive it. Threads: one at a time;
// the workers and the coordinator are its own.
// Invariants: (1) between steps all replicas have the same bits; (2) a step happens on all of them
// or on none; (3) the same seed, shards and number of devices give the same bits.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstdint>
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
  /// its own; the shard is its to consume. Never called with a shard of size 0.
  using LossFn = typename Replica<Model, Shard>::LossFn;
  /// The shards of one micro-batch, by rank.
  using Shards = std::vector<Shard>;

  /// Takes the model and gives each rank a copy of it.
  /// Errors: ArgumentError when the options make no sense or the model has no float parameter.
  DataParallel(const Runtime& runtime, Model model, LossFn loss, DataParallelOptions options)
      : options_((detail::require_sound(options), std::move(options))),
        engine_(options_.engine != nullptr ? options_.engine : &inproc_),
        plan_(forms_of(model), options_.bucket_bytes),
        coordinator_(runtime.executor(),
                     *engine_,
                     detail::coordinator_options(options_, plan_.buckets().size())) {
    detail::require_trainable(plan_);
    const int world = static_cast<int>(options_.devices.size());
    for (int rank = 0; rank < world; ++rank) {
      const Device& device = options_.devices[static_cast<std::size_t>(rank)];
      ranks_.push_back(
          std::make_unique<Rank>(runtime,
                                 device,
                                 WorkerOptions{.rank = rank, .world = world, .seed = options_.seed},
                                 make_optimizer(options_.optimizer),
                                 loss));
    }
    for (const auto& rank : ranks_) {
      place(*rank, fork(model, rank->worker.device()));
    }
  }
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  /// Gives up the step under way and those behind it; waits for the workers.
  ~DataParallel() {
    coordinator_.cancel(std::make_shared<const Error>(
        Error{.code = ErrorCode::cancelled, .text = "the trainer was destroyed"}));
    for (const auto& rank : ranks_) {
      rank->worker.stop();
    }
  }

  /// One step over a batch, and waits for it. Shards may differ in size, and be empty.
  ///
  /// Errors: the first thing that went wrong on any rank, and then no replica has changed:
  /// worker_failed with the cause when the loss function threw; non_finite, with the step's number,
  /// for a loss that is NaN or infinite; deadline_exceeded naming the ranks that did not come; what
  /// poisoned a gradient. ArgumentError when there is not one shard a rank, or no sample at all.
  /// One exception: when a device fails in the update itself (its memory is used up, say), the
  /// error comes although the step has happened on the other ranks; that rank gets their state
  /// before anything else is done.
  DataParallelReport step(Shards shards) { return wait(step_later(std::move(shards))); }
  /// One step over several micro-batches, as over one batch of all their samples. Gradients are
  /// added up on each rank and reduced once.
  DataParallelReport step(std::vector<Shards> micro_batches) {
    return wait(step_later(std::move(micro_batches)));
  }
  /// The same without waiting. Steps run in the order of the calls.
  Pending<DataParallelReport> step_later(Shards shards) {
    std::vector<Shards> micro_batches;
    micro_batches.push_back(std::move(shards));
    return step_later(std::move(micro_batches));
  }
  Pending<DataParallelReport> step_later(std::vector<Shards> micro_batches);

  /// A copy of fn(const Model&, WorkerContext&) on every rank, after the steps that were asked for.
  /// The results by rank. Errors: worker_failed with the cause.
  template <class Fn>
  auto evaluate(Fn fn) {
    using R = std::invoke_result_t<Fn&, const Model&, WorkerContext&>;
    static_assert(!std::is_void_v<R>, "evaluate() gathers what the function returns");
    replace_stragglers();
    std::vector<Pending<R>> pending;
    for (const auto& rank : ranks_) {
      pending.push_back(rank->worker.run([fn, place = rank.get()](WorkerContext& context) mutable {
        return fn(std::as_const(place->replica.model()), context);
      }));
    }
    std::vector<R> results;
    for (Pending<R>& each : pending) {
      R result = std::move(each).get(step_deadline());
      take_over(result);
      results.push_back(std::move(result));
    }
    return results;
  }

  /// A copy of fn(Model&, Optimizer&) on every rank, to load weights or state, say: every rank must
  /// end up with the same. Errors: worker_failed with the cause.
  template <class Fn>
  void update_replicas(Fn fn) {
    replace_stragglers();
    std::vector<Pending<void>> pending;
    for (const auto& rank : ranks_) {
      pending.push_back(rank->worker.run([fn, place = rank.get()](WorkerContext&) mutable {
        fn(place->replica.model(), place->replica.optimizer());
      }));
    }
    for (Pending<void>& each : pending) {
      each.get(step_deadline());
    }
  }
  void set_learning_rate(double rate) {
    update_replicas([rate](Model&, Optimizer& optimizer) { optimizer.set_learning_rate(rate); });
  }

  /// A copy of the model as it is after the steps that were asked for, on rank 0's device.
  [[nodiscard]] Model snapshot() {
    replace_stragglers();
    Rank& rank = *ranks_.front();
    return retrieve(rank.worker.run([place = &rank](WorkerContext& context) {
      return fork(place->replica.model(), context.device);
    }));
  }
  /// Ends the training: rank 0's replica moves back to the caller, after the steps that were asked
  /// for. The trainer can only be destroyed then.
  [[nodiscard]] Model take_model() {
    replace_stragglers();
    is_model_taken_ = true;
    Rank& rank = *ranks_.front();
    return retrieve(
        rank.worker.run([place = &rank](WorkerContext&) { return place->replica.take(); }));
  }

  [[nodiscard]] int world() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] const BucketPlan& buckets() const noexcept { return plan_; }
  /// Waits for nothing but the coordinator.
  [[nodiscard]] CoordinatorStatistics statistics() { return coordinator_.statistics(); }

 private:
  struct Rank {
    Rank(const Runtime& runtime,
         const Device& device,
         const WorkerOptions& options,
         Optimizer with,
         LossFn loss)
        : replica(std::move(with), std::move(loss)), worker(runtime, device, options) {}

    Replica<Model, Shard> replica;  ///< Touched by the worker's thread only.
    Worker worker;                  // last: its thread ends before what it uses
  };

  static std::vector<ParameterForm> forms_of(const Model& model) {
    std::vector<ParameterForm> forms;
    model.visit("", [&](const std::string& /*path*/, const Tensor& tensor) {
      forms.push_back({tensor.dtype(), tensor.shape()});
    });
    return forms;
  }
  static void place(Rank& rank, Model model) {
    rank.worker
        .run([at = &rank](WorkerContext&, Model copy) { at->replica.place(std::move(copy)); },
             std::move(model))
        .get();
  }
  Model retrieve(Pending<Model> pending) {
    Model model = std::move(pending).get(step_deadline());
    take_over(model);
    return model;
  }
  DataParallelReport wait(Pending<DataParallelReport> pending) {
    return std::move(pending).get(step_deadline());
  }

  /// After a step which some ranks committed and others could not: gives these the others' state.
  void replace_stragglers();
  // A lane gives a lost bucket up after step_limit, a worker waits a little longer, so that it hears
  // why, and the caller longer still.
  [[nodiscard]] Deadline step_deadline() const {
    return Deadline::in(options_.step_limit + 2 * options_.deadline);
  }

  const DataParallelOptions options_;
  InprocCollective inproc_;
  Collective* const engine_;
  const BucketPlan plan_;
  Coordinator coordinator_;
  const StepTerms terms_{.plan = plan_,
                         .coordinator = coordinator_.inbox(),
                         .lane_limit = options_.step_limit,
                         .update_limit = options_.step_limit + options_.deadline};
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::int64_t last_step_ = 0;
  bool is_model_taken_ = false;
};

template <Module Model, BatchShard Shard>
Pending<DataParallelReport> DataParallel<Model, Shard>::step_later(
    std::vector<Shards> micro_batches) {
  if (is_model_taken_) {
    detail::throw_model_taken();
  }
  std::int64_t sample_count = 0;
  for (const Shards& shards : micro_batches) {
    detail::require_shard_count(shards.size(), ranks_.size());
    for (const Shard& shard : shards) {
      sample_count += detail::checked_size(shard.size);
    }
  }
  detail::require_samples(sample_count);
  replace_stragglers();
  const std::int64_t step = ++last_step_;
  Pending<DataParallelReport> report = coordinator_.begin(step, sample_count);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    ReplicaTask<Shard> task{.step = step, .sample_count = sample_count};
    for (Shards& shards : micro_batches) {
      hand_over(shards[index]);
      task.shards.push_back(std::move(shards[index]));
    }
    Rank* const rank = ranks_[index].get();
    rank->worker.post([this, rank, task = std::move(task)](WorkerContext& context) mutable {
      rank->replica.run(std::move(task), terms_, rank->worker, context);
    });
  }
  return report;
}

template <Module Model, BatchShard Shard>
void DataParallel<Model, Shard>::replace_stragglers() {
  const std::vector<int> stragglers = coordinator_.stragglers();
  if (stragglers.empty()) {
    return;
  }
  const auto is_good = [&](const auto& rank) {
    return std::ranges::find(stragglers, rank->worker.rank()) == stragglers.end();
  };
  Rank* const good = std::ranges::find_if(ranks_, is_good)->get();
  for (const int number : stragglers) {
    Rank* const straggler = ranks_[static_cast<std::size_t>(number)].get();
    auto copy =
        [good, device = straggler->worker.device(), config = options_.optimizer](WorkerContext&) {
          Model model = fork(good->replica.model(), device);
          Optimizer optimizer = make_optimizer(config);
          optimizer.prepare(model);
          copy_values(good->replica.optimizer(), optimizer);
          optimizer.set_step_count(good->replica.optimizer().step_count());
          optimizer.set_learning_rate(good->replica.optimizer().learning_rate());
          return std::pair<Model, Optimizer>(std::move(model), std::move(optimizer));
        };
    auto [model, optimizer] = good->worker.run(std::move(copy)).get(step_deadline());
    auto replace = [straggler](WorkerContext&, Model with, Optimizer state) {
      straggler->replica.place(std::move(with), std::move(state));
    };
    straggler->worker.run(replace, std::move(model), std::move(optimizer)).get(step_deadline());
  }
  coordinator_.rejoin();
}

}  // namespace hearth
