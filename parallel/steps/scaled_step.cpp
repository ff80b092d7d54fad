#include "scaled_step.hpp"

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/ops.hpp>

#include <array>
#include <cstring>
#include <utility>

namespace hearth {

void ScaledStep::join(Gradients& gradients, JointUpdate& joint, SourceLoc where) {
  if (scaler_ == nullptr) {
    return;
  }
  scaler_->unscale(gradients, where);
  numbers_ = stack({scaler_->is_finite().to(DType::f32, where), scaler_->scale()}, 0, where)
                 .read_bytes(where);
  JointUpdate conditional = scaler_->joint_update(where);
  joint.when = std::move(conditional.when);
  joint.before = std::move(conditional.before);
}

StepScale ScaledStep::read(std::chrono::nanoseconds limit, const WorkerContext& context) {
  if (scaler_ == nullptr) {
    return {};
  }
  static_cast<void>(
      detail::PendingAccess::is_ready_by(numbers_, Deadline::in(limit), context.stop));
  const std::vector<std::byte> bytes =
      std::move(numbers_).get({.deadline = Deadline::in(std::chrono::nanoseconds::zero())});
  std::array<float, 2> numbers{};
  std::memcpy(numbers.data(), bytes.data(), sizeof numbers);
  return {.loss_scale = static_cast<double>(numbers[1]), .is_skipped = numbers[0] == 0};
}

}  // namespace hearth
