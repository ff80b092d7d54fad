// Trainer: trains a model from a loss and data, on one device or many. It runs the epochs,
// validates, follows a learning rate schedule, prints progress, and saves the best weights and the
// state for a resume.
// Owned by the program; the Runtime and the data outlive it. Threads: one at a time; it owns the
// workers' threads.
// Invariants: (1) the same seed, data and number of devices give the same bits, also after a stop
// at any point and a resume. Devices of different kinds that share batches by speed (ShardSizes)
// are excepted; (2) between steps all replicas are alike (DataParallel).
#pragma once

#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/model_summary.hpp>
#include <hearth/modules/sharded_loader.hpp>
#include <hearth/parallel/call_place.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/parallel/gathered_figures.hpp>
#include <hearth/parallel/shard_balance.hpp>
#include <hearth/parallel/trainer_loss.hpp>
#include <hearth/parallel/trainer_losses.hpp>
#include <hearth/parallel/trainer_options.hpp>
#include <hearth/parallel/training_run.hpp>
#include <hearth/runtime/mistake_name.hpp>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

/// The source of a Trainer's batches: a ShardedLoader, or a class of the program's own.
///   next()            returns the parts of the next batch by rank, or one empty list at the end
///                     of an epoch; then the next epoch begins
///   cursor(), seek()  the position of the next batch: the same cursor gives the same batches
///   batch_count()     the number of batches in an epoch
///   set_world(ranks)  sets the number of parts, from the next batch on
template <class T, class Shard>
concept BatchSource = requires(T& source, const T& same, LoaderCursor cursor) {
  { source.next() } -> std::same_as<std::vector<Shard>>;
  { same.cursor() } -> std::same_as<LoaderCursor>;
  { same.batch_count() } -> std::convertible_to<std::int64_t>;
  source.seek(cursor);
  source.set_world(1);
};

/// Rejects a model that is no Module, with a readable message.
template <class Model, BatchShard Shard = HostBatch>
class Trainer {
  static_assert(detail::refuse_no_module<Model>());

 public:
  template <class Loss = detail::LossFunction>
  Trainer(const Runtime& runtime,
          const Model& model,
          Loss loss,
          const TrainerOptions& options,
          SourceLoc where = SourceLoc::current());
  Trainer(const Runtime&, Model, ...) = delete;
  template <class... Data>
  TrainingResult fit(const Data&... data);
};

/// Trains a model with one constructor and one call:
///
///   hearth::Trainer trainer(runtime, std::move(model), loss, {.epochs = 5, .folder = "run"});
///   const hearth::TrainingResult result = trainer.fit(train_set, test_set);
///
/// The loss has one of these forms. Every rank gets a copy, which one thread calls.
///   loss(outputs, targets)        outputs: the result of model.forward() on the batch's
///                                 inputs, with the mode if the model takes one;
///   loss(model, batch, context)   computes the outputs itself. batch: a Batch on the rank's device
///                                 (for other sources their Shard&); context: a LossContext.
/// A function of the first form that returns a Tensor may be overloaded, as cross_entropy is, or be
/// a template. Other overloaded functions need a lambda around them.
/// The loss returns the mean over the batch. For a mean over something other than samples (ignored
/// targets, class weights; see CrossEntropyLoss) it returns a LossSum. Then several devices and
/// accumulated batches train as one. Metrics with the second form need a LossOutputs.
template <Module Model, BatchShard Shard>
class Trainer<Model, Shard> final {
 public:
  /// Takes the model and gives each device a copy of it. Names its tensors by their paths in the
  /// model, for errors and traces, also where the program still holds them in a larger model.
  ///
  /// Errors: those of DataParallel; ArgumentError for a metric without a name or a function.
  template <class Loss = detail::LossFunction>
  Trainer(const Runtime& runtime,
          Model model,
          Loss loss,
          TrainerOptions options,
          SourceLoc where = SourceLoc::current())
      : runtime_(runtime),
        home_(runtime.device()),
        options_(checked(std::move(options), runtime, where)),
        loss_(detail::trainer_loss<Model, Shard>(std::move(loss), options_.precision)),
        summary_(detail::mistakes_named("Trainer",
                                        [&] { return model_summary(model, where).to_string(); })),
        parallel_(detail::in_trainers_name([&] {
          return DataParallel<Model, Shard>(
              runtime,
              std::move(model),
              training_loss<detail::kCanHaveWeight<Model, Shard, Loss>>(),
              parallel_options(),
              where);
        })) {}
  /// Deleted: the trainer refers to the runtime, and a temporary would not outlive it.
  template <class Loss = detail::LossFunction>
  Trainer(const Runtime&& runtime,
          Model model,
          Loss loss,
          TrainerOptions options,
          SourceLoc where = SourceLoc::current()) = delete;
  // Rejects every other call. The comment on the line is the message: compilers show it.
  // clang-format off
  Trainer(const Runtime&, Model, ...) = delete;  // it takes (runtime, model, loss, options): is an option misspelt? A loss with overloads, or a template, needs a lambda around it: [](const Tensor& a, const Tensor& b) { return f(a, b); }
  // clang-format on
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer() = default;

