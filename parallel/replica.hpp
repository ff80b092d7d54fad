// Replica: one rank's copy of the model, with its optimizer and loss function, and how it takes
// part in a step.
// Shared by a trainer and the functions of its worker, of which one may not come back. Threads: its
// worker's only, where nothing else is said.
// Invariants: (1) run() tells the coordinator how its step ended, whatever happens in it; (2) a step
// that did not happen leaves no trace: weights, optimizer and generator are as before.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/gradient_exchange.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/ops.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace hearth {

/// A rank's part of a batch: it knows how many samples it has.
template <class T>
concept BatchShard = std::movable<T> && requires(const T& shard) {
  { shard.size } -> std::convertible_to<std::int64_t>;
};

/// A rank's part of a step.
template <BatchShard Shard>
struct ReplicaTask {
  std::int64_t step = 0;
  std::int64_t sample_count = 0;  ///< Of all ranks.
  std::shared_ptr<UpdateDecision> decision = nullptr;
  std::vector<Shard> shards = {};  ///< By micro-batch.
};

/// What is the same for all steps of a trainer.
struct StepTerms {
  BucketPlan plan;
  CoordinatorInbox coordinator;
  Duration lane_limit;    ///< How long a lane waits for a bucket that it has lent, or a decision.
  Duration update_limit;  ///< How long the worker waits for the end of the step.
};

namespace detail {
/// Gradients whose tensors come later; those of integers are zeros.
[[nodiscard]] Gradients without_values(const std::vector<NamedTensor>& parameters);
[[noreturn]] void throw_model_taken(SourceLoc where = {});
/// The worker was stopped in the middle of a step.
[[nodiscard]] ErrorRef given_up();
}  // namespace detail

template <Module Model, BatchShard Shard>
class Replica final {
 public:
  using LossFn = std::function<Tensor(const Model& model, Shard& shard, WorkerContext& context)>;
  using Task = ReplicaTask<Shard>;

  /// `first`: the generator of its worker.
  Replica(Optimizer optimizer, LossFn loss, const Generator& first)
      : optimizer_(std::move(optimizer)),
        loss_(std::move(loss)),
        draws_{.before = first, .after = first} {}

  void place(Model model) { model_.emplace(std::move(model)); }
  void place(Model model, Optimizer optimizer) {
    place(std::move(model));
    optimizer_ = std::move(optimizer);
  }
  /// Errors: ArgumentError when it was taken.
  [[nodiscard]] Model& model() {
    if (!model_) {
      detail::throw_model_taken();
    }
    return *model_;
  }
  [[nodiscard]] Optimizer& optimizer() noexcept { return optimizer_; }
  [[nodiscard]] Model take() {
    Model taken = std::move(model());
    model_.reset();
    return taken;
  }

  /// With which numbers a rank in its place goes on: those after the last step that has happened.
  /// Threads: any.
  [[nodiscard]] Generator generator() const HEARTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return draws_.decision && draws_.decision->is_committed() ? draws_.after : draws_.before;
  }

  /// What generator() says until the next step.
  void go_on_with(const Generator& next) { note({.before = next, .after = next}); }

  /// Waits for the values of model and optimizer. Errors: DeviceError when one is poisoned.
  void require_values() {
    std::vector<Pending<double>> first_values;  // a poisoned tensor has none, and so neither this
    const auto ask = [&](const std::string& /*path*/, const Tensor& tensor) {
      const std::int64_t count = tensor.shape().element_count();
      if (count > 0) {
        first_values.push_back(
            slice(reshape(tensor, {count}), 0, {.start = 0, .stop = 1}).item_later());
      }
    };
    std::as_const(model()).visit("", ask);
    std::as_const(optimizer_).visit("", ask);
    for (Pending<double>& each : first_values) {
      static_cast<void>(each.get());
    }
  }

  /// Differentiates the task's loss, exchanges gradients with the other ranks and updates the
  /// model, when all ranks can. Waits for the update.
  void run(Task task, const StepTerms& terms, WorkerContext& context);

 private:
  /// The worker's generator around the step that it is in, or the last one.
  struct Draws {
    Generator before;
    Generator after;
    std::shared_ptr<UpdateDecision> decision = nullptr;
  };
  void note(Draws draws) HEARTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    draws_ = std::move(draws);
  }
  /// Where the coordinator hears of this rank's update.
  [[nodiscard]] static JointUpdate joint_update(const Task& task, const StepTerms& terms, int rank);
  [[nodiscard]] Gradients differentiate(Task& task,
                                        GradientExchange& exchange,
                                        WorkerContext& context);
  /// The loss of one micro-batch, weighted by its share of all samples.
  [[nodiscard]] Tensor weighted_loss(const Model& tracked,
                                     Task& task,
                                     std::size_t index,
                                     WorkerContext& context) {
    Shard& shard = task.shards[index];
    const auto weight = static_cast<double>(shard.size) / static_cast<double>(task.sample_count);
    Tensor loss = loss_(tracked, shard, context);
    return weight == 1 ? loss : mul(std::move(loss), weight);
  }

  std::optional<Model> model_;
  Optimizer optimizer_;
  LossFn loss_;
  mutable Mutex mutex_;
  Draws draws_ HEARTH_GUARDED_BY(mutex_);
};

