// RankGroup: the ranks of a trainer, each a worker with a replica, and how they are mended when a
// replica has fallen behind, a device is lost, or a worker hangs.
// Owned by a trainer; the Runtime outlives it. Threads: the trainer's.
// Invariants: (1) ranks are numbered from 0 without gaps, and each worker knows its number; (2) what a
// worker's function touches is its own: a worker that hangs can be left behind at any time.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

template <Module Model, BatchShard Shard>
class RankGroup final {
 public:
  using LossFn = typename Replica<Model, Shard>::LossFn;

  struct Rank {
    Rank(const Runtime& runtime,
         const Device& device,
         const WorkerOptions& options,
         Optimizer with,
         LossFn loss)
        : replica(std::make_shared<Replica<Model, Shard>>(
              std::move(with),
              std::move(loss),
              Generator(options.seed).fork(static_cast<std::uint64_t>(options.rank)))),
          number(options.rank),
          world(options.world),
          worker(runtime, device, options) {}

    /// Shared with the worker's functions, and theirs to touch.
    const std::shared_ptr<Replica<Model, Shard>> replica;
    bool is_stale = false;         ///< It did not commit a step that others did, or lost its state,
                                   ///< or may have another one than they.
    bool is_late = false;          ///< It did not do in time what was asked of it last.
    bool is_hung = false;          ///< Its worker does not answer …
    bool has_device = true;        ///< … but its device does.
    std::uint64_t generation = 0;  ///< Of the device on which it has its state.
    int number = 0;                ///< What its worker knows.
    int world = 1;
    Worker worker;
  };

