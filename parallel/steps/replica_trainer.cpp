#include <hearth/parallel/replica_trainer.hpp>

#include "data_parallel_checks.hpp"
#include "process_start.hpp"
#include "rank_group.hpp"
#include "step_terms.hpp"

#include "parallel/processes/common_outcome.hpp"

#include <hearth/modules/checkpoint.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/call_place.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/inproc_collective.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace hearth {
namespace {

// Types and shapes of the gradients, of the moves of Buffers, and of the weight of the loss.
std::vector<ParameterForm> forms_of(RankModel& model, bool has_weight, DType gradients) {
  std::vector<ParameterForm> forms;
  for (const std::vector<TensorRef>& refs : {model.parameters(), model.buffers()}) {
    for (const TensorRef& ref : refs) {
      forms.push_back({.dtype = ref.tensor->dtype(),
                       .shape = ref.tensor->shape(),
                       .is_frozen = ref.is_frozen()});
    }
  }
  if (gradients != DType::f32) {
    for (ParameterForm& form : std::span(forms).first(model.parameters().size())) {
      form.summed_in = gradients;
    }
  }
  if (has_weight) {
    const bool is_f64 = std::ranges::count(forms, DType::f64, &ParameterForm::dtype) > 0;
    forms.push_back({.dtype = is_f64 ? DType::f64 : DType::f32, .shape = Shape{1}});
  }
  return forms;
}

DataParallelOptions checked(DataParallelOptions options, SourceLoc where) {
  detail::require_sound(options, where);
  return options;
}

// A multiplier of random bits, so that different lists of changes give different numbers.
constexpr std::uint64_t kChangeFactor = 0x9E3779B97F4A7C15;

BucketPlan checked_plan(RankModel& model,
                        const RankLoss& loss,
                        const DataParallelOptions& options,
                        SourceLoc where) {
  for (const TensorRef& ref : model.tensors()) {
    detail::require_tensor("DataParallel", ref.path, *ref.tensor, where);
  }
  const std::vector<TensorRef> parameters = model.parameters();
  detail::require_trainable(parameters, where);
  detail::require_groups(options.optimizer, parameters, where);
  return BucketPlan(forms_of(model, loss.can_have_weight(), options.precision.gradients),
                    options.bucket_bytes);
}

// Throws the error of a file operation, including not_found.
void throw_file_error(const Status& status) {
  if (status.has_value()) {
    return;
  }
  const ErrorRef error = status.shared_error();
  if (error->code == ErrorCode::not_found) {
    detail::mark_read(*error);
    throw FileError(error);
  }
  status.value();
}

}  // namespace

struct ReplicaTrainer::Parts {
  Parts(const Runtime& runtime,
        RankModel& model,
        std::unique_ptr<RankLoss> loss_of,
        DataParallelOptions settings,
        SourceLoc where)
      : home(runtime.device()),
        options(checked(std::move(settings), where)),
        plan(checked_plan(model, *loss_of, options, where)),
        agreement(detail::start_processes(options, plan, model, loss_of->can_have_weight(), where)),
        engine(chosen_engine()),
        coordinator(runtime.executor(), *engine, coordinator_options(runtime)),
        ranks(runtime, model, std::move(loss_of), options, processes(), where) {}

  [[nodiscard]] std::chrono::nanoseconds step_wait() const {
    const auto own = detail::saturated_sum(
        detail::saturated_sum(options.step_limit, options.deadline), options.deadline);
    return agreement ? detail::saturated_sum(own, own) : own;  // the other processes' limit is own
  }
  [[nodiscard]] ProcessRanks processes() const {
    return agreement ? agreement->ranks() : ProcessRanks{.counts = {options.devices.size()}};
  }
  [[nodiscard]] Collective* chosen_engine() const {
    if (agreement) {
      return &agreement->engine();
    }
    return options.engine != nullptr ? options.engine : inproc.get();
  }
  // An abandoned thread may still be in a call of the built-in engine, so the coordinator keeps the
  // engine alive.
  CoordinatorOptions coordinator_options(const Runtime& runtime) const {
    CoordinatorOptions all = detail::coordinator_options(runtime, options, plan.buckets().size());
    all.kept_alive = inproc;
    all.agreement = agreement;
    all.first_rank = static_cast<int>(processes().first());
    all.ranks = detail::rank_names(options.devices, processes().first());
    return all;
  }