template <Module Model, BatchShard Shard>
void Replica<Model, Shard>::run(Task task, const StepTerms& terms, WorkerContext& context) {
  ErrorRef error = task.decision->error();
  if (error) {  // it was called off before its turn came
    terms.coordinator.finish(task.step, context.rank, std::move(error));
    return;
  }
  const Generator generator = context.generator;
  note({.before = generator, .after = generator, .decision = task.decision});
  try {
    take_over(task.shards);
    GradientExchange exchange(terms.plan, terms.coordinator, context, task.step, terms.lane_limit);
    Gradients gradients = differentiate(task, exchange, context);
    exchange.collect(gradients);
    note({.before = generator, .after = context.generator, .decision = task.decision});
    const Pending<StepReport> update =
        optimizer_.step(model(), std::move(gradients), joint_update(task, terms, context.rank));
    error = update.wait_for(terms.update_limit, context.stop) || !context.stop.stop_requested()
                ? update.wait(Deadline::in(Duration::zero())).shared_error()
                : detail::given_up();
  } catch (...) {
    error = context.failure();
    terms.coordinator.abort(task.step, error);
  }
  if (error && task.decision->abort(error)) {
    context.generator = generator;
  }
  terms.coordinator.finish(task.step, context.rank, std::move(error));
}

template <Module Model, BatchShard Shard>
JointUpdate Replica<Model, Shard>::joint_update(const Task& task,
                                                const StepTerms& terms,
                                                int rank) {
  const auto prepared =
      [coordinator = terms.coordinator, step = task.step, rank](Result<PreparedUpdate> update) {
        if (update.has_value()) {
          coordinator.prepared(step, rank, std::move(update).value());
        } else {
          coordinator.abort(step, update.shared_error());
        }
      };
  return {
      .decision = task.decision, .prepared = prepared, .deadline = Deadline::in(terms.lane_limit)};
}

template <Module Model, BatchShard Shard>
Gradients Replica<Model, Shard>::differentiate(Task& task,
                                               GradientExchange& exchange,
                                               WorkerContext& context) {
  std::erase_if(task.shards, [](const Shard& shard) { return shard.size == 0; });
  const Model& model = this->model();
  if (task.shards.empty()) {
    exchange.add_zeros();
    return detail::without_values(named_tensors(model));
  }
  Tensor loss_before;
  Gradients before;
  for (std::size_t i = 0; i + 1 < task.shards.size(); ++i) {
    auto [loss, gradients] = value_and_grad(
        model, [&](const Model& tracked) { return weighted_loss(tracked, task, i, context); });
    if (i == 0) {
      loss_before = std::move(loss);
      before = std::move(gradients);
    } else {
      loss_before = add(std::move(loss_before), std::move(loss));
      before.accumulate(std::move(gradients));
    }
  }
  const auto differentiated = [&](const Model& tracked) {
    Tensor loss = weighted_loss(tracked, task, task.shards.size() - 1, context);
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

}  // namespace hearth
