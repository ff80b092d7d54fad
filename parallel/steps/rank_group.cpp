#include "rank_group.hpp"

#include "data_parallel_checks.hpp"

#include <hearth/runtime/generator.hpp>

#include <string>
#include <tuple>
#include <utility>

namespace hearth {
namespace {

// Error for a rank whose device was restarted by other code.
ErrorRef loss_of(const Device& device) {
  return std::make_shared<const Error>(
      Error{.code = ErrorCode::device_lost,
            .text = "DataParallel: the device was restarted, which lost its replica",
            .op = "DataParallel",
            .device = device.name()});
}

// Returns the generator with which a new rank in this place continues.
Generator generator_of(RankGroup::Rank& rank, std::chrono::nanoseconds limit) {
  if (rank.is_hung) {
    return rank.replica->generator();
  }
  return rank.worker.run([](WorkerContext& context) { return context.generator; })
      .get({.deadline = Deadline::in(limit)});
}

}  // namespace

RankGroup::Rank::Rank(const Runtime& runtime,
                      const Device& device,
                      const WorkerOptions& options,
                      Optimizer with,
                      std::unique_ptr<RankLoss> loss)
    : replica(std::make_shared<RankReplica>(
          std::move(with),
          std::move(loss),
          Generator(options.seed).fork(static_cast<std::uint64_t>(options.rank)))),
      number(options.rank),
      world(options.world),
      worker(runtime, device, options) {}

RankGroup::RankGroup(const Runtime& runtime,
                     const RankModel& model,
                     std::unique_ptr<RankLoss> loss,
                     const DataParallelOptions& options,
                     const ProcessRanks& processes,
                     SourceLoc where)
    : runtime_(runtime),
      made_at_(where),
      loss_(std::move(loss)),
      optimizer_(options.optimizer),
      average_decay_(options.average_decay),
      precision_(options.precision),
      seed_(options.seed),
      policy_(options.on_loss),
      hang_limit_(options.hang_limit),
      shutdown_limit_(options.shutdown_limit),
      first_rank_(static_cast<int>(processes.first())),
      foreign_count_(static_cast<int>(processes.world() - processes.count())),
      spares_(options.spares) {
  for (std::size_t index = 0; index < options.devices.size(); ++index) {
    ranks_.push_back(make_rank(index, options.devices.size(), options.devices[index]));
  }
  for (const Place& rank : ranks_) {
    begin_placing(*rank);
    place(*rank,
          model.copy_to(rank->worker.device(), made_at_),
          make_optimizer(optimizer_, made_at_),
          make_average(),
          make_scaler(rank->worker.device()),
          kDefaultWait);
  }
}

RankGroup::~RankGroup() {
  for (const Place& rank : ranks_) {
    rank->worker.stop();
  }
  const Deadline limit = Deadline::in(shutdown_limit_);
  for (const Place& rank : ranks_) {
    rank->worker.end(limit);
  }
}

std::vector<Device> RankGroup::devices() const {
  std::vector<Device> all;
  for (const Place& rank : ranks_) {
    all.push_back(rank->worker.device());
  }
  return all;
}

bool RankGroup::is_whole() const {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const Place& rank = ranks_[index];
    if (!is_good(rank) || rank->is_late || !is_numbered(index)) {
      return false;
    }
  }
  return true;
}

void RankGroup::require_answers() const {
  const auto found = std::ranges::find_if(ranks_, &RankGroup::is_hung);
  if (found != ranks_.end()) {
    detail::throw_hang((*found)->worker, hang_limit_);
  }
}

RankGroup::Rank& RankGroup::good() const {
  auto found = std::ranges::find_if(
      ranks_, [](const Place& rank) { return is_good(rank) && !rank->is_late; });
  if (found == ranks_.end()) {
    found = std::ranges::find_if(ranks_, &RankGroup::is_good);
  }
  if (found == ranks_.end()) {
    detail::throw_no_replica();
  }
  return **found;
}

void RankGroup::record_late(const std::vector<bool>& is_late) {
  for (std::size_t index = 0; index < is_late.size(); ++index) {
    ranks_[index]->is_late = ranks_[index]->is_late || is_late[index];
  }
}

bool RankGroup::is_good(const Place& rank) {
  const Device& device = rank->worker.device();
  return !rank->is_stale && !rank->is_hung && !device.is_lost() &&
         rank->generation == device.generation();
}

bool RankGroup::is_numbered(std::size_t index) const {
  return ranks_[index]->number == number_of(index) &&
         ranks_[index]->world == world_of(ranks_.size());
}

RankGroup::Place RankGroup::make_rank(std::size_t index,
                                      std::size_t local_world,
                                      const Device& device) const {
  return std::make_unique<Rank>(runtime_,
                                device,
                                WorkerOptions{.rank = number_of(index),
                                              .world = world_of(local_world),
                                              .seed = seed_,
                                              .shutdown_limit = shutdown_limit_},
                                make_optimizer(optimizer_, made_at_),
                                loss_->copy());
}

