// RankGroup: the ranks of a trainer, each a worker with a replica, and how they are mended when a
// replica has fallen behind or a device is lost.
// Owned by a trainer; the Runtime outlives it. Threads: the trainer's.
// Invariant: ranks are numbered from 0 without gaps, and each worker knows its number.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
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
        : replica(std::move(with), std::move(loss)), worker(runtime, device, options) {}

    Replica<Model, Shard> replica;  ///< Touched by the worker's thread only.
    bool is_stale = false;         ///< It did not commit a step that others did, or lost its state,
                                   ///< or may have another one than they.
    std::uint64_t generation = 0;  ///< Of the device on which it has its state.
    Worker worker;                 // last: its thread ends before what it uses
  };

  /// Each rank gets a copy of the model.
  RankGroup(const Runtime& runtime,
            const Model& model,
            LossFn loss,
            const DataParallelOptions& options)
      : runtime_(runtime),
        loss_(std::move(loss)),
        optimizer_(options.optimizer),
        seed_(options.seed),
        policy_(options.on_loss),
        spares_(options.spares) {
    for (std::size_t index = 0; index < options.devices.size(); ++index) {
      ranks_.push_back(make_rank(index, options.devices.size(), options.devices[index]));
    }
    for (const auto& rank : ranks_) {
      begin_placing(*rank);
      place(*rank, fork(model, rank->worker.device()), make_optimizer(optimizer_), kDefaultWait);
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
  [[nodiscard]] bool is_whole() const { return std::ranges::all_of(ranks_, &RankGroup::is_good); }
  /// One with the weights of the last step that happened.
  /// Errors: DeviceError device_lost when no such rank is left.
  [[nodiscard]] Rank& good() const {
    const auto found = std::ranges::find_if(ranks_, &RankGroup::is_good);
    if (found == ranks_.end()) {
      detail::throw_no_replica();
    }
    return **found;
  }

  /// Ranks that fell behind, or whose device someone restarted, get a good one's state; those with a lost device are dropped, or get
  /// another device, as the policy says. Waits until each rank has done what was asked of it before,
  /// and only then asks who fell behind: a rank may do so while others are waited for.
  /// The loss, when the policy is to stop; else nullptr.
  ///
  /// Errors: what kept it from mending; then it can be called again.
  [[nodiscard]] ErrorRef mend(const std::function<std::vector<int>()>& stragglers, Duration limit);
  /// Each rank was to change its state in the same way, some failed, and these ranks fell behind
  /// before. The next mend() gives those that failed the state of one that did not; where all did,
  /// the others that of good(). Errors: DeviceError device_lost when no rank is left.
  void keep_alike(const std::vector<Status>& outcomes, const std::vector<int>& stragglers);

 private:
  using Place = std::unique_ptr<Rank>;

  [[nodiscard]] static bool is_good(const Place& rank) {
    const Device& device = rank->worker.device();
    return !rank->is_stale && !device.is_lost() && rank->generation == device.generation();
  }

  [[nodiscard]] Place make_rank(std::size_t index, std::size_t world, const Device& device) const {
    return std::make_unique<Rank>(
        runtime_,
        device,
        WorkerOptions{
            .rank = static_cast<int>(index), .world = static_cast<int>(world), .seed = seed_},
        make_optimizer(optimizer_),
        loss_);
  }
  // Before its state is made: a restart in between shows.
  static void begin_placing(Rank& rank) {
    rank.is_stale = true;
    rank.generation = rank.worker.device().generation();
  }
  static void place(Rank& rank, Model model, Optimizer optimizer, Duration limit) {
    auto put = [at = &rank](WorkerContext&, Model copy, Optimizer state) {
      at->replica.place(std::move(copy), std::move(state));
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
      ranks_[static_cast<std::size_t>(rank)]->is_stale = true;
    }
  }
  /// Gives `rank` the state of a good one.
  void renew(Rank& rank, Duration limit);
  /// A rank on another device, or on the same one, restarted, goes on where the lost one was.
  void replace(std::size_t index, Duration limit);
  void drop(const std::vector<std::size_t>& lost, Duration limit);

  const Runtime& runtime_;
  const LossFn loss_;
  const OptimizerConfig optimizer_;
  const std::uint64_t seed_;
  const LossPolicy policy_;
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
ErrorRef RankGroup<Model, Shard>::mend(const std::function<std::vector<int>()>& stragglers,
                                       Duration limit) {
  std::vector<Pending<Status>> answers;
  for (const Place& rank : ranks_) {
    answers.push_back(rank->worker.run(
        [](WorkerContext& context) { return context.device.sync_later().wait(); }));
  }
  std::vector<Status> healths;
  for (Pending<Status>& answer : answers) {
    healths.push_back(std::move(answer).get(Deadline::in(limit)));
  }
  mark_stale(stragglers());
  std::vector<std::size_t> lost;
  ErrorRef loss;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = *ranks_[index];
    const Status& health = healths[index];
    if (!health.has_value() && detail::is_device_loss(health.error())) {
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
    drop(lost, limit);
    return nullptr;
  }
  for (const std::size_t index : lost) {
    replace(index, limit);
  }
  return nullptr;
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::renew(Rank& rank, Duration limit) {
  Rank& source = good();
  begin_placing(rank);
  auto copy =
      [from = &source.replica, device = rank.worker.device(), config = optimizer_](WorkerContext&) {
        from->optimizer().prepare(from->model());  // it may not have stepped yet
        Model model = fork(from->model(), device);
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
void RankGroup<Model, Shard>::replace(std::size_t index, Duration limit) {
  Place& rank = ranks_[index];
  rank->is_stale = true;  // until it has the others' state
  while (!spares_.empty() && spares_.front().is_lost()) {
    spares_.erase(spares_.begin());
  }
  if (spares_.empty()) {
    rank->worker.device().restart(limit);
    renew(*rank, limit);
    return;
  }
  Place fresh = make_rank(index, ranks_.size(), spares_.front());
  const Generator generator =
      rank->worker.run([](WorkerContext& context) { return context.generator; })
          .get(Deadline::in(limit));
  fresh->worker.run([generator](WorkerContext& context) { context.generator = generator; })
      .get(Deadline::in(limit));
  renew(*fresh, limit);
  spares_.erase(spares_.begin());
  rank = std::move(fresh);
}

template <Module Model, BatchShard Shard>
void RankGroup<Model, Shard>::drop(const std::vector<std::size_t>& lost, Duration limit) {
  if (lost.empty()) {
    return;
  }
  static_cast<void>(good());  // somebody must be left
  for (auto index = lost.rbegin(); index != lost.rend(); ++index) {
    ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(*index));
  }
  const int world = static_cast<int>(ranks_.size());
  for (int number = 0; number < world; ++number) {
    ranks_[static_cast<std::size_t>(number)]
        ->worker
        .run([number, world](WorkerContext& context) {
          context.rank = number;
          context.world = world;
        })
        .get(Deadline::in(limit));
  }
}

}  // namespace hearth