  /// Each rank gets a copy of the model.
  RankGroup(const Runtime& runtime,
            const Model& model,
            LossFn loss,
            const DataParallelOptions& options,
            SourceLoc where)
      : runtime_(runtime),
        made_at_(where),
        loss_(std::move(loss)),
        optimizer_(options.optimizer),
        seed_(options.seed),
        policy_(options.on_loss),
        hang_limit_(options.hang_limit),
        shutdown_limit_(options.shutdown_limit),
        spares_(options.spares) {
    for (std::size_t index = 0; index < options.devices.size(); ++index) {
      ranks_.push_back(make_rank(index, options.devices.size(), options.devices[index]));
    }
    for (const auto& rank : ranks_) {
      begin_placing(*rank);
      place(*rank,
            fork(model, rank->worker.device(), made_at_),
            make_optimizer(optimizer_),
            kDefaultWait);
    }
  }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  /// Waits for all workers together up to the limit, and leaves behind who does not come.
  ~RankGroup() {
    for (const Place& rank : ranks_) {
      rank->worker.stop();
    }
    const Deadline limit = Deadline::in(shutdown_limit_);
    for (const Place& rank : ranks_) {
      rank->worker.end(limit);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return ranks_.size(); }
  [[nodiscard]] Rank& operator[](std::size_t index) const { return *ranks_[index]; }
  [[nodiscard]] std::vector<Device> devices() const {
    std::vector<Device> all;
    for (const auto& rank : ranks_) {
      all.push_back(rank->worker.device());
    }
    return all;
  }
  /// Whether no rank is known to need mending.
  [[nodiscard]] bool is_whole() const {
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      const Place& rank = ranks_[index];
      if (!is_good(rank) || rank->is_late || !is_numbered(index)) {
        return false;
      }
    }
    return true;
  }
  /// Whether a rank that hung at the last mend() is still there: only when the policy is to stop.
  [[nodiscard]] bool has_hung() const { return std::ranges::any_of(ranks_, &RankGroup::is_hung); }
  /// Errors: DeadlineExceeded when there is one.
  void require_answers() const {
    const auto found = std::ranges::find_if(ranks_, &RankGroup::is_hung);
    if (found != ranks_.end()) {
      detail::throw_hang((*found)->worker, hang_limit_);
    }
  }
  /// One with the weights of the last step that happened, and if there is one, one that was not late.
  /// Errors: DeviceError device_lost when no such rank is left.
  [[nodiscard]] Rank& good() const {
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

  /// Ranks that fell behind, or whose device someone restarted, get a good one's state; those that hang,
  /// or whose device is lost or says that it hangs, are dropped, or get another device, as the policy
  /// says. Waits until each of the others has done what was asked of it before, and asks for the trouble
  /// again then: a rank may fall behind while others are waited for.
  /// The loss, when the policy is to stop; else nullptr. A rank that hangs stays as it is then.
  ///
  /// Errors: what kept it from mending; then it can be called again.
  [[nodiscard]] ErrorRef mend(const std::function<CoordinatorTrouble()>& trouble, Duration limit);
  /// By rank, what was asked of it, and waited for long enough: who is not ready is late.
  template <class T>
  void note_late(const std::vector<Pending<T>>& asked) {
    for (std::size_t index = 0; index < asked.size(); ++index) {
      ranks_[index]->is_late = ranks_[index]->is_late || !asked[index].is_ready();
    }
  }
  /// Each rank was to change its state in the same way, some failed, and these ranks fell behind
  /// before. The next mend() gives those that failed the state of one that did not; where all did,
  /// the others that of good(). Errors: DeviceError device_lost when no rank is left.
  void keep_alike(const std::vector<Status>& outcomes, const std::vector<int>& stragglers);

 private:
  using Place = std::unique_ptr<Rank>;

  [[nodiscard]] static bool is_hung(const Place& rank) { return rank->is_hung; }
  [[nodiscard]] static bool is_good(const Place& rank) {
    const Device& device = rank->worker.device();
    return !rank->is_stale && !rank->is_hung && !device.is_lost() &&
           rank->generation == device.generation();
  }

  [[nodiscard]] bool is_numbered(std::size_t index) const {
    return ranks_[index]->number == static_cast<int>(index) &&
           ranks_[index]->world == static_cast<int>(ranks_.size());
  }

  [[nodiscard]] Place make_rank(std::size_t index, std::size_t world, const Device& device) const {
    return std::make_unique<Rank>(runtime_,
                                  device,
                                  WorkerOptions{.rank = static_cast<int>(index),
                                                .world = static_cast<int>(world),
                                                .seed = seed_,
                                                .shutdown_limit = shutdown_limit_},
                                  make_optimizer(optimizer_),
                                  loss_);
  }
  // Before its state is made: a restart in between shows.
  static void begin_placing(Rank& rank) {
    rank.is_stale = true;
    rank.generation = rank.worker.device().generation();
  }
  static void place(Rank& rank, Model model, Optimizer optimizer, Duration limit) {
    auto put = [at = rank.replica](WorkerContext&, Model copy, Optimizer state) {
      at->place(std::move(copy), std::move(state));
    };
    rank.worker.run(put, std::move(model), std::move(optimizer)).get(Deadline::in(limit));
    rank.is_stale = false;
  }
  /// Someone restarted the device under a rank.
  [[nodiscard]] static ErrorRef loss_of(const Device& device) {
    return std::make_shared<const Error>(
        Error{.code = ErrorCode::device_lost,
              .text = "DataParallel: the device was restarted, which lost its replica",
              .op = "DataParallel",
              .device = device.name()});
  }
  void mark_stale(const std::vector<int>& stragglers) {
    for (const int rank : stragglers) {
      if (static_cast<std::size_t>(rank) < ranks_.size()) {
        ranks_[static_cast<std::size_t>(rank)]->is_stale = true;
      }
    }
  }
  using Answers = std::vector<Pending<Status>>;

  /// Asks each rank for the state of its device, behind all that was asked of it before.
  [[nodiscard]] Answers ask_ranks() const;
  /// A rank hangs that did not come in time, or was late, or whose device does not answer, when it does
  /// not answer for hang_limit either.
  void find_hangs(const CoordinatorTrouble& trouble, const Answers& answers);
  /// Gives `rank` the state of a good one.
  void renew(Rank& rank, Duration limit);
  /// A rank on another device, on the same one, restarted, or a new one there, goes on where the lost
  /// one was. Whether there was a device for it.
  [[nodiscard]] bool replace(std::size_t index, Duration limit);
  /// The generator that a new rank in the place of this one goes on with.
  [[nodiscard]] static Generator generator_of(Rank& rank, Duration limit) {
    if (rank.is_hung) {
      return rank.replica->generator();
    }
    return rank.worker.run([](WorkerContext& context) { return context.generator; })
        .get(Deadline::in(limit));
  }
  /// When it hangs, its worker is left behind.
  void part_from(Rank& rank, std::string_view what) const {
    if (rank.is_hung) {
      detail::tell_hang(runtime_.log(), rank.worker, hang_limit_, what);
      rank.worker.end(Deadline::in(Duration::zero()));
    }
  }
  /// Those for which there was no device.
  [[nodiscard]] std::vector<std::size_t> replace_all(const std::vector<std::size_t>& lost,
                                                     Duration limit);
  void drop(const std::vector<std::size_t>& lost);
  /// Tells each worker its number, if it does not know it.
  void number_ranks(Duration limit);

  const Runtime& runtime_;
  const SourceLoc made_at_;  ///< The trainer's constructor, which errors of copies name.
  const LossFn loss_;
  const OptimizerConfig optimizer_;
  const std::uint64_t seed_;
  const LossPolicy policy_;
  const Duration hang_limit_;
  const Duration shutdown_limit_;
  std::vector<Device> spares_;
  std::vector<Place> ranks_;
};

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::keep_alike(const std::vector<Status>& outcomes,
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

template <Module Model, BatchShard Shard>
auto RankGroup<Model, Shard>::ask_ranks() const -> Answers {
  Answers answers;
  for (const Place& rank : ranks_) {
    answers.push_back(rank->worker.run(
        [](WorkerContext& context) { return context.device.sync_later().wait(); }));
  }
  return answers;
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::find_hangs(const CoordinatorTrouble& trouble,
                                         const Answers& answers) {
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
  const std::stop_source nobody;  // who could be stopped does not do the device's work itself
  const Deadline limit = Deadline::in(hang_limit_);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const bool is_missing =
        std::ranges::find(trouble.missing, static_cast<int>(index)) != trouble.missing.end();
    Rank& rank = *ranks_[index];
    const bool is_asked =
        is_missing || rank.is_late || !devices[index].wait_until(limit, nobody.get_token());
    rank.is_hung = is_asked && !answers[index].wait_until(limit);
    rank.is_late = rank.is_hung;
  }
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    ranks_[index]->has_device = devices[index].is_ready();
  }
}

template <Module Model, BatchShard Shard>
ErrorRef RankGroup<Model, Shard>::mend(const std::function<CoordinatorTrouble()>& trouble,
                                       Duration limit) {
  Answers answers = ask_ranks();
  const CoordinatorTrouble known = trouble();
  mark_stale(known.stragglers);
  find_hangs(known, answers);
  std::vector<Status> healths;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = *ranks_[index];
    rank.is_late = rank.is_hung || !answers[index].wait_until(Deadline::in(limit));
    healths.push_back(rank.is_hung ? Status()
                                   : std::move(answers[index]).get(Deadline::in(Duration::zero())));
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
      rank.is_stale = true;  // until it has the others' state
      lost.push_back(index);
      loss = loss ? loss : health.shared_error();
    } else if (rank.generation != rank.worker.device().generation()) {
      rank.is_stale = true;
      loss = loss ? loss : loss_of(rank.worker.device());
    }
  }
  if (loss && policy_ == LossPolicy::stop) {
    return loss;
  }
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (ranks_[index]->is_stale && std::ranges::find(lost, index) == lost.end()) {
      renew(*ranks_[index], limit);
    }
  }
  if (policy_ == LossPolicy::shrink) {
    drop(lost);
  } else if (policy_ == LossPolicy::replace) {
    drop(replace_all(lost, limit));
  }
  number_ranks(limit);
  return nullptr;
}

