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
#include <hearth/parallel/collective.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/gradient_exchange.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hearth {

using OptimizerConfig = std::variant<Sgd::Config, Adam::Config, AdamW::Config>;
[[nodiscard]] Optimizer make_optimizer(const OptimizerConfig& config);

struct DataParallelOptions {
  std::vector<Device> devices = {};  ///< One rank each.
  OptimizerConfig optimizer = Adam::Config{};
  /// Gradients travel in buckets of at least this size (bench: BM_DataParallel_Cnn).
  std::int64_t bucket_bytes = std::int64_t{1} << 20;
  /// How long the first rank of a bucket waits for the last one.
  Duration deadline = std::chrono::seconds(5);
  /// How long a whole step may take.
  Duration step_limit = kDefaultWait;
  std::uint64_t seed = 0;        ///< Of the workers' generators.
  Collective* engine = nullptr;  ///< nullptr: an InprocCollective.
};

/// A rank's part of a batch: it knows how many samples it has.
template <class T>
concept BatchShard = std::movable<T> && requires(const T& shard) {
  { shard.size } -> std::convertible_to<std::int64_t>;
};

namespace detail {

/// Errors: ArgumentError when there is no device or a setting makes no sense.
void require_sound(const DataParallelOptions& options);
/// Errors: ArgumentError when a model has nothing to train.
void require_trainable(const BucketPlan& plan);
/// Errors: ArgumentError when there is not one shard a rank.
void require_shard_count(std::size_t shards, std::size_t ranks);
/// Errors: ArgumentError when a shard's size is negative.
[[nodiscard]] std::int64_t checked_size(std::int64_t size);
/// Errors: ArgumentError when a batch is empty.
void require_samples(std::int64_t sample_count);
[[noreturn]] void throw_model_taken();
/// Gradients whose tensors come later; those of integers are zeros.
[[nodiscard]] Gradients without_values(const std::vector<NamedTensor>& parameters);
[[nodiscard]] CoordinatorOptions coordinator_options(const DataParallelOptions& options,
                                                     std::size_t bucket_count);

}  // namespace detail

