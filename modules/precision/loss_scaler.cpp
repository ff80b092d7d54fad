#include <hearth/modules/loss_scaler.hpp>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// Moves the scale. The "gradient" is 1 for a step whose gradients are finite, else 0. State: good
// and skipped steps. Scalars: growth, backoff, growth interval. A scale stays a normal number of
// f32.
std::vector<Tensor> moved_scale(const UpdateRule::Operands& given) {
  const Tensor& scale = given.parameter;
  const Tensor is_good = greater(given.gradient, 0.0);
  const Tensor good = given.state[0] + 1.0;
  const Tensor is_due = greater_equal(good, given.scalars[2]);
  const Tensor grown = minimum(scale * given.scalars[0], double{std::numeric_limits<float>::max()});
  const Tensor shrunk =
      maximum(scale * given.scalars[1], double{std::numeric_limits<float>::min()});
  return {where(is_good, where(is_due, grown, scale), shrunk),
          where(is_good, where(is_due, 0.0, good), 0.0),
          where(is_good, given.state[1], given.state[1] + 1.0)};
}

// A sum of zeros: NaN if an element is NaN or infinite.
Tensor sum_of_zeros(const Tensor& gradient, SourceLoc loc) {
  return sum(Arg(mul(Arg(gradient, loc), Arg(0.0, loc)), loc));
}

}  // namespace

LossScaler::LossScaler(const Precision& precision, const Device& device, SourceLoc loc)
    : precision_(precision),
      scaling_(precision.scaling()),
      rule_({.name = "loss_scale", .state_count = 2, .scalar_count = 3}, moved_scale, loc) {
  detail::require_sound(precision, "LossScaler", loc);
  const WeightScope weights(device);
  scale_ = full(device, {}, scaling_ ? scaling_->initial : 1.0, DType::f32, loc);
  good_steps_ = zeros(device, {}, DType::f32, loc);
  skipped_steps_ = zeros(device, {}, DType::f32, loc);
  scale_.set_path("loss_scale.scale");
  good_steps_.set_path("loss_scale.good_steps");
  skipped_steps_.set_path("loss_scale.skipped_steps");
}

Tensor LossScaler::wide(const Tensor& loss, SourceLoc loc) {
  return loss.to(accumulation_dtype(loss.dtype(loc)), loc);
}

Tensor LossScaler::scaled(const Tensor& loss, SourceLoc loc) const {
  if (!is_scaling()) {
    return loss;
  }
  const Tensor value = loss.detach();
  const Tensor is_sound = isfinite(Arg(value, loc));
  const Tensor factor = where(
      Arg(is_sound, loc), Arg(scale_, loc), Arg(std::numeric_limits<double>::quiet_NaN(), loc));
  return mul(Arg(loss, loc), Arg(factor, loc));
}

// Phases: unscale each gradient and add its sum of zeros; compare the sum of all with 0.
void LossScaler::unscale(Gradients& gradients, SourceLoc loc) {
  if (!is_scaling()) {
    return;
  }
  gradients.require_unused("LossScaler", loc);
  const Tensor factor = div(Arg(1.0, loc), Arg(scale_, loc));
  Tensor zeros_so_far;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& gradient = gradients[i];
    if (!gradients.has_gradient(i) || !is_float(gradient.dtype())) {
      continue;
    }
    const DType dtype = accumulation_dtype(gradient.dtype());
    Tensor whole = cast(Arg(std::move(gradient), loc), dtype);
    gradient = mul(Arg(std::move(whole), loc), Arg(factor.to(dtype, loc), loc));
    Tensor more = sum_of_zeros(gradient, loc).to(DType::f32, loc);
    zeros_so_far = zeros_so_far.is_valid()
                       ? add(Arg(std::move(zeros_so_far), loc), Arg(std::move(more), loc))
                       : std::move(more);
  }
  Tensor is_finite = zeros_so_far.is_valid()
                         ? equal(Arg(std::move(zeros_so_far), loc), Arg(0.0, loc))
                         : isfinite(Arg(scale_, loc));
  is_finite_ = is_finite_.is_valid()
                   ? logical_and(Arg(is_finite_, loc), Arg(std::move(is_finite), loc))
                   : std::move(is_finite);
}

JointUpdate LossScaler::joint_update(SourceLoc loc) {
  if (!is_scaling()) {
    return {};
  }
  const Tensor condition =
      is_finite_.is_valid() ? std::exchange(is_finite_, Tensor()) : isfinite(Arg(scale_, loc));
  Tensor number = condition.to(DType::f32, loc);
  return {.when = condition, .before = [this, number](UpdateGroup& group) {
            const std::array<Tensor*, 2> state{&good_steps_, &skipped_steps_};
            const std::array scalars{scaling_->growth,
                                     scaling_->backoff,
                                     static_cast<double>(scaling_->growth_interval)};
            group.update(rule_, scale_, number, state, scalars);
          }};
}

}  // namespace hearth