  const Device home;  ///< A device of the Runtime; shows when the Runtime has ended.
  const DataParallelOptions options;
  const std::shared_ptr<InprocCollective> inproc = std::make_shared<InprocCollective>();
  const BucketPlan plan;
  const std::shared_ptr<StepAgreement> agreement;  ///< Null for one process.
  Collective* const engine;
  StepCoordinator coordinator;
  const std::shared_ptr<const StepTerms> terms = std::make_shared<const StepTerms>(
      StepTerms{.plan = plan,
                .coordinator = coordinator.inbox(),
                .clip = options.clip,
                .precision = options.precision,
                .lane_limit = options.step_limit,
                .update_limit = detail::saturated_sum(options.step_limit, options.deadline)});
  RankGroup ranks;
  ErrorRef loss;  ///< The reason that steps are refused; null: none.
  std::int64_t last_step = 0;
  /// Calls that change all replicas; and the calls that have happened, as one number. It is the
  /// same in all processes unless a change has failed in some of them.
  std::uint64_t change_count = 0;
  std::uint64_t changes = 0;
  bool is_model_taken = false;
};

ReplicaTrainer::ReplicaTrainer(const Runtime& runtime,
                               std::unique_ptr<RankModel> model,
                               std::unique_ptr<RankLoss> loss,
                               DataParallelOptions options,
                               SourceLoc where)
    : parts_(std::make_unique<Parts>(runtime, *model, std::move(loss), std::move(options), where)) {
}

ReplicaTrainer::~ReplicaTrainer() {
  parts_->coordinator.cancel(std::make_shared<const Error>(
      Error{.code = ErrorCode::cancelled, .text = "the trainer was destroyed"}));
}

// With several processes all of them begin the step, or none.
std::int64_t ReplicaTrainer::begin_batch(const std::vector<std::vector<std::int64_t>>& sizes,
                                         const std::function<void()>& hand_over,
                                         SourceLoc where) {
  if (!parts_->agreement) {
    const std::int64_t sample_count = checked_batch(sizes, where);
    detail::require_samples(sample_count, where);
    hand_over();
    return sample_count;
  }
  std::int64_t sample_count = 0;
  ErrorRef failure;
  try {
    sample_count = checked_batch(sizes, where);
    hand_over();
  } catch (...) {
    failure = detail::error_of_current_exception();
  }
  sample_count = parts_->agreement->begin(
      parts_->last_step + 1, sample_count, parts_->changes, failure, where);
  detail::require_samples(sample_count, where);
  return sample_count;
}

std::int64_t ReplicaTrainer::checked_batch(const std::vector<std::vector<std::int64_t>>& sizes,
                                           SourceLoc where) {
  if (parts_->is_model_taken) {
    detail::throw_model_taken(where);
  }
  parts_->coordinator.require_steps_told(where);
  require_all(where);
  std::int64_t sample_count = 0;
  for (const std::vector<std::int64_t>& shards : sizes) {
    detail::require_shard_count(shards.size(), size(), where);
    for (const std::int64_t each : shards) {
      sample_count = detail::with_samples(sample_count, each, where);
    }
  }
  return sample_count;
}

Pending<DataParallelReport> ReplicaTrainer::step(std::vector<std::unique_ptr<RankShards>> shards,
                                                 std::int64_t sample_count,
                                                 SourceLoc where) {
  const std::int64_t step = ++parts_->last_step;
  const auto decision = std::make_shared<UpdateDecision>();
  Pending<DataParallelReport> report =
      parts_->coordinator.begin(step, sample_count, decision, where);
  for (std::size_t index = 0; index < size(); ++index) {
    ReplicaTask task{.step = step,
                     .sample_count = sample_count,
                     .decision = decision,
                     .shards = std::move(shards[index]),
                     .where = where};
    RankGroup::Rank& rank = parts_->ranks[index];
    rank.worker.post(
        [replica = rank.replica, terms = parts_->terms, task = std::move(task)](
            WorkerContext& context) mutable { replica->run(std::move(task), *terms, context); });
  }
  return report;
}

bool ReplicaTrainer::can_repeat(const Status& step) const {
  return !step.has_value() && parts_->options.on_loss != DeviceLossPolicy::stop &&
         (detail::is_device_loss(step.error()) || parts_->coordinator.has_trouble());
}

std::size_t ReplicaTrainer::most_repeats() const {
  return size() + parts_->options.spares.size();
}

void ReplicaTrainer::require_all(SourceLoc where) {
  detail::at_call(where, [&] {
    mend();
    if (parts_->loss) {
      throw_error(parts_->loss);
    }
    parts_->ranks.require_answers();
  });
}

