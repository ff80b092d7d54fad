#include <hearth/modules/batch_norm2d.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <utility>

namespace hearth {
namespace {

// Reshapes [channels] to broadcast against images.
Tensor by_channel(const Tensor& values, DType dtype, SourceLoc loc) {
  Tensor column = reshape(Arg(values, loc), {values.element_count(), 1, 1});
  return cast(Arg(std::move(column), loc), dtype);
}

// Whether `dtype` is the layer's: that of its weight or, without one, any with the statistics'
// accumulation_dtype().
bool is_type_of(DType dtype, const BatchNorm2d& layer) {
  return layer.weight ? dtype == layer.weight->dtype()
                      : accumulation_dtype(dtype) == accumulation_dtype(layer.running_mean.dtype());
}

void require_pictures(const Arg& x, const BatchNorm2d& layer, bool is_training) {
  const Tensor& mean = layer.running_mean;
  if (x.is_scalar()) {
    static_cast<void>(taken(x, "BatchNorm2d"));  // throws for a scalar
  }
  const Tensor& pictures = x.tensor();
  const Shape shape = pictures.shape(x.location());
  const bool has_channels = shape.rank() == 4 && shape[1] == mean.element_count();
  const bool has_values = has_channels && shape[0] * shape[2] * shape[3] > 1;
  if (has_channels && (has_values || !is_training) && is_type_of(pictures.dtype(), layer)) {
    return;
  }
  const bool is_type = has_channels && (has_values || !is_training);
  throw_error(Error{.code = is_type ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                    .text = fmt::format("BatchNorm2d: needs {}[n, {}, height, width]{}, got {}",
                                        name(layer.weight ? layer.weight->dtype() : mean.dtype()),
                                        mean.element_count(),
                                        is_training ? " with two values a channel or more" : "",
                                        describe(pictures.dtype(), shape)),
                    .op = "BatchNorm2d",
                    .location = x.location()});
}

}  // namespace

BatchNorm2d::BatchNorm2d(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : epsilon(config.epsilon), momentum(config.momentum) {
  if (config.channels < 1 || !(config.epsilon >= 0) ||
      !(config.momentum >= 0 && config.momentum <= 1)) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("BatchNorm2d: needs 1 or more channels, an epsilon of 0 or more and a "
                            "momentum in 0 to 1, got {}, {} and {}",
                            config.channels,
                            config.epsilon,
                            config.momentum),
        .location = loc});
  }
  const WeightScope weights(device);
  if (config.affine) {
    weight = ones(device, {config.channels}, dtype, loc);
    bias = zeros(device, {config.channels}, dtype, loc);
  }
  const DType wide = accumulation_dtype(dtype);
  running_mean = running_statistic(zeros(device, {config.channels}, wide, loc), loc);
  running_variance = running_statistic(ones(device, {config.channels}, wide, loc), loc);
  detail::set_first_paths(*this);
}

// Frozen statistics stay in use, since the following layers were trained with them.
bool BatchNorm2d::takes_statistics(Mode mode) const noexcept {
  return mode == Mode::train &&
         !detail::TensorAccess::has_mark(running_mean, detail::MemberMark::frozen);
}

Tensor BatchNorm2d::forward(Arg x, Mode mode, StateUpdates& updates) const {
  return takes_statistics(mode) ? trained(x, updates) : evaluated(x);
}

Tensor BatchNorm2d::forward(Arg x, Mode mode) const {
  return takes_statistics(mode) ? trained(x, current_state_updates("BatchNorm2d", x.location()))
                                : evaluated(x);
}

Tensor BatchNorm2d::trained(const Arg& x, StateUpdates& updates) const {
  return detail::mistakes_named("BatchNorm2d", [&] {
    const SourceLoc loc = x.location();
    require_pictures(x, *this, true);
    const DType dtype = x.tensor().dtype();
    const DType inside = accumulation_dtype(dtype);
    const Shape shape = x.tensor().shape();
    const detail::VectorEnvironment environment;
    const auto count = static_cast<double>(shape[0] * shape[2] * shape[3]);
    const Tensor value = cast(x, inside);
    const Tensor centre = mean(Arg(value, loc), {0, 2, 3}, {.keep_dims = true});
    const Tensor distance = sub(Arg(value, loc), Arg(centre, loc));
    const Tensor spread =
        mean(Arg(square(Arg(distance, loc)), loc), {0, 2, 3}, {.keep_dims = true});

    const auto as_buffer = [&](Tensor statistic) {
      Tensor flat = reshape(Arg(std::move(statistic), loc), {shape[1]});
      return cast(Arg(std::move(flat), loc), running_mean.dtype());
    };
    updates.blend(running_mean, as_buffer(centre.detach()), momentum, loc);
    Tensor estimate = mul(Arg(spread.detach(), loc), Arg(count / (count - 1), loc));
    updates.blend(running_variance, as_buffer(std::move(estimate)), momentum, loc);

    Tensor scale = rsqrt(Arg(add(Arg(spread, loc), Arg(epsilon, loc)), loc));
    Tensor result = mul(Arg(distance, loc), Arg(std::move(scale), loc));
    if (weight) {
      result = mul(Arg(std::move(result), loc), Arg(by_channel(*weight, inside, loc), loc));
      result = add(Arg(std::move(result), loc), Arg(by_channel(*bias, inside, loc), loc));
    }
    return cast(Arg(std::move(result), loc), dtype);
  });
}

// Folds the layer into one factor and one addend per channel, so that images are read and written
// once.
Tensor BatchNorm2d::evaluated(const Arg& x) const {
  return detail::mistakes_named("BatchNorm2d", [&] {
    const SourceLoc loc = x.location();
    require_pictures(x, *this, false);
    const DType dtype = x.tensor().dtype();
    const DType inside = accumulation_dtype(dtype);
    const Tensor variance = by_channel(running_variance, inside, loc);
    Tensor factor = rsqrt(Arg(add(Arg(variance, loc), Arg(epsilon, loc)), loc));
    if (weight) {
      factor = mul(Arg(std::move(factor), loc), Arg(by_channel(*weight, inside, loc), loc));
    }
    Tensor shift =
        neg(Arg(mul(Arg(by_channel(running_mean, inside, loc), loc), Arg(factor, loc)), loc));
    if (bias) {
      shift = add(Arg(std::move(shift), loc), Arg(by_channel(*bias, inside, loc), loc));
    }
    Tensor result = mul(Arg(cast(x, inside), loc), Arg(std::move(factor), loc));
    result = add(Arg(std::move(result), loc), Arg(std::move(shift), loc));
    return cast(Arg(std::move(result), loc), dtype);
  });
}

}  // namespace hearth