  /// Trains on a data set in batches of TrainerOptions::batch_size, and validates the model on
  /// another one after each epoch. Before the first step it tries loss and metrics on one
  /// validation batch. At Ctrl-C or SIGTERM, it finishes the current step, saves the state and
  /// returns. During a validation, it finishes the current batch; a resumed run repeats that
  /// validation. A second signal ends the program.
  ///
  /// Errors: ArgumentError for invalid options, data without a batch, a resumed run that had other
  /// options (TrainerOptions::notes), or after the Runtime has ended; FileError when a file cannot
  /// be written or read; those of DataParallel::step(), of the data and of the callbacks.
  /// Exceptions of the program's model, loss, metrics and data, such as ShapeError, keep their own
  /// lines. Saved files stay: a trained epoch is saved even when its validation or a callback
  /// fails.
  TrainingResult fit(
      const Dataset& train,
      const Dataset& validation,
      SourceLoc where = SourceLoc::current()) requires std::same_as<Shard, HostBatch> {
    ShardedLoader batches = loader(train, "the training data set", true, where);
    ShardedLoader judged = loader(validation, "the validation data set", false, where);
    return run(batches,
               &judged,
               {.notes = batch_notes(),
                .train_count = train.size(),
                .validation_count = validation.size()},
               where);
  }
  /// Trains without validation: metrics are not computed.
  TrainingResult fit(const Dataset& train, SourceLoc where = SourceLoc::current()) requires
      std::same_as<Shard, HostBatch> {
    ShardedLoader batches = loader(train, "the training data set", true, where);
    return run(batches,
               static_cast<ShardedLoader*>(nullptr),
               {.notes = batch_notes(), .train_count = train.size()},
               where);
  }
  /// Trains on batches from the program's own sources. The training starts at the current position
  /// of `train`; each validation starts at the first batch of its source.
  template <BatchSource<Shard> Source, BatchSource<Shard> Judged>
  TrainingResult fit(Source& train, Judged& validation, SourceLoc where = SourceLoc::current()) {
    return run(train, &validation, {}, where);
  }
  template <BatchSource<Shard> Source>
  TrainingResult fit(Source& train, SourceLoc where = SourceLoc::current()) {
    return run(train, static_cast<Source*>(nullptr), {}, where);
  }

  // Rejects every other call. The comment on the line is the message: compilers show it.
  // clang-format off
  TrainingResult fit(...) = delete;  // it takes data sets, (train) or (train, validation), and makes its own batches; or batch sources as ShardedLoader, which a DataLoader is not
  // clang-format on

  /// Computes the loss and metrics of a data set, with the averaged weights if an average is kept.
  /// When a device is lost, restarts on the others, if DataParallelOptions::on_loss allows it.
  EvaluationFigures evaluate(const Dataset& data, SourceLoc where = SourceLoc::current()) requires
      std::same_as<Shard, HostBatch> {
    ShardedLoader batches = loader(data, "the data set to evaluate", false, where);
    return evaluate(batches, where);
  }
  template <BatchSource<Shard> Source>
  EvaluationFigures evaluate(Source& batches, SourceLoc where = SourceLoc::current()) {
    training::require_runtime(home_, where);
    return detail::in_trainers_name([&] {
      return with_devices_left([&] { return judge(batches, false, {}, where)->figures(); });
    });
  }