void RankGroup::begin_placing(Rank& rank) {
  rank.is_stale = true;
  rank.generation = rank.worker.device().generation();
}

void RankGroup::place(Rank& rank,
                      std::unique_ptr<RankModel> model,
                      Optimizer optimizer,
                      std::optional<WeightAverage> average,
                      std::optional<LossScaler> scaler,
                      std::chrono::nanoseconds limit) {
  auto put = [at = rank.replica](WorkerContext&,
                                 std::unique_ptr<RankModel> copy,
                                 Optimizer state,
                                 std::optional<WeightAverage> sums,
                                 std::optional<LossScaler> scale) {
    detail::adopt_all(*copy);
    at->place(std::move(copy), std::move(state), std::move(sums), std::move(scale));
  };
  detail::publish_all(*model);
  rank.worker
      .run(put, std::move(model), std::move(optimizer), std::move(average), std::move(scaler))
      .get({.deadline = Deadline::in(limit)});
  rank.is_stale = false;
}

std::optional<LossScaler> RankGroup::make_scaler(const Device& device) const {
  return precision_.scaling() ? std::optional(LossScaler(precision_, device, made_at_))
                              : std::nullopt;
}

std::optional<WeightAverage> RankGroup::make_average() const {
  return average_decay_ == 0 ? std::nullopt : std::optional(WeightAverage(average_decay_));
}

void RankGroup::mark_stale(const std::vector<int>& stragglers) {
  for (const int rank : stragglers) {
    if (static_cast<std::size_t>(rank) < ranks_.size()) {
      ranks_[static_cast<std::size_t>(rank)]->is_stale = true;
    }
  }
}

void RankGroup::part_from(Rank& rank, std::string_view what) const {
  if (rank.is_hung) {
    detail::log_hang(runtime_.log(), rank.worker, hang_limit_, what);
    rank.worker.end(Deadline::in(std::chrono::nanoseconds::zero()));
  }
}

void RankGroup::keep_alike(const std::vector<Status>& outcomes,
                           const std::vector<int>& stragglers) {
  mark_stale(stragglers);
  bool has_happened = false;
  for (std::size_t index = 0; index < outcomes.size(); ++index) {
    has_happened = has_happened || (outcomes[index].has_value() && is_good(ranks_[index]));
  }
  const Rank* const first = &good();
  for (std::size_t index = 0; index < outcomes.size(); ++index) {
    Rank& rank = *ranks_[index];
    const bool is_kept = has_happened ? outcomes[index].has_value() : &rank == first;
    rank.is_stale = rank.is_stale || !is_kept;
  }
}

RankGroup::Answers RankGroup::ask_ranks() const {
  Answers answers;
  for (const Place& rank : ranks_) {
    answers.push_back(rank->worker.run(
        [](WorkerContext& context) { return context.device.catch_up_later().wait(); }));
  }
  return answers;
}

void RankGroup::find_hangs(const CoordinatorTrouble& trouble, const Answers& answers) {
  for (const Place& rank : ranks_) {
    rank->is_hung = false;
  }
  const auto is_suspect = [](const Place& rank) {
    return rank->is_late || rank->worker.device().is_lost();
  };
  if (!trouble.has_hang && !trouble.has_lost_device && std::ranges::none_of(ranks_, is_suspect)) {
    return;
  }
  std::vector<Pending<void>> devices;
  for (const Place& rank : ranks_) {
    devices.push_back(detail::ask(rank->worker.device()));
  }
  // never stopped: a waiter that can be stopped does not run the device's loop itself
  const std::stop_source nobody;
  const Deadline limit = Deadline::in(hang_limit_);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const bool is_missing =
        std::ranges::find(trouble.missing, static_cast<int>(index)) != trouble.missing.end();
    Rank& rank = *ranks_[index];
    const bool is_asked =
        is_missing || rank.is_late ||
        !detail::PendingAccess::is_ready_by(devices[index], limit, nobody.get_token());
    rank.is_hung = is_asked && !detail::PendingAccess::is_ready_by(answers[index], limit);
    rank.is_late = rank.is_hung;
  }
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    ranks_[index]->has_device = devices[index].is_ready();
  }
}

