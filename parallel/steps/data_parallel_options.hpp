// Options of a data-parallel trainer.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/precision.hpp>
#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/device.hpp>

#include <chrono>
#include <cstdint>
#include <variant>
#include <vector>

namespace hearth {

class Collective;

/// The settings of an optimizer: those of Sgd, Adam or AdamW, or any OptimizerRule, such as
/// `Lion::Config` or a program's own.
using OptimizerConfig = std::variant<Sgd::Config, Adam::Config, AdamW::Config, RuleConfig>;
[[nodiscard]] Optimizer make_optimizer(const OptimizerConfig& config,
                                       SourceLoc where = SourceLoc::current());

/// Reaction of a trainer to a device that is lost or reports a hung kernel and, except with `stop`,
/// to a rank that hangs. A rank hangs if it missed DataParallelOptions::deadline, or was late in an
/// update or an evaluation, and did not answer for hang_limit either. The worker of a hung rank is
/// abandoned (see DeviceWorker) and logged.
enum class DeviceLossPolicy : std::uint8_t {
  /// No step runs after a loss: each call throws it. The model can be taken if a replica is left. A
  /// hang fails its own step, and the next step tries again. After a hang in an update or an
  /// evaluation, no step begins before the rank answers.
  stop,
  shrink,  ///< The other ranks continue without it.
  /// The next spare device replaces it. Without a spare, a lost device is restarted, and a device
  /// whose rank hangs gets a new worker. If that device does not answer, it cannot be restarted,
  /// and the other ranks continue without it, as with `shrink`.
  replace
};

struct DataParallelOptions {
  std::vector<Device> devices = {};            ///< One rank runs on each device.
  OptimizerConfig optimizer = Adam::Config{};  ///< Configuration of the optimizer of every rank.
  GradientClip clip = {};                      ///< Clipping of the gradients of the whole batch.
  /// Types of the forward pass and of the exchange of gradients. With a 16-bit type the loss
  /// function gets the model in that type, and casts its inputs; the trainer keeps the weights.
  Precision precision = {};
  /// Decay of a WeightAverage over the steps, which every rank keeps; 0: no average.
  double average_decay = 0;
  /// Smallest size of a gradient bucket in bytes (bench: BM_DataParallel_Cnn).
  std::int64_t bucket_bytes = std::int64_t{1} << 20;
  /// Limit of each wait within a step: for a bucket's last rank, for the collective, and for the
  /// commit. The wait is extended up to step_limit while the device of a missing rank makes
  /// progress or compiles kernels.
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Time that a rank has to answer after it missed the deadline, before it counts as lost
  /// (DeviceLossPolicy). Deadline and hang_limit together stay below the 10 s in which training
  /// must continue.
  std::chrono::nanoseconds hang_limit = std::chrono::seconds(3);
  /// Limit of a whole step.
  std::chrono::nanoseconds step_limit = kDefaultWait;
  /// Limit of one rank's writing of a file, counted from its start.
  std::chrono::nanoseconds save_limit = std::chrono::minutes(10);
  /// Limit of the destructor's wait for workers, then for the engine's call. With 0 it abandons
  /// busy ranks, healthy or not.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
  std::uint64_t seed = 0;  ///< Seed of the workers' generators.
  /// The processes that train the model together; each gives its own `devices`. Trainers that share
  /// a group take their steps one after the other. Not chosen: this process alone, unless a
  /// launcher has started several, which is an error.
  ProcessGroup processes = {};
  /// Engine that sums gradients; nullptr: an InprocCollective, or with several processes a
  /// ProcessCollective.
  Collective* engine = nullptr;
  DeviceLossPolicy on_loss = DeviceLossPolicy::stop;  ///< Reaction to the loss of a device.
  std::vector<Device> spares = {};  ///< Devices for DeviceLossPolicy::replace, in the order of use.
};

}  // namespace hearth
