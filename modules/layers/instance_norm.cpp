#include <hearth/modules/instance_norm.hpp>

#include "running_norm.hpp"

#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace hearth {
namespace {

void require_instances(const Arg& x, const InstanceNorm& layer, bool uses_own) {
  const Tensor& given = x.is_scalar() ? taken(x, "InstanceNorm") : x.tensor();
  const Shape& shape = given.shape(x.location());
  bool is_right = shape.rank() >= 3 && shape.rank() <= 5 && shape[1] == layer.channels;
  std::int64_t values = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    values *= shape[axis];
  }
  is_right = is_right && (!uses_own || values > 1);
  if (!is_right) {
    throw_error(Error{
        .code = ErrorCode::shape_mismatch,
        .text = fmt::format("InstanceNorm: needs [n, {}, ...] with one to three axes behind the "
                            "channels{}, got {}",
                            layer.channels,
                            uses_own ? " and two values or more in each channel" : "",
                            describe(given.dtype(), shape)),
        .op = "InstanceNorm",
        .module_path = layer.weight ? detail::layer_of(*layer.weight) : "",
        .location = x.location()});
  }
}

std::vector<int> axes_behind_channels(const Tensor& x) {
  std::vector<int> axes;
  for (int axis = 2; axis < x.rank(); ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

InstanceNorm::InstanceNorm(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : channels(config.channels), epsilon(config.epsilon), momentum(config.momentum) {
  if (config.channels < 1 || !(config.epsilon >= 0) ||
      !(config.momentum >= 0 && config.momentum <= 1)) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("InstanceNorm: needs 1 or more channels, an epsilon of 0 or more and a "
                            "momentum in 0 to 1, got {}, {} and {}",
                            config.channels,
                            config.epsilon,
                            config.momentum),
        .location = loc});
  }
  const WeightScope weights(device);
  if (config.affine) {
    weight = ones(device, {channels}, dtype, loc);
    bias = zeros(device, {channels}, dtype, loc);
  }
  if (config.track_running_stats) {
    const DType wide = accumulation_dtype(dtype);
    running_mean = running_statistic(zeros(device, {channels}, wide, loc), loc);
    running_variance = running_statistic(ones(device, {channels}, wide, loc), loc);
  }
  detail::set_first_paths(*this);
}

// Frozen statistics stay in use, since the following layers were trained with them.
bool InstanceNorm::moves_statistics(Mode mode) const noexcept {
  return mode == Mode::train && running_mean.has_value() &&
         !detail::TensorAccess::has_mark(*running_mean, detail::MemberMark::frozen);
}

Tensor InstanceNorm::forward(Arg x) const {
  if (running_mean) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "InstanceNorm: a layer with running statistics needs a mode: "
                              "forward(x, Mode::train) or forward(x, Mode::eval)",
                      .op = "InstanceNorm",
                      .location = x.location()});
  }
  return by_own(x);
}

Tensor InstanceNorm::forward(Arg x, Mode mode, StateUpdates& updates) const {
  if (!moves_statistics(mode)) {
    return running_mean ? by_running(x) : by_own(x);
  }
  blend_statistics(x, updates);
  return by_own(x);
}

Tensor InstanceNorm::forward(Arg x, Mode mode) const {
  if (!moves_statistics(mode)) {
    return running_mean ? by_running(x) : by_own(x);
  }
  return forward(x, mode, current_state_updates("InstanceNorm", x.location()));
}

// The means over the examples of their means and of their variances.
void InstanceNorm::blend_statistics(const Arg& x, StateUpdates& updates) const {
  const auto queue = [&] {
    const SourceLoc loc = x.location();
    require_instances(x, *this, true);
    const Tensor value = cast(Arg(x.tensor().detach(), loc), running_mean->dtype());
    const std::vector<int> axes = axes_behind_channels(value);
    Tensor centres = mean(Arg(value, loc), axes);
    Tensor spreads = var(Arg(value, loc), axes);
    updates.blend(*running_mean, mean(Arg(std::move(centres), loc), 0), momentum, loc);
    updates.blend(*running_variance, mean(Arg(std::move(spreads), loc), 0), momentum, loc);
    return true;
  };
  static_cast<void>(detail::mistakes_named("InstanceNorm", queue));
}

Tensor InstanceNorm::by_own(const Arg& x) const {
  return detail::mistakes_named("InstanceNorm", [&] {
    const SourceLoc loc = x.location();
    require_instances(x, *this, true);
    return weight ? group_norm(x, channels, Arg(*weight, loc), Arg(*bias, loc), epsilon)
                  : group_norm(x, channels, epsilon);
  });
}

Tensor InstanceNorm::by_running(const Arg& x) const {
  return detail::mistakes_named("InstanceNorm", [&] {
    require_instances(x, *this, false);
    const DType dtype = x.tensor().dtype();
    const DType own = weight ? weight->dtype() : running_mean->dtype();
    const bool is_type =
        weight ? dtype == own : accumulation_dtype(dtype) == accumulation_dtype(own);
    if (!is_type) {
      throw_error(Error{.code = ErrorCode::dtype_mismatch,
                        .text = fmt::format("InstanceNorm: the layer is {}, x is {}",
                                            name(own),
                                            describe(dtype, x.tensor().shape())),
                        .op = "InstanceNorm",
                        .location = x.location()});
    }
    return detail::normalised_by(x, *running_mean, *running_variance, weight, bias, epsilon);
  });
}

}  // namespace hearth
