// ScaledStep: the loss scale in one step of a rank. Unscales the gradients of the whole batch,
// makes the rank's update conditional, and reads afterwards whether it was skipped. Without a loss
// scale it does nothing. Private to parallel. Owned by RankReplica::run(); the scaler outlives it.
// Threads: the rank's worker. Invariant: all ranks decide alike, because they check the same
// reduced gradients.
#pragma once

#include <hearth/modules/loss_scaler.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/update_group.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

namespace hearth {

class ScaledStep final {
 public:
  /// `scaler`: nullptr if the loss is not scaled.
  explicit ScaledStep(LossScaler* scaler) noexcept : scaler_(scaler) {}

  /// Unscales the gradients, and joins the condition and the scale's own update to the rank's
  /// update. Call it once, before the clipping.
  void join(Gradients& gradients, JointUpdate& joint, SourceLoc where);
  /// The scale of this step, and whether it was skipped. Call it after the update; the numbers were
  /// computed before it, so they are there.
  ///
  /// Errors: DeadlineExceeded; DeviceError when the device is lost.
  [[nodiscard]] StepScale read(std::chrono::nanoseconds limit, const WorkerContext& context);

 private:
  LossScaler* scaler_;
  Pending<std::vector<std::byte>> numbers_;  ///< f32[2]: whether all gradients are finite, scale.
};

}  // namespace hearth