template <Module Model, BatchShard Shard>
class DataParallel final {
 public:
  /// The mean loss over the shard's samples, on the context's device. Each worker calls a copy of
  /// its own; the shard is its to consume. Never called with a shard of size 0.
  using LossFn = std::function<Tensor(const Model& model, Shard& shard, WorkerContext& context)>;
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
        return fn(std::as_const(place->present_model()), context);
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
        fn(place->present_model(), place->optimizer);
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
      return fork(place->present_model(), context.device);
    }));
  }
  /// Ends the training: rank 0's replica moves back to the caller, after the steps that were asked
  /// for. The trainer can only be destroyed then.
  [[nodiscard]] Model take_model() {
    replace_stragglers();
    is_model_taken_ = true;
    Rank& rank = *ranks_.front();
    return retrieve(rank.worker.run([place = &rank](WorkerContext&) {
      Model model = std::move(place->present_model());
      place->model.reset();
      return model;
    }));
  }

  [[nodiscard]] int world() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] const BucketPlan& buckets() const noexcept { return plan_; }
  /// Waits for nothing but the coordinator.
  [[nodiscard]] CoordinatorStatistics statistics() { return coordinator_.statistics(); }

 private:
  /// What a worker owns. Touched by its thread only, but for `worker` itself.
  struct Rank {
    Rank(const Runtime& runtime,
         const Device& device,
         const WorkerOptions& options,
         Optimizer with,
         LossFn calling)
        : optimizer(std::move(with)), loss(std::move(calling)), worker(runtime, device, options) {}
    Model& present_model() {
      if (!model) {
        detail::throw_model_taken();
      }
      return *model;
    }

    std::optional<Model> model;
    Optimizer optimizer;
    LossFn loss;
    Worker worker;  // last: its thread ends before what it uses
  };
  /// A rank's part of a step.
  struct Task {
    std::int64_t step = 0;
    std::int64_t sample_count = 0;   ///< Of all ranks.
    std::vector<Shard> shards = {};  ///< By micro-batch.
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
        .run([at = &rank](WorkerContext&, Model replica) { at->model.emplace(std::move(replica)); },
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

  void run_task(Rank& rank, Task task, WorkerContext& context);
  Gradients differentiate(Rank& rank,
                          Task& task,
                          GradientExchange& exchange,
                          WorkerContext& context);
  [[nodiscard]] Tensor weighted_loss(
      Rank& rank, const Model& tracked, Task& task, std::size_t index, WorkerContext& context) {
    const auto weight =
        static_cast<double>(task.shards[index].size) / static_cast<double>(task.sample_count);
    Tensor loss = rank.loss(tracked, task.shards[index], context);
    return weight == 1 ? loss : mul(std::move(loss), weight);
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
    Task task{.step = step, .sample_count = sample_count};
    for (Shards& shards : micro_batches) {
      hand_over(shards[index]);
      task.shards.push_back(std::move(shards[index]));
    }
    Rank* const rank = ranks_[index].get();
    rank->worker.post([this, rank, task = std::move(task)](WorkerContext& context) mutable {
      run_task(*rank, std::move(task), context);
    });
  }
  return report;
}

template <Module Model, BatchShard Shard>
void DataParallel<Model, Shard>::run_task(Rank& rank, Task task, WorkerContext& context) {
  const CoordinatorInbox inbox = coordinator_.inbox();
  ErrorRef error;
  try {
    take_over(task.shards);
    GradientExchange exchange(plan_, inbox, context, task.step, options_.step_limit);
    Gradients gradients = differentiate(rank, task, exchange, context);
    exchange.collect(gradients);
    const Pending<StepReport> update = rank.optimizer.step(*rank.model, std::move(gradients));
    error = update.wait(Deadline::in(options_.step_limit + options_.deadline)).shared_error();
  } catch (...) {
    error = rank.worker.failure();
    inbox.abort(task.step, error);
  }
  inbox.finish(task.step, context.rank, std::move(error));
}

template <Module Model, BatchShard Shard>
Gradients DataParallel<Model, Shard>::differentiate(Rank& rank,
                                                    Task& task,
                                                    GradientExchange& exchange,
                                                    WorkerContext& context) {
  std::erase_if(task.shards, [](const Shard& shard) { return shard.size == 0; });
  const Model& model = *rank.model;
  if (task.shards.empty()) {
    exchange.add_zeros();
    return detail::without_values(named_tensors(model));
  }
  Tensor loss_before;
  Gradients before;
  for (std::size_t i = 0; i + 1 < task.shards.size(); ++i) {
    auto [loss, gradients] = value_and_grad(model, [&](const Model& tracked) {
      return weighted_loss(rank, tracked, task, i, context);
    });
    if (i == 0) {
      loss_before = std::move(loss);
      before = std::move(gradients);
    } else {
      loss_before = add(std::move(loss_before), std::move(loss));
      before.accumulate(std::move(gradients));
    }
  }
  const auto differentiated = [&](const Model& tracked) {
    Tensor loss = weighted_loss(rank, tracked, task, task.shards.size() - 1, context);
    exchange.report_loss(loss_before.is_empty() ? loss.detach() : add(loss_before, loss.detach()));
    return loss;
  };
  const GradientHook hook = [&](std::size_t index, Tensor& gradient) {
    if (!before.is_empty()) {
      gradient = add(std::move(before[index]), std::move(gradient));
    }
    exchange.add(index, gradient);
  };
  return value_and_grad(model, differentiated, hook).gradients;
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
          Model model = fork(*good->model, device);
          Optimizer optimizer = make_optimizer(config);
          optimizer.prepare(model);
          copy_values(good->optimizer, optimizer);
          optimizer.set_step_count(good->optimizer.step_count());
          optimizer.set_learning_rate(good->optimizer.learning_rate());
          return std::pair<Model, Optimizer>(std::move(model), std::move(optimizer));
        };
    auto [model, optimizer] = good->worker.run(std::move(copy)).get(step_deadline());
    auto replace = [straggler](WorkerContext&, Model with, Optimizer state) {
      straggler->model.emplace(std::move(with));
      straggler->optimizer = std::move(state);
    };
    straggler->worker.run(replace, std::move(model), std::move(optimizer)).get(step_deadline());
  }
  coordinator_.rejoin();
}

}  // namespace hearth