ErrorRef RankGroup::mend(const std::function<CoordinatorTrouble()>& trouble,
                         std::chrono::nanoseconds limit) {
  Answers answers = ask_ranks();
  const CoordinatorTrouble known = trouble();
  mark_stale(known.stragglers);
  find_hangs(known, answers);
  std::vector<Status> healths;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = *ranks_[index];
    rank.is_late =
        rank.is_hung || !detail::PendingAccess::is_ready_by(answers[index], Deadline::in(limit));
    healths.push_back(rank.is_hung
                          ? Status()
                          : std::move(answers[index])
                                .get({.deadline = Deadline::in(std::chrono::nanoseconds::zero())}));
  }
  mark_stale(trouble().stragglers);
  std::vector<std::size_t> lost;
  ErrorRef loss;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = *ranks_[index];
    const Status& health = healths[index];
    if (rank.is_hung) {
      lost.push_back(index);
    } else if (!health.has_value() &&
               (detail::is_device_loss(health.error()) || detail::is_device_hang(health.error()))) {
      rank.is_stale = true;  // until it has the state of another rank
      lost.push_back(index);
      loss = loss ? loss : health.shared_error();
    } else if (rank.generation != rank.worker.device().generation()) {
      rank.is_stale = true;
      loss = loss ? loss : loss_of(rank.worker.device());
    }
  }
  if (loss && policy_ == DeviceLossPolicy::stop) {
    return loss;
  }
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (ranks_[index]->is_stale && std::ranges::find(lost, index) == lost.end()) {
      renew(*ranks_[index], limit);
    }
  }
  if (policy_ == DeviceLossPolicy::shrink) {
    drop(lost);
  } else if (policy_ == DeviceLossPolicy::replace) {
    drop(replace_all(lost, limit));
  }
  number_ranks(limit);
  return nullptr;
}

std::vector<std::size_t> RankGroup::replace_all(const std::vector<std::size_t>& lost,
                                                std::chrono::nanoseconds limit) {
  std::vector<std::size_t> irreplaceable;
  for (const std::size_t index : lost) {
    if (!replace(index, limit)) {
      irreplaceable.push_back(index);
    }
  }
  return irreplaceable;
}

void RankGroup::renew(Rank& rank, std::chrono::nanoseconds limit) {
  using State = std::tuple<std::unique_ptr<RankModel>,
                           Optimizer,
                           std::optional<WeightAverage>,
                           std::optional<LossScaler>>;
  Rank& source = good();
  begin_placing(rank);
  auto copy = [from = source.replica,
               device = rank.worker.device(),
               config = optimizer_,
               where = made_at_](WorkerContext&) {
    // the optimizer may not have stepped yet
    from->optimizer().prepare(from->model().parameters());
    std::unique_ptr<RankModel> model = from->model().copy_to(device, where);
    Optimizer optimizer = make_optimizer(config, where);
    optimizer.prepare(model->parameters());
    copy_values(from->optimizer(), optimizer);
    optimizer.set_step_count(from->optimizer().step_count(), from->optimizer().skipped_steps());
    optimizer.set_learning_rate(from->optimizer().learning_rate());
    std::optional<WeightAverage> average;
    if (from->average()) {
      average = fork(*from->average(), device, where);
    }
    std::optional<LossScaler> scaler;
    if (from->scaler()) {
      scaler = fork(*from->scaler(), device, where);
    }
    detail::publish_all(*model);
    return State(std::move(model), std::move(optimizer), std::move(average), std::move(scaler));
  };
  auto [model, optimizer, average, scaler] =
      source.worker.run(copy).get({.deadline = Deadline::in(limit)});
  place(rank, std::move(model), std::move(optimizer), std::move(average), std::move(scaler), limit);
}

bool RankGroup::replace(std::size_t index, std::chrono::nanoseconds limit) {
  Place& rank = ranks_[index];
  rank->is_stale = true;  // until it has the state of another rank
  while (!spares_.empty() && spares_.front().is_lost()) {
    spares_.erase(spares_.begin());
  }
  if (spares_.empty() && rank->is_hung && !rank->has_device) {
    return false;
  }
  if (spares_.empty() && !rank->is_hung) {
    rank->worker.device().restart(limit);
    renew(*rank, limit);
    return true;
  }
  const Device device = spares_.empty() ? rank->worker.device() : spares_.front();
  const Generator generator = generator_of(*rank, limit);
  Place fresh = make_rank(index, ranks_.size(), device);
  fresh->worker.run([generator](WorkerContext& context) { context.generator = generator; })
      .get({.deadline = Deadline::in(limit)});
  fresh->replica->set_generator(generator);
  renew(*fresh, limit);
  part_from(*rank, "a worker on " + device.name() + " takes its place");
  if (!spares_.empty()) {
    spares_.erase(spares_.begin());
  }
  rank = std::move(fresh);
  return true;
}

void RankGroup::drop(const std::vector<std::size_t>& lost) {
  if (lost.empty()) {
    return;
  }
  static_cast<void>(good());  // throws if no rank is left
  for (auto index = lost.rbegin(); index != lost.rend(); ++index) {
    part_from(*ranks_[*index], "the other ranks go on without it");
    ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(*index));
  }
}

void RankGroup::number_ranks(std::chrono::nanoseconds limit) {
  const int world = world_of(ranks_.size());
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (is_numbered(index) || ranks_[index]->is_hung) {
      continue;
    }
    const int number = number_of(index);
    Rank& rank = *ranks_[index];
    rank.is_late = true;  // stays set if the rank misses the deadline
    rank.worker
        .run([number, world](WorkerContext& context) {
          context.rank = number;
          context.world = world;
        })
        .get({.deadline = Deadline::in(limit)});
    rank.is_late = false;
    rank.number = number;
    rank.world = world;
  }
}

}  // namespace hearth
