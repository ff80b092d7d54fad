// RankGroup: the ranks of a trainer, each a worker with a replica, and how they are mended when a
// replica has fallen behind, a device is lost, or a worker hangs. Private to parallel.
// Owned by a trainer; the Runtime outlives it. Threads: the trainer's.
// Invariants: (1) ranks are numbered from 0 without gaps, and each worker knows its number; (2)
// what a worker's function touches is its own: a worker that hangs can be left behind at any time.
#pragma once

#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace hearth {

class RankGroup final {
 public:
  struct Rank {
    Rank(const Runtime& runtime,
         const Device& device,
         const WorkerOptions& options,
         Optimizer with,
         std::unique_ptr<RankLoss> loss);

    /// Shared with the worker's functions, and theirs to touch.
    const std::shared_ptr<RankReplica> replica;
    bool is_stale = false;         ///< It did not commit a step that others did, or lost its state,
                                   ///< or may have another one than they.
    bool is_late = false;          ///< It did not do in time what was asked of it last.
    bool is_hung = false;          ///< Its worker does not answer …
    bool has_device = true;        ///< … but its device does.
    std::uint64_t generation = 0;  ///< Of the device on which it has its state.
    int number = 0;                ///< What its worker knows.
    int world = 1;
    DeviceWorker worker;
  };

  /// Each rank gets a copy of model and loss.
  RankGroup(const Runtime& runtime,
            const RankModel& model,
            std::unique_ptr<RankLoss> loss,
            const DataParallelOptions& options,
            SourceLoc where);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  /// Waits for all workers together up to the limit, and leaves those behind that do not come.
  ~RankGroup();

  [[nodiscard]] std::size_t size() const noexcept { return ranks_.size(); }
  [[nodiscard]] Rank& operator[](std::size_t index) const { return *ranks_[index]; }
  [[nodiscard]] std::vector<Device> devices() const;
  /// Whether no rank is known to need mending.
  [[nodiscard]] bool is_whole() const;
  /// Whether a rank that hung at the last mend() is still there: only when the policy is to stop.
  [[nodiscard]] bool has_hung() const { return std::ranges::any_of(ranks_, &RankGroup::is_hung); }
  /// Errors: DeadlineExceeded when there is one.
  void require_answers() const;
  /// One with the weights of the last step that happened, and if there is one, one that was not
  /// late. Errors: DeviceError device_lost when no such rank is left.
  [[nodiscard]] Rank& good() const;

  /// Ranks that fell behind, or whose device someone restarted, get a good one's state; those that
  /// hang, or whose device is lost or says that it hangs, are dropped, or get another device, as
  /// the policy says. Waits until each of the others has done what was asked of it before, and asks
  /// for the trouble again then: a rank may fall behind while others are waited for. The loss, when
  /// the policy is to stop; else nullptr. A rank that hangs stays as it is then.
  ///
  /// Errors: what kept it from mending; then it can be called again.
  [[nodiscard]] ErrorRef mend(const std::function<CoordinatorTrouble()>& trouble,
                              std::chrono::nanoseconds limit);
  /// Says by rank which ones were late with what was asked of them last.
  void note_late(const std::vector<bool>& is_late);
  /// Each rank was to change its state in the same way, some failed, and these ranks fell behind
  /// before. The next mend() gives those that failed the state of one that did not; where all did,
  /// the others that of good(). Errors: DeviceError device_lost when no rank is left.
  void keep_alike(const std::vector<Status>& outcomes, const std::vector<int>& stragglers);

 private:
  using Place = std::unique_ptr<Rank>;

  [[nodiscard]] static bool is_hung(const Place& rank) { return rank->is_hung; }
  [[nodiscard]] static bool is_good(const Place& rank);
  [[nodiscard]] bool is_numbered(std::size_t index) const;
  [[nodiscard]] Place make_rank(std::size_t index, std::size_t world, const Device& device) const;
  /// Before its state is made: a restart in between shows.
  static void begin_placing(Rank& rank);
  static void place(Rank& rank,
                    std::unique_ptr<RankModel> model,
                    Optimizer optimizer,
                    std::optional<WeightAverage> average,
                    std::chrono::nanoseconds limit);
  /// None where the options ask for none.
  [[nodiscard]] std::optional<WeightAverage> make_average() const;
  void mark_stale(const std::vector<int>& stragglers);
  using Answers = std::vector<Pending<Status>>;

  /// Asks each rank for the state of its device, behind all that was asked of it before.
  [[nodiscard]] Answers ask_ranks() const;
  /// A rank hangs that did not come in time, or was late, or whose device does not answer, when it
  /// does not answer for hang_limit either.
  void find_hangs(const CoordinatorTrouble& trouble, const Answers& answers);
  /// Gives `rank` the state of a good one.
  void renew(Rank& rank, std::chrono::nanoseconds limit);
  /// A rank on another device, on the same one, restarted, or a new one there, goes on where the
  /// lost one was. Whether there was a device for it.
  [[nodiscard]] bool replace(std::size_t index, std::chrono::nanoseconds limit);
  /// When it hangs, its worker is left behind.
  void part_from(Rank& rank, std::string_view what) const;
  /// Those for which there was no device.
  [[nodiscard]] std::vector<std::size_t> replace_all(const std::vector<std::size_t>& lost,
                                                     std::chrono::nanoseconds limit);
  void drop(const std::vector<std::size_t>& lost);
  /// Tells each worker its number, if it does not know it.
  void number_ranks(std::chrono::nanoseconds limit);

  const Runtime& runtime_;
  const SourceLoc made_at_;  ///< The trainer's constructor, which errors of copies name.
  const std::unique_ptr<RankLoss> loss_;
  const OptimizerConfig optimizer_;
  const double average_decay_;
  const std::uint64_t seed_;
  const DeviceLossPolicy policy_;
  const std::chrono::nanoseconds hang_limit_;
  const std::chrono::nanoseconds shutdown_limit_;
  std::vector<Device> spares_;
  std::vector<Place> ranks_;
};

}  // namespace hearth