template <Module Model, BatchShard Shard>
std::vector<std::size_t> RankGroup<Model, Shard>::replace_all(const std::vector<std::size_t>& lost,
                                                              Duration limit) {
  std::vector<std::size_t> irreplaceable;
  for (const std::size_t index : lost) {
    if (!replace(index, limit)) {
      irreplaceable.push_back(index);
    }
  }
  return irreplaceable;
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::renew(Rank& rank, Duration limit) {
  Rank& source = good();
  begin_placing(rank);
  auto copy = [from = source.replica,
               device = rank.worker.device(),
               config = optimizer_,
               where = made_at_](WorkerContext&) {
    from->optimizer().prepare(from->model());  // it may not have stepped yet
    Model model = fork(from->model(), device, where);
    Optimizer optimizer = make_optimizer(config);
    optimizer.prepare(model);
    copy_values(from->optimizer(), optimizer);
    optimizer.set_step_count(from->optimizer().step_count());
    optimizer.set_learning_rate(from->optimizer().learning_rate());
    return std::pair<Model, Optimizer>(std::move(model), std::move(optimizer));
  };
  auto [model, optimizer] = source.worker.run(copy).get(Deadline::in(limit));
  place(rank, std::move(model), std::move(optimizer), limit);
}

template <Module Model, BatchShard Shard>
bool RankGroup<Model, Shard>::replace(std::size_t index, Duration limit) {
  Place& rank = ranks_[index];
  rank->is_stale = true;  // until it has the others' state
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
      .get(Deadline::in(limit));
  fresh->replica->go_on_with(generator);
  renew(*fresh, limit);
  part_from(*rank, "a worker on " + device.name() + " takes its place");
  if (!spares_.empty()) {
    spares_.erase(spares_.begin());
  }
  rank = std::move(fresh);
  return true;
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::drop(const std::vector<std::size_t>& lost) {
  if (lost.empty()) {
    return;
  }
  static_cast<void>(good());  // somebody must be left
  for (auto index = lost.rbegin(); index != lost.rend(); ++index) {
    part_from(*ranks_[*index], "the other ranks go on without it");
    ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(*index));
  }
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::number_ranks(Duration limit) {
  const int world = static_cast<int>(ranks_.size());
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (is_numbered(index) || ranks_[index]->is_hung) {
      continue;
    }
    const int number = static_cast<int>(index);
    Rank& rank = *ranks_[index];
    rank.is_late = true;  // if it does not come
    rank.worker
        .run([number, world](WorkerContext& context) {
          context.rank = number;
          context.world = world;
        })
        .get(Deadline::in(limit));
    rank.is_late = false;
    rank.number = number;
    rank.world = world;
  }
}

}  // namespace hearth