  // clang-format off
  EvaluationFigures evaluate(...) = delete;  // it takes a data set, and makes its own batches; or a batch source as ShardedLoader, which a DataLoader is not
  // clang-format on

  /// Returns a copy of the current model on the first device; averaged, if an average is kept.
  [[nodiscard]] Model model(SourceLoc where = SourceLoc::current()) {
    return detail::in_trainers_name([&] {
      return options_.average_decay > 0 ? parallel_.averaged(where) : parallel_.snapshot(where);
    });
  }
  [[nodiscard]] const TrainerOptions& options() const noexcept { return options_; }
  /// The trainer of the steps, for tasks beyond the Trainer's own functions.
  [[nodiscard]] DataParallel<Model, Shard>& parallel() noexcept { return parallel_; }

 private:
  /// Checks the options. Adds the Runtime's devices if the program names none.
  static TrainerOptions checked(TrainerOptions options, const Runtime& runtime, SourceLoc where) {
    training::require_sound_metrics(options.metrics, where);
    detail::require_sound(options.precision, "Trainer", where);
    if (options.devices.empty()) {
      options.devices = runtime.devices();
    }
    return options;
  }
  [[nodiscard]] DataParallelOptions parallel_options() const {
    DataParallelOptions all = options_.parallel;
    all.devices = options_.devices;
    all.optimizer = options_.optimizer;
    all.clip = options_.clip;
    all.precision = options_.precision;
    all.average_decay = options_.average_decay;
    all.seed = options_.seed;
    return all;
  }
  template <bool kCanHaveWeight>
  [[nodiscard]] auto training_loss() const {
    return [loss = loss_](const Model& model, Shard& shard, WorkerContext& context) {
      const LossContext here{.device = context.device,
                             .mode = Mode::train,
                             .rank = context.rank,
                             .where = context.where};
      LossOutputs result = loss(model, shard, here);
      detail::require_loss("Trainer", result.loss, context.where);
      if constexpr (kCanHaveWeight) {
        return result;
      } else {
        return std::move(result.loss);
      }
    };
  }
  [[nodiscard]] ShardedLoader loader(const Dataset& data,
                                     const char* which,
                                     bool shuffles,
                                     SourceLoc where) {
    training::require_runtime(home_, where);
    training::require_sound_batches(options_, where);
    training::require_examples(data.size(), which, where);
    return ShardedLoader(data,
                         runtime_.executor(),
                         {.batch_size = options_.batch_size,
                          .seed = options_.seed,
                          .shuffle = shuffles,
                          .order = shuffles ? options_.order : ExampleOrder(),
                          .drop_last = shuffles && options_.drop_last,
                          .worker_count = options_.loader_worker_count,
                          .deadline = options_.loader_deadline,
                          .log = &runtime_.log(),
                          .name = "Trainer"},
                         parallel_.ranks(),
                         where);
  }
  [[nodiscard]] Metadata batch_notes() const {
    return {{"batch_size", std::to_string(options_.batch_size)}};
  }

