// RankGroup: the ranks of a trainer, each a worker with a replica. Mends them when a replica has
// fallen behind, a device is lost, or a worker hangs. Private to parallel.
// Owned by a trainer; the Runtime outlives it. Threads: the trainer's.
// Invariants: (1) ranks are numbered from 0 without gaps, and each worker knows its number; (2) a
// worker's functions share the state that they touch, so a hung worker can be abandoned at any
// time.
#pragma once

#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/process_ranks.hpp>
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

    /// Shared with the worker's functions, which alone touch its contents.
    const std::shared_ptr<RankReplica> replica;
    /// The rank missed a step that others committed, lost its state, or may differ from the others.
    bool is_stale = false;
    bool is_late = false;          ///< The rank missed the deadline of its last task.
    bool is_hung = false;          ///< Its worker does not answer.
    bool has_device = true;        ///< Its device answers, though its worker may hang.
    std::uint64_t generation = 0;  ///< Generation of the device when the rank got its state.
    int number = 0;                ///< The number that its worker knows.
    int world = 1;
    DeviceWorker worker;
  };

  /// Gives each rank a copy of model and loss.
  RankGroup(const Runtime& runtime,
            const RankModel& model,
            std::unique_ptr<RankLoss> loss,
            const DataParallelOptions& options,
            const ProcessRanks& processes,
            SourceLoc where);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  /// Waits for all workers together up to the limit, and abandons those that have not ended by
  /// then.
  ~RankGroup();

  [[nodiscard]] std::size_t size() const noexcept { return ranks_.size(); }
  [[nodiscard]] Rank& operator[](std::size_t index) const { return *ranks_[index]; }
  [[nodiscard]] std::vector<Device> devices() const;
  /// Whether no rank is known to need mending.
  [[nodiscard]] bool is_whole() const;
  /// Whether a rank that hung at the last mend() is still there; only with DeviceLossPolicy::stop.
  [[nodiscard]] bool has_hung() const { return std::ranges::any_of(ranks_, &RankGroup::is_hung); }
  /// Errors: DeadlineExceeded when a rank hangs.
  void require_answers() const;
  /// Returns a rank with the weights of the last step that happened, preferably one that was not
  /// late.
  ///
  /// Errors: DeviceError device_lost when no such rank is left.
  [[nodiscard]] Rank& good() const;

  /// Mends the ranks. Ranks that fell behind, or whose device was restarted by other code, get the
  /// state of a good rank. Ranks that hang, or whose device is lost or reports a hang, are dropped
  /// or replaced, according to the policy. First waits until each other rank has done its queued
  /// work, then reads the trouble again, because a rank may fall behind during the wait. With
  /// DeviceLossPolicy::stop, returns the loss, and a hung rank stays as it is; otherwise returns
  /// nullptr.
  ///
  /// Errors: the failure that stopped the mending; then mend() can be called again.
  [[nodiscard]] ErrorRef mend(const std::function<CoordinatorTrouble()>& trouble,
                              std::chrono::nanoseconds limit);
  /// Sets for each rank whether it missed the deadline of its last task.
  void record_late(const std::vector<bool>& is_late);
  /// Restores equal state after a change that every rank was to make and some failed; `stragglers`
  /// fell behind before. The next mend() gives the failed ranks the state of one that succeeded,
  /// or, if all failed, gives the others the state of good().
  ///
  /// Errors: DeviceError device_lost when no rank is left.
  void keep_alike(const std::vector<Status>& outcomes, const std::vector<int>& stragglers);

 private:
  using Place = std::unique_ptr<Rank>;

  [[nodiscard]] static bool is_hung(const Place& rank) { return rank->is_hung; }
  [[nodiscard]] static bool is_good(const Place& rank);
  [[nodiscard]] bool is_numbered(std::size_t index) const;
  /// `local_world`: the number of ranks of this process.
  [[nodiscard]] Place make_rank(std::size_t index,
                                std::size_t local_world,
                                const Device& device) const;
  [[nodiscard]] int number_of(std::size_t index) const noexcept {
    return first_rank_ + static_cast<int>(index);
  }
  [[nodiscard]] int world_of(std::size_t local_world) const noexcept {
    return static_cast<int>(local_world) + foreign_count_;
  }
  /// Notes the device's generation before the rank's state is made, so that a restart in between is
  /// detected. Marks the rank as stale.
  static void begin_placing(Rank& rank);
  static void place(Rank& rank,
                    std::unique_ptr<RankModel> model,
                    Optimizer optimizer,
                    std::optional<WeightAverage> average,
                    std::optional<LossScaler> scaler,
                    std::chrono::nanoseconds limit);
  /// nullopt if the options request no average.
  [[nodiscard]] std::optional<WeightAverage> make_average() const;
  /// nullopt if the loss is not scaled.
  [[nodiscard]] std::optional<LossScaler> make_scaler(const Device& device) const;
  void mark_stale(const std::vector<int>& stragglers);
  using Answers = std::vector<Pending<Status>>;

  /// Requests the state of each rank's device, after all its queued work.
  [[nodiscard]] Answers ask_ranks() const;
  /// Marks hung ranks. A rank hangs if it missed a deadline, was late, or its device does not
  /// answer, and it does not answer for hang_limit either.
  void find_hangs(const CoordinatorTrouble& trouble, const Answers& answers);
  /// Gives `rank` the state of a good rank.
  void renew(Rank& rank, std::chrono::nanoseconds limit);
  /// Lets a rank on another device, on the same device restarted, or a new worker there, continue
  /// where the lost rank was. Returns false if there was no device for it.
  [[nodiscard]] bool replace(std::size_t index, std::chrono::nanoseconds limit);
  /// Abandons the worker if it hangs.
  void part_from(Rank& rank, std::string_view what) const;
  /// Returns the ranks for which there was no device.
  [[nodiscard]] std::vector<std::size_t> replace_all(const std::vector<std::size_t>& lost,
                                                     std::chrono::nanoseconds limit);
  void drop(const std::vector<std::size_t>& lost);
  /// Gives each worker its number, if it does not know it.
  void number_ranks(std::chrono::nanoseconds limit);

  const Runtime& runtime_;
  const SourceLoc made_at_;  ///< The trainer's constructor call, for errors of copies.
  const std::unique_ptr<RankLoss> loss_;
  const OptimizerConfig optimizer_;
  const double average_decay_;
  const Precision precision_;
  const std::uint64_t seed_;
  const DeviceLossPolicy policy_;
  const std::chrono::nanoseconds hang_limit_;
  const std::chrono::nanoseconds shutdown_limit_;
  const int first_rank_;     ///< Number of the first rank of this process.
  const int foreign_count_;  ///< Ranks of other processes.
  std::vector<Device> spares_;
  std::vector<Place> ranks_;
};

}  // namespace hearth
