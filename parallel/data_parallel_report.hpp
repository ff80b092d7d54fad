// What a data-parallel trainer says of a step, and of all its steps.
// Plain data. Threads: values.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// What a data-parallel step has done.
struct DataParallelReport {
  std::int64_t step = 0;  ///< From 1; failed steps count too.
  double loss = 0;        ///< Mean over the samples of all ranks, or by the loss's weights.
  std::int64_t sample_count = 0;
  double weight = 0;  ///< What the loss is the mean over: samples, or the sum of the weights.
  double learning_rate = 0;  ///< That the optimizers made the step with.
  /// By rank, how long it took to bring its gradients, from the step's begin on.
  std::vector<std::chrono::nanoseconds> sweeps = {};
  /// What went wrong on a rank after all had been told to commit (a kernel, the device, a hang),
  /// else nullptr. The step has happened; a rank that failed gets the state of another before the
  /// next one.
  ErrorRef late_failure = nullptr;
};

/// How far a trainer has come. Counts and bytes.
struct CoordinatorStatistics {
  std::uint64_t steps = 0;          ///< over
  std::uint64_t failed_steps = 0;   ///< of these: with an error
  std::uint64_t buckets = 0;        ///< handed to the engine
  std::uint64_t early_buckets = 0;  ///< of these: lent by every rank before its sweep had ended
  std::uint64_t bytes = 0;          ///< of these buckets, lent by one rank; a rank that is alone
                                    ///< lends an element of each
};

}  // namespace hearth