  /// Evaluates all batches, or one batch for a trial, which leaves the ranks' random numbers as
  /// they were. Returns nullopt when on_batch() stopped the evaluation.
  template <class Source>
  [[nodiscard]] std::optional<detail::FigureSums> judge(Source& batches,
                                                        bool is_trial,
                                                        const ValidationProgress& on_batch,
                                                        SourceLoc where) {
    detail::FigureSums sums(options_.metrics);
    set_ranks(batches, where);
    batches.seek({});
    const std::int64_t most = is_trial ? 1 : std::numeric_limits<std::int64_t>::max();
    const std::int64_t count = batches.batch_count();
    for (std::int64_t i = 0; i < most; ++i) {
      const bool goes_on = !on_batch || on_batch(i, count);
      if (!goes_on && i != count) {
        return std::nullopt;
      }
      std::vector<Shard> shards = next_of(batches, where);
      if (shards.empty()) {
        break;
      }
      hand_over(shards);
      const auto parts = std::make_shared<std::vector<Shard>>(std::move(shards));
      const int first = parallel_.ranks().first;
      const auto judge_part = [parts, first, is_trial, loss = loss_, metrics = options_.metrics](
                                  const Model& model, WorkerContext& context) {
        const Generator before = context.generator;
        Shard& shard = parts->at(static_cast<std::size_t>(context.rank - first));
        take_over(shard);
        detail::FigurePart part = detail::figures_of(model, shard, loss, metrics, context);
        if (is_trial) {
          context.generator = before;
        }
        return part;
      };
      const auto own = [&] {
        return options_.average_decay > 0 ? parallel_.evaluate_averaged(judge_part, where)
                                          : parallel_.evaluate(judge_part, where);
      };
      for (const detail::FigurePart& part :
           detail::gathered_figures(parallel_.processes(), own, where)) {
        sums.add(part, where);
      }
    }
    return sums;
  }
  /// Returns fn(). After the loss of a device, retries it from the start on the remaining devices.
  template <class Fn>
  [[nodiscard]] auto with_devices_left(const Fn& fn) {
    for (std::size_t left = options_.devices.size() + options_.parallel.spares.size();; --left) {
      try {
        return fn();
      } catch (const Exception& exception) {
        const bool goes_on = options_.parallel.on_loss != DeviceLossPolicy::stop && left > 0;
        if (!goes_on || !detail::is_device_loss(exception.error())) {
          throw;
        }
      }
    }
  }
  template <class Source, class Judged>
  TrainingResult run(Source& train, Judged* validation, const TrainingData& data, SourceLoc where) {
    training::require_runtime(home_, where);
    TrainingPorts ports{
        .processes = parallel_.processes(),
        .batch_count = train.batch_count(),
        .data = data,
        .model = summary_,
        .world = [&] { return parallel_.world(); },
        .cursor = [&] { return train.cursor(); },
        .seek = [&](LoaderCursor cursor) { train.seek(cursor); },
        .step = [&] { return step(train, where); },
        .set_learning_rate = [&](double rate) { parallel_.set_learning_rate(rate, where); },
        .tune =
            [&](std::chrono::nanoseconds limit) {
              return training::tune_devices(runtime_, options_.devices, limit, where);
            },
        .save = [&](const std::filesystem::path& file,
                    const TrainingProgress& progress) { parallel_.save(file, progress, where); },
        .load = [&](const std::filesystem::path& file) { return parallel_.load(file, where); },
        .save_weights =
            [&](const std::filesystem::path& file, const Metadata& metadata) {
              parallel_.save_weights(file, metadata, where);
            }};
    if (validation != nullptr) {
      ports.validate = [&](const ValidationProgress& on_batch) {
        const std::optional<detail::FigureSums> sums =
            with_devices_left([&] { return judge(*validation, false, on_batch, where); });
        return sums ? std::optional(sums->figures()) : std::nullopt;
      };
      ports.try_validation = [&] {
        static_cast<void>(with_devices_left([&] { return judge(*validation, true, {}, where); }));
      };
    }
    return detail::in_trainers_name(
        [&] { return TrainingRun(options_, std::move(ports), where).run(); });
  }
  /// Sets the ranks of the source's next batches. A loader makes the shards of this process; a
  /// source of the program's own makes those of all ranks.
  template <class Source>
  void set_ranks(Source& source, SourceLoc where) const {
    if constexpr (std::same_as<Source, ShardedLoader>) {
      source.set_ranks(parallel_.ranks(), where);
    } else {
      source.set_world(parallel_.world());
    }
  }
  /// Shards of the ranks of this process.
  template <class Source>
  [[nodiscard]] std::vector<Shard> next_of(Source& source, SourceLoc where) const {
    if constexpr (std::same_as<Source, ShardedLoader>) {
      return source.next(where);
    } else {
      const RankRange ranks = parallel_.ranks();
      std::vector<Shard> shards = source.next();
      if (ranks.count == ranks.world || static_cast<int>(shards.size()) != ranks.world) {
        return shards;
      }
      std::vector<Shard> own;
      for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
        own.push_back(std::move(shards[static_cast<std::size_t>(rank)]));
      }
      return own;
    }
  }
  /// Reads the batches of the next step; returns an empty list once at the end of an epoch.
  template <class Source>
  [[nodiscard]] std::vector<std::vector<Shard>> read(Source& source, SourceLoc where) const {
    std::vector<std::vector<Shard>> batches;
    const auto wanted = static_cast<std::size_t>(options_.accumulate);
    const std::int64_t epoch = source.cursor().epoch;
    // The end of an epoch is returned only when no batch of it is left to train. After the last
    // batch the cursor may be in the next epoch.
    const auto has_more = [&] {
      const LoaderCursor cursor = source.cursor();
      return cursor.epoch == epoch && cursor.batch < source.batch_count();
    };
    while (batches.size() < wanted && (batches.empty() || has_more())) {
      std::vector<Shard> shards = next_of(source, where);
      if (shards.empty()) {
        break;
      }
      batches.push_back(std::move(shards));
    }
    return batches;
  }
  /// Rows by rank, over all batches of a step.
  [[nodiscard]] static std::vector<std::int64_t> rows_of(
      const std::vector<std::vector<Shard>>& batches) {
    std::vector<std::int64_t> rows(batches.front().size());
    for (const std::vector<Shard>& shards : batches) {
      for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        rows[rank] += shards[rank].size;
      }
    }
    return rows;
  }
  /// Sets the shares of the next batches by the speeds measured in the last steps.
  void balance(ShardedLoader& source,
               std::span<const std::int64_t> rows,
               const DataParallelReport& report,
               SourceLoc where) {
    if (options_.shards == ShardSizes::equal || runtime_.is_deterministic() ||
        parallel_.processes().size() > 1) {
      return;
    }
    std::vector<std::string> kinds;
    for (const Device& device : parallel_.devices(where)) {
      kinds.push_back(ShardBalance::kind_of(device.name(), device.description()));
    }
    if (balance_.set_ranks(std::move(kinds)) && !source.shares().empty()) {
      source.set_shares({}, where);
      return;
    }
    if (auto shares = balance_.note(rows, report.sweeps)) {
      source.set_shares(*std::move(shares), where);
    }
  }
  template <class Source>
  std::optional<DataParallelReport> step(Source& source, SourceLoc where) {
    const LoaderCursor begin = source.cursor();
    int count = parallel_.ranks().count;
    set_ranks(source, where);
    std::vector<std::vector<Shard>> batches = read(source, where);
    if (batches.empty()) {
      return std::nullopt;
    }
    bool is_first = true;
    std::vector<std::int64_t> rows;
    DataParallelReport report = parallel_.step(
        [&](const std::vector<Device>& devices) {
          // After the loss of a device: reads the same batches again for the remaining devices.
          if (!is_first || static_cast<int>(devices.size()) != count) {
            count = static_cast<int>(devices.size());
            set_ranks(source, where);
            source.seek(begin);
            batches = read(source, where);
          }
          is_first = false;
          rows = rows_of(batches);
          return std::move(batches);
        },
        where);
    if constexpr (std::same_as<Source, ShardedLoader>) {
      balance(source, rows, report, where);
    }
    return report;
  }

  const Runtime& runtime_;
  const Device home_;  ///< A device of the Runtime; shows when the Runtime has ended.
  const TrainerOptions options_;
  const detail::TrainerLoss<Model, Shard> loss_;
  const std::string summary_;
  DataParallel<Model, Shard> parallel_;
  ShardBalance balance_;
};

template <class Model, class Loss = detail::LossFunction>
Trainer(const Runtime&, Model, Loss, TrainerOptions, SourceLoc = SourceLoc::current())
    -> Trainer<Model, HostBatch>;
template <class Model>
Trainer(const Runtime&, Model, ...) -> Trainer<Model, HostBatch>;

}  // namespace hearth