RankRange ReplicaTrainer::ranks() const {
  const ProcessRanks all = parts_->processes();
  if (!parts_->agreement) {
    return {.first = 0, .count = static_cast<int>(size()), .world = static_cast<int>(size())};
  }
  return {.first = static_cast<int>(all.first()),
          .count = static_cast<int>(all.count()),
          .world = static_cast<int>(all.world())};
}

const ProcessGroup& ReplicaTrainer::processes() const noexcept {
  return parts_->options.processes;
}

void ReplicaTrainer::settle(const ErrorRef& failure, std::string_view what, SourceLoc where) const {
  if (parts_->agreement) {
    detail::settle(processes(), failure, what, where);
  } else if (failure) {
    detail::mark_read(*failure);  // the caller gets it
    throw_error(failure);
  }
}

std::size_t ReplicaTrainer::size() const noexcept {
  return parts_->ranks.size();
}

DeviceWorker& ReplicaTrainer::worker(std::size_t rank) const {
  return parts_->ranks[rank].worker;
}

std::shared_ptr<RankReplica> ReplicaTrainer::replica(std::size_t rank) const {
  return parts_->ranks[rank].replica;
}

void ReplicaTrainer::record_late(const std::vector<bool>& is_late) {
  parts_->ranks.record_late(is_late);
}

Deadline ReplicaTrainer::step_deadline() const {
  return Deadline::in(parts_->step_wait());
}

std::vector<Status> ReplicaTrainer::run_on_ranks(
    const std::function<void(RankReplica& replica, WorkerContext& context)>& fn, SourceLoc where) {
  std::vector<Pending<void>> pending;
  for (std::size_t index = 0; index < size(); ++index) {
    pending.push_back(
        worker(index).run([fn, place = replica(index), where](WorkerContext& context) mutable {
          context.where = where;
          fn(*place, context);
        }));
  }
  const Deadline deadline = step_deadline();
  std::vector<Status> outcomes;
  outcomes.reserve(pending.size());
  std::vector<bool> is_late;
  is_late.reserve(pending.size());
  for (const Pending<void>& each : pending) {
    outcomes.push_back(each.wait({.deadline = deadline}));
  }
  for (const Pending<void>& each : pending) {
    is_late.push_back(!each.is_ready());
  }
  record_late(is_late);
  return outcomes;
}

// With several processes every one of them comes to the common outcome, also one whose ranks are
// lost.
void ReplicaTrainer::change_replicas(
    const std::function<void(RankReplica& replica, WorkerContext& context)>& fn, SourceLoc where) {
  ++parts_->change_count;
  ErrorRef failure;
  try {
    require_all(where);
    const std::vector<Status> outcomes = run_on_ranks(fn, where);
    detail::at_call(where, [&] { note_change(outcomes); });
    for (const Status& outcome : outcomes) {
      failure = failure ? failure : outcome.shared_error();
    }
  } catch (...) {
    failure = detail::error_of_current_exception();
  }
  detail::at_call(where, [&] { settle(failure, "a change of all replicas", where); });
}

void ReplicaTrainer::note_change(const std::vector<Status>& outcomes) {
  if (!std::ranges::all_of(outcomes, &Status::has_value)) {
    parts_->ranks.keep_alike(outcomes, parts_->coordinator.trouble().stragglers);
  }
  if (std::ranges::any_of(outcomes, &Status::has_value)) {
    parts_->changes = parts_->changes * kChangeFactor + parts_->change_count;
  }
}

// Phases: every rank prepares, if there is something to prepare, and any failure ends the change;
// every rank commits. A rank that fails or is late in the commit gets the state of one that has
// committed, before the next step. A process of which no rank commits throws; the next step finds
// that the processes differ.
void ReplicaTrainer::change_all_or_none(
    const std::function<void(RankReplica& replica, WorkerContext& context)>& prepare,
    const std::function<void(RankReplica& replica, WorkerContext& context)>& commit,
    SourceLoc where) {
  ++parts_->change_count;
  if (prepare) {
    ErrorRef failure;
    try {
      require_all(where);
      for (const Status& each : run_on_ranks(prepare, where)) {
        failure = failure ? failure : each.shared_error();
      }
    } catch (...) {
      failure = detail::error_of_current_exception();
    }
    detail::at_call(where, [&] { settle(failure, "a change of all replicas", where); });
  } else {
    require_all(where);
  }
  const std::vector<Status> outcomes = run_on_ranks(commit, where);
  detail::at_call(where, [&] {
    note_change(outcomes);
    if (std::ranges::none_of(outcomes, &Status::has_value)) {
      outcomes.front().value();
    }
  });
}

