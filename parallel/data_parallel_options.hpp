// What a data-parallel trainer can be told, and the checks of it.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/optimizer.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/collective.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hearth {

using OptimizerConfig = std::variant<Sgd::Config, Adam::Config, AdamW::Config>;
[[nodiscard]] Optimizer make_optimizer(const OptimizerConfig& config);

/// What a trainer does when a device is lost, or says that its kernel hangs, and, but for `stop`, when
/// a rank hangs: it missed DataParallelOptions::deadline, or was late in an update or an evaluation,
/// and did not answer for hang_limit either. Its worker is left behind
/// then (see Worker), and the log says so.
enum class LossPolicy : std::uint8_t {
  /// No step after a loss: each throws it. The model can be taken, if a replica is left. A hang fails
  /// its step alone, and the next one tries again; after one in an update or an evaluation no step
  /// begins before the rank answers.
  stop,
  shrink,  ///< The other ranks go on without it.
  /// The next spare device takes its place. When there is none, a lost device is restarted; one on
  /// which a rank hangs gets a new worker, if it answers; if it does not, nobody can restart it, and
  /// the other ranks go on without it, as with `shrink`.
  replace
};

struct DataParallelOptions {
  std::vector<Device> devices = {};  ///< One rank each.
  OptimizerConfig optimizer = Adam::Config{};
  /// Gradients travel in buckets of at least this size (bench: BM_DataParallel_Cnn).
  std::int64_t bucket_bytes = std::int64_t{1} << 20;
  /// How long the first rank of a bucket waits for the last one, and how long the collective, and
  /// then the commit, may take.
  Duration deadline = std::chrono::seconds(5);
  /// How long a rank that missed the deadline has to answer, before it counts as lost (LossPolicy).
  /// With the deadline, less than the 10 s in which training is to go on.
  Duration hang_limit = std::chrono::seconds(3);
  /// How long a whole step may take.
  Duration step_limit = kDefaultWait;
  /// How long the destructor waits for the workers, and then for the engine's call. With 0 it waits
  /// for nobody: whoever is at work then, healthy or not, is left behind.
  Duration shutdown_limit = kDefaultWait;
  std::uint64_t seed = 0;        ///< Of the workers' generators.
  Collective* engine = nullptr;  ///< nullptr: an InprocCollective.
  LossPolicy on_loss = LossPolicy::stop;
  std::vector<Device> spares = {};  ///< For LossPolicy::replace, in the order of their use.
};

namespace detail {

/// Errors: ArgumentError when there is no device or a setting makes no sense.
void require_sound(const DataParallelOptions& options, SourceLoc where);
[[noreturn]] void throw_no_replica();
/// A worker did not answer for this long.
[[noreturn]] void throw_hang(const Worker& worker, Duration limit);
/// Whether `device` answers, on a stream of its own: not to be waited for without a limit.
[[nodiscard]] Pending<void> ask(const Device& device);
/// Tells the log that a worker counts as lost, and what becomes of its rank.
void tell_hang(Log& log, const Worker& worker, Duration limit, std::string_view what);
/// Tells the log at debug where the ranks are now. `devices`: at least one.
void tell_mended(const std::vector<Device>& devices);
/// Errors: ArgumentError when a model has nothing to train.
void require_trainable(const BucketPlan& plan, SourceLoc where);
/// Errors: ArgumentError when there is not one shard a rank.
void require_shard_count(std::size_t shards, std::size_t ranks, SourceLoc where);
/// Errors: ArgumentError when a shard's size is negative.
[[nodiscard]] std::int64_t checked_size(std::int64_t size, SourceLoc where);
/// Errors: ArgumentError when a batch is empty.
void require_samples(std::int64_t sample_count, SourceLoc where);
/// How error texts call the ranks on these devices.
[[nodiscard]] std::vector<std::string> rank_names(const std::vector<Device>& devices);
[[nodiscard]] CoordinatorOptions coordinator_options(const Runtime& runtime,
                                                     const DataParallelOptions& options,
                                                     std::size_t bucket_count);

}  // namespace detail

}  // namespace hearth
