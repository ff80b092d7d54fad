// RankReplica: one rank's copy of the model, with its optimizer and loss function, and the rank's
// part of a step. Shared by a trainer and the functions of its worker, one of which may never
// return.
// Threads: its worker's only, unless a function states otherwise.
// Invariants: (1) run() always notifies the coordinator how its step ended; (2) a step that did not
// happen leaves no trace: weights, Buffers, optimizer and generator are as before.
#pragma once

#include <hearth/modules/loss_scaler.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/modules/weight_average.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/update_decision.hpp>
#include <hearth/runtime/update_rule.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace hearth {

class GradientExchange;
class UpdateGroup;
struct StepTerms;
struct WorkerContext;

/// A rank's part of a step.
struct ReplicaTask {
  std::int64_t step = 0;
  std::int64_t sample_count = 0;  ///< Sample count of all ranks.
  std::shared_ptr<UpdateDecision> decision = nullptr;
  std::unique_ptr<RankShards> shards = nullptr;
  SourceLoc where = {};  ///< The call of step().
};

class RankReplica final {
 public:
  /// `first`: the generator of its worker.
  RankReplica(Optimizer optimizer, std::unique_ptr<RankLoss> loss, const Generator& first);

  void place(std::unique_ptr<RankModel> model,
             Optimizer optimizer,
             std::optional<WeightAverage> average = std::nullopt,
             std::optional<LossScaler> scaler = std::nullopt);
  /// Errors: ArgumentError after take().
  [[nodiscard]] RankModel& model(SourceLoc where = {});
  [[nodiscard]] Optimizer& optimizer() noexcept { return optimizer_; }
  /// Average of the weights over the steps, if one is kept.
  [[nodiscard]] std::optional<WeightAverage>& average() noexcept { return average_; }
  /// The loss scale, if there is one.
  [[nodiscard]] std::optional<LossScaler>& scaler() noexcept { return scaler_; }
  /// Moves the model out. Errors: those of model().
  [[nodiscard]] std::unique_ptr<RankModel> take();

  /// The generator with which a rank in this place continues: the state after the last step that
  /// happened. Threads: any.
  [[nodiscard]] Generator generator() const HEARTH_EXCLUDES(mutex_);

  /// Sets the result of generator() until the next step.
  void set_generator(const Generator& next) { note({.before = next, .after = next}); }

  /// Waits for the values of model, optimizer and average. Errors: DeviceError when one is
  /// poisoned.
  void require_values(SourceLoc where);

  /// Writes the whole training state. Errors: those of save_training().
  void save(const std::filesystem::path& file, const TrainingProgress& progress, SourceLoc where);
  /// Writes the weights alone: the averaged ones, if an average is kept. Errors: those of
  /// hearth::save_weights().
  void save_weights(const std::filesystem::path& file, const Metadata& metadata, SourceLoc where);
  /// Brings the state in the file to this rank's device, for place(). Changes nothing. Errors:
  /// those of load_training(); FileError bad_format when the file is from another number of ranks.
  [[nodiscard]] detail::LoadedTraining read(const std::filesystem::path& file,
                                            const WorkerContext& context,
                                            SourceLoc where);
  /// Replaces this rank's state and its worker's generator by the loaded ones.
  void place(detail::LoadedTraining loaded, WorkerContext& context, SourceLoc where);

  /// Differentiates the task's loss, exchanges gradients with the other ranks, and updates the
  /// model if all ranks can. Waits for the update.
  void run(ReplicaTask task, const StepTerms& terms, WorkerContext& context);

 private:
  /// The worker's generator before and after the current or last step.
  struct Draws {
    Generator before;
    Generator after;
    std::shared_ptr<UpdateDecision> decision = nullptr;
  };
  [[nodiscard]] detail::TrainingParts parts();
  void note(Draws draws) HEARTH_EXCLUDES(mutex_);
  /// Result of a rank's sweeps over its part of a step.
  struct Swept {
    Gradients gradients;
    bool has_mean_loss = false;  ///< The rank has samples, and its loss has no weight.
  };
  [[nodiscard]] Swept differentiate(ReplicaTask& task,
                                    const StepTerms& terms,
                                    GradientExchange& exchange,
                                    WorkerContext& context);
  /// Adds the changes that this rank's loss makes to the model's Buffers, scaled by the rank's
  /// share of the samples.
  void add_moves(StateUpdates& updates, const ReplicaTask& task, GradientExchange& exchange);
  /// Adds the weight of the loss, if the plan has a place for it.
  void add_weight(Tensor weight, GradientExchange& exchange, const WorkerContext& context);
  /// Queues the updates of the Buffers. `moves`: by Buffer, in the model's order; empty for integer
  /// Buffers.
  void move_buffers(std::vector<Tensor> moves, UpdateGroup& group);

  std::unique_ptr<RankModel> model_;
  Optimizer optimizer_;
  std::optional<WeightAverage> average_;
  std::optional<LossScaler> scaler_;
  const std::unique_ptr<RankLoss> loss_;
  UpdateRule move_;
  mutable detail::Mutex mutex_;
  Draws draws_ HEARTH_GUARDED_BY(mutex_);
};

namespace detail {
[[noreturn]] void throw_model_taken(SourceLoc where = {});
/// Publish and adopt all tensors of a model on its way to another thread.
void publish_all(RankModel& model);
void adopt_all(RankModel& model);
}  // namespace detail

}  // namespace hearth