template <class Fn>
auto ReplicaTrainer::with_ranks_left(SourceLoc where, const Fn& fn) {
  for (std::size_t left = most_repeats();; --left) {
    try {
      return detail::at_call(where, fn);
    } catch (const Exception& exception) {
      const bool is_of_rank =
          detail::is_device_loss(exception.error()) || !parts_->ranks.is_whole();
      if (left == 0 || !is_of_rank || parts_->options.on_loss == DeviceLossPolicy::stop) {
        throw;
      }
    }
  }
}

std::vector<Generator> ReplicaTrainer::generators(SourceLoc where) {
  std::vector<Pending<Generator>> pending;
  for (std::size_t index = 0; index < size(); ++index) {
    pending.push_back(worker(index).run([](WorkerContext& context) { return context.generator; }));
  }
  const Deadline deadline = step_deadline();
  std::vector<Generator> all;
  for (std::size_t index = 0; index < size(); ++index) {
    RankGroup::Rank& rank = parts_->ranks[index];
    rank.is_late = rank.is_late || !detail::PendingAccess::is_ready_by(pending[index], deadline);
    all.push_back(std::move(pending[index]).get({.deadline = deadline}));
  }
  return parts_->agreement ? detail::all_generators(*parts_->agreement, all, where) : all;
}

void ReplicaTrainer::save(const std::filesystem::path& file,
                          TrainingProgress progress,
                          SourceLoc where) {
  detail::require_own_names(progress.notes, "DataParallel::save", where);
  with_ranks_left(where, [&] {
    require_all(where);
    progress.generators = generators(where);
    write_first(
        [file, progress, where](RankReplica& replica) { replica.save(file, progress, where); },
        where);
  });
}

void ReplicaTrainer::save_weights(const std::filesystem::path& file,
                                  const Metadata& metadata,
                                  SourceLoc where) {
  detail::require_weights_name(file, where);
  detail::require_own_names(metadata, "DataParallel::save_weights", where);
  with_ranks_left(where, [&] {
    mend();
    write_first([file, metadata, where](
                    RankReplica& replica) { replica.save_weights(file, metadata, where); },
                where);
  });
}

// Process 0 writes; the others wait for it, and get its error.
void ReplicaTrainer::write_first(std::function<void(RankReplica& replica)> fn, SourceLoc where) {
  detail::run_on_first(
      processes(), [&] { write(std::move(fn), where); }, "the writing of a file", where);
}

// All replicas hold the same values, so any rank can write. A rank that does not begin hangs. A
// slow disk is not the rank's fault, and no other rank would be faster.
void ReplicaTrainer::write(std::function<void(RankReplica& replica)> fn, SourceLoc where) {
  RankGroup::Rank& rank = parts_->ranks.good();
  Promise<void> begin;
  const Pending<void> begun = begin.pending();
  const Pending<void> done =
      rank.worker.run([place = rank.replica, fn = std::move(fn), begin = std::move(begin), where](
                          WorkerContext& context) mutable {
        context.where = where;
        begin.set_value();
        fn(*place);
      });
  if (!detail::PendingAccess::is_ready_by(begun, step_deadline())) {
    rank.is_late = true;
    detail::throw_late_writer(rank.worker, parts_->step_wait(), "begin to write");
  }
  if (!detail::PendingAccess::is_ready_by(done, Deadline::in(parts_->options.save_limit))) {
    detail::throw_late_writer(rank.worker, parts_->options.save_limit, "end writing");
  }
  throw_file_error(done.wait());
}

TrainingProgress ReplicaTrainer::load(const std::filesystem::path& file, SourceLoc where) {
  using Loaded = std::vector<std::optional<detail::LoadedTraining>>;
  ErrorRef failure;
  try {
    require_all(where);  // the number of ranks stays fixed from here until the change
  } catch (...) {
    failure = detail::error_of_current_exception();
  }
  settle(failure, "the begin of a load", where);
  if (parts_->agreement) {
    detail::require_common_file(*parts_->agreement, file, where);
  }
  const auto loaded = std::make_shared<Loaded>(size());
  const auto progress = std::make_shared<TrainingProgress>();
  const int first = ranks().first;
  const auto place_of = [ loaded, first ](const WorkerContext& context) -> auto& {
    return (*loaded)[static_cast<std::size_t>(context.rank - first)];
  };
  try {
    change_all_or_none(
        [file, where, first, place_of, progress](RankReplica& replica, WorkerContext& context) {
          place_of(context) = replica.read(file, context, where);
          if (context.rank == first) {
            *progress = place_of(context)->progress;
          }
        },
        [where, place_of](RankReplica& replica, WorkerContext& context) {
          replica.place(*std::exchange(place_of(context), std::nullopt), context, where);
        },
        where);
  } catch (const Exception& exception) {
    throw_file_error(Status(exception.shared_error()));
  }
  parts_->changes = parts_->change_count;  // the file's state ends earlier differences
  return std::move(*progress);
}

