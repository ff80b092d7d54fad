// Reports of a data-parallel trainer: one step, and all steps.
// Plain data. Threads: values.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// The loss scale of a step (Precision::loss_scaling).
struct StepScale {
  double loss_scale = 1;    ///< Scale that the step's backward pass used; 1: none.
  bool is_skipped = false;  ///< The gradients overflowed, so that only the scale has changed.
};

/// Report of one data-parallel step.
struct DataParallelReport {
  std::int64_t step = 0;  ///< From 1; failed steps count too.
  double loss = 0;        ///< Mean over the samples of all ranks, or over the loss's weights.
  std::int64_t sample_count = 0;
  double weight = 0;  ///< Divisor of the mean loss: the sample count, or the sum of the weights.
  double learning_rate = 0;  ///< Rate that the optimizers used in this step.
  StepScale scale = {};      ///< With a loss scale: the scale, and whether the step was skipped.
  /// By rank, the time from the step's start until its gradients arrived; of a lone rank, until its
  /// loss arrived.
  std::vector<std::chrono::nanoseconds> sweeps = {};
  /// Failure of a rank after the commit (a kernel, the device, a hang), else nullptr. The step has
  /// happened; the failed rank gets the state of another rank before the next step.
  ErrorRef late_failure = nullptr;
};

/// Totals of a trainer. Counts and bytes.
struct CoordinatorStatistics {
  std::uint64_t steps = 0;          ///< Steps that have ended.
  std::uint64_t failed_steps = 0;   ///< Ended steps that failed.
  std::uint64_t buckets = 0;        ///< Buckets handed to the engine. A lone rank has one a step.
  std::uint64_t early_buckets = 0;  ///< Buckets that every rank lent while its sweep was running.
  /// Bytes of these buckets that one rank lent. A lone rank lends its loss alone.
  std::uint64_t bytes = 0;
};

}  // namespace hearth
