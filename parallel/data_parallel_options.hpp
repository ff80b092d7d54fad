// What a data-parallel trainer can be told.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/device.hpp>

#include <chrono>
#include <cstdint>
#include <variant>
#include <vector>

namespace hearth {

class Collective;

using OptimizerConfig = std::variant<Sgd::Config, Adam::Config, AdamW::Config>;
[[nodiscard]] Optimizer make_optimizer(const OptimizerConfig& config,
                                       SourceLoc where = SourceLoc::current());

/// What a trainer does when a device is lost, or says that its kernel hangs, and, but for `stop`,
/// when a rank hangs: it missed DataParallelOptions::deadline, or was late in an update or an
/// evaluation, and did not answer for hang_limit either. Its worker is left behind then (see
/// DeviceWorker), and the log says so.
enum class DeviceLossPolicy : std::uint8_t {
  /// No step after a loss: each throws it. The model can be taken, if a replica is left. A hang
  /// fails
  /// its step alone, and the next one tries again; after one in an update or an evaluation no step
  /// begins before the rank answers.
  stop,
  shrink,  ///< The other ranks go on without it.
  /// The next spare device takes its place. When there is none, a lost device is restarted; one on
  /// which a rank hangs gets a new worker, if it answers; if it does not, nobody can restart it,
  /// and
  /// the other ranks go on without it, as with `shrink`.
  replace
};

struct DataParallelOptions {
  std::vector<Device> devices = {};            ///< One rank each.
  OptimizerConfig optimizer = Adam::Config{};  ///< One for each rank.
  GradientClip clip = {};                      ///< Of the gradients of the whole batch.
  /// The decay of a WeightAverage over the steps, which every rank keeps; 0: none.
  double average_decay = 0;
  /// Gradients travel in buckets of at least this size (bench: BM_DataParallel_Cnn).
  std::int64_t bucket_bytes = std::int64_t{1} << 20;
  /// How long the first rank of a bucket waits for the last one, and how long the collective, and
  /// then the commit, may take. While the device of a missing rank gets on, or compiles its
  /// kernels, the others wait on for it, up to step_limit.
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// How long a rank that missed the deadline has to answer, before it counts as lost
  /// (DeviceLossPolicy). With the deadline, less than the 10 s in which training is to go on.
  std::chrono::nanoseconds hang_limit = std::chrono::seconds(3);
  /// How long a whole step may take.
  std::chrono::nanoseconds step_limit = kDefaultWait;
  /// How long a rank may take to write a file, from when it begins.
  std::chrono::nanoseconds save_limit = std::chrono::minutes(10);
  /// How long the destructor waits for the workers, and then for the engine's call. With 0 it waits
  /// for no rank: a rank that is at work then, healthy or not, is left behind.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
  std::uint64_t seed = 0;                             ///< Of the workers' generators.
  Collective* engine = nullptr;                       ///< nullptr: an InprocCollective.
  DeviceLossPolicy on_loss = DeviceLossPolicy::stop;  ///< Reaction to the loss of a device.
  std::vector<Device> spares = {};  ///< For DeviceLossPolicy::replace, in the order of their use.
};

}  // namespace hearth