// Equal optimizers accept or reject a rate alike, so one round is enough; a schedule calls this
// every step.
void ReplicaTrainer::set_learning_rate(double rate, SourceLoc where) {
  change_all_or_none(
      {},
      [rate, where](RankReplica& replica, WorkerContext&) {
        replica.optimizer().set_learning_rate(rate, where);
      },
      where);
}

std::unique_ptr<RankModel> ReplicaTrainer::snapshot(SourceLoc where) {
  return with_ranks_left(where, [&] {
    mend();
    return retrieve(
        [where](RankReplica& replica, WorkerContext& context) {
          return replica.model(where).copy_to(context.device, where);
        },
        where);
  });
}

void ReplicaTrainer::require_average(SourceLoc where) const {
  if (parts_->options.average_decay == 0) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "DataParallel: no average of the weights is kept: set average_decay",
                      .op = "DataParallel",
                      .location = where});
  }
}

std::unique_ptr<RankModel> ReplicaTrainer::averaged(SourceLoc where) {
  require_average(where);
  return with_ranks_left(where, [&] {
    mend();
    return retrieve(
        [where](RankReplica& replica, WorkerContext& context) {
          std::unique_ptr<RankModel> model = replica.model(where).copy_to(context.device, where);
          replica.average()->apply_to(model->parameters(), where);
          return model;
        },
        where);
  });
}

std::unique_ptr<RankModel> ReplicaTrainer::take_model(SourceLoc where) {
  return detail::at_call(where, [&] {
    mend();
    parts_->is_model_taken = true;
    return retrieve([](RankReplica& replica, WorkerContext&) { return replica.take(); }, where);
  });
}

std::unique_ptr<RankModel> ReplicaTrainer::retrieve(
    std::function<std::unique_ptr<RankModel>(RankReplica& replica, WorkerContext& context)> fetch,
    SourceLoc where) {
  RankGroup::Rank& rank = parts_->ranks.good();
  Pending<std::unique_ptr<RankModel>> pending = rank.worker.run(
      [place = rank.replica, fetch = std::move(fetch), where](WorkerContext& context) {
        context.where = where;
        std::unique_ptr<RankModel> model = fetch(*place, context);
        detail::publish_all(*model);
        return model;
      });
  const bool has_come = detail::PendingAccess::is_ready_by(pending, step_deadline());
  // With `stop`, the next call then tries another rank.
  rank.is_late = !has_come && parts_->options.on_loss == DeviceLossPolicy::stop;
  std::unique_ptr<RankModel> model =
      std::move(pending).get({.deadline = Deadline::in(std::chrono::nanoseconds::zero())});
  detail::adopt_all(*model);
  return model;
}

std::vector<Device> ReplicaTrainer::devices(SourceLoc where) {
  return detail::at_call(where, [&] {
    mend();
    return parts_->ranks.devices();
  });
}

const BucketPlan& ReplicaTrainer::buckets() const noexcept {
  return parts_->plan;
}

CoordinatorStatistics ReplicaTrainer::statistics(SourceLoc where) {
  return detail::at_call(where, [&] {
    detail::require_runtime(parts_->home);
    return parts_->coordinator.statistics();
  });
}

// Every public call begins with mend(), inside at_call, unless it reads only state of this class.
void ReplicaTrainer::mend() {
  Parts& all = *parts_;
  detail::require_runtime(all.home);
  if (all.loss || (!all.coordinator.has_trouble() && all.ranks.is_whole())) {
    return;
  }
  all.loss = all.ranks.mend([&] { return all.coordinator.trouble(); }, all.step_wait());
  // with a hung rank, its messages about the last step must still arrive
  if (!all.loss && !all.ranks.has_hung()) {
    const std::vector<Device> devices = all.ranks.devices();
    all.coordinator.rejoin(detail::rank_names(devices, all.processes().first()),
                           detail::rank_progress(devices));
    detail::log_recovery(all.ranks.devices());
  }
}

}  // namespace hearth
