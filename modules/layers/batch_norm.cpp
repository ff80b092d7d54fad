#include <hearth/modules/batch_norm.hpp>

#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/batch_norm3d.hpp>

#include "running_norm.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// All axes but that of the channels.
std::vector<int> axes_of_statistics(int rank) {
  std::vector<int> axes{0};
  for (int axis = 2; axis < rank; ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

// Whether `dtype` is the layer's: that of its weight or, without one, any with the statistics'
// accumulation_dtype().
bool is_type_of(DType dtype, const detail::BatchNorm& layer) {
  return layer.weight ? dtype == layer.weight->dtype()
                      : accumulation_dtype(dtype) == accumulation_dtype(layer.running_mean.dtype());
}

// Shapes that a layer accepts, for errors.
std::string wanted_shapes(const detail::BatchNormInput& input, DType dtype, std::int64_t channels) {
  const std::string flat = fmt::format("{}[n, {}] or ", name(dtype), channels);
  return fmt::format(
      "{}{}[n, {}, {}]", input.may_lack_axes ? flat : "", name(dtype), channels, input.axes);
}

constexpr detail::BatchNormInput kInputOf1d{"BatchNorm1d", 3, "length", true};
constexpr detail::BatchNormInput kInputOf2d{"BatchNorm2d", 4, "height, width"};
constexpr detail::BatchNormInput kInputOf3d{"BatchNorm3d", 5, "depth, height, width"};

}  // namespace

BatchNorm1d::BatchNorm1d(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : BatchNorm(kInputOf1d, config, device, dtype, loc) {
  detail::set_first_paths(*this);
}
BatchNorm2d::BatchNorm2d(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : BatchNorm(kInputOf2d, config, device, dtype, loc) {
  detail::set_first_paths(*this);
}
BatchNorm3d::BatchNorm3d(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : BatchNorm(kInputOf3d, config, device, dtype, loc) {
  detail::set_first_paths(*this);
}

namespace detail {

BatchNorm::BatchNorm(const BatchNormInput& input,
                     const BatchNormConfig& config,
                     const Device& device,
                     DType dtype,
                     SourceLoc loc)
    : epsilon(config.epsilon), momentum(config.momentum), input_(&input) {
  if (config.channels < 1 || !(config.epsilon >= 0) ||
      !(config.momentum >= 0 && config.momentum <= 1)) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("{}: needs 1 or more channels, an epsilon of 0 or more and a "
                                  "momentum in 0 to 1, got {}, {} and {}",
                                  input.layer,
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
}

void BatchNorm::require_input(const Arg& x, bool is_training) const {
  if (x.is_scalar()) {
    static_cast<void>(taken(x, input_->layer));  // throws for a scalar
  }
  const Tensor& given = x.tensor();
  const Shape shape = given.shape(x.location());
  const bool is_rank = shape.rank() == input_->rank || (input_->may_lack_axes && shape.rank() == 2);
  const bool has_channels = is_rank && shape[1] == running_mean.element_count();
  const bool has_values = has_channels && shape.element_count() > shape[1];
  const bool is_shape = has_channels && (has_values || !is_training);
  if (is_shape && is_type_of(given.dtype(), *this)) {
    return;
  }
  const DType wanted = weight ? weight->dtype() : running_mean.dtype();
  throw_error(
      Error{.code = is_shape ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
            .text = fmt::format("{}: needs {}{}, got {}",
                                input_->layer,
                                wanted_shapes(*input_, wanted, running_mean.element_count()),
                                is_training ? " with two values a channel or more" : "",
                                describe(given.dtype(), shape)),
            .op = std::string(input_->layer),
            .location = x.location()});
}

// Frozen statistics stay in use, since the following layers were trained with them.
bool BatchNorm::takes_statistics(Mode mode) const noexcept {
  return mode == Mode::train && !TensorAccess::has_mark(running_mean, MemberMark::frozen);
}

Tensor BatchNorm::forward(Arg x, Mode mode, StateUpdates& updates) const {
  return takes_statistics(mode) ? trained(x, updates) : evaluated(x);
}

Tensor BatchNorm::forward(Arg x, Mode mode) const {
  return takes_statistics(mode) ? trained(x, current_state_updates(input_->layer, x.location()))
                                : evaluated(x);
}

Tensor BatchNorm::trained(const Arg& x, StateUpdates& updates) const {
  return mistakes_named(input_->layer, [&] {
    const SourceLoc loc = x.location();
    require_input(x, true);
    const DType dtype = x.tensor().dtype();
    const DType inside = accumulation_dtype(dtype);
    const Shape shape = x.tensor().shape();
    const int rank = shape.rank();
    const VectorEnvironment environment;
    const std::int64_t values = shape.element_count() / shape[1];
    const double count = pinned(static_cast<double>(values));
    const std::vector<int> axes = axes_of_statistics(rank);
    const Tensor value = cast(x, inside);
    const Tensor centre = mean(Arg(value, loc), axes, {.keep_dims = true});
    const Tensor distance = sub(Arg(value, loc), Arg(centre, loc));
    const Tensor spread = mean(Arg(square(Arg(distance, loc)), loc), axes, {.keep_dims = true});

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
      result = mul(Arg(std::move(result), loc), Arg(by_channel(*weight, rank, inside, loc), loc));
      result = add(Arg(std::move(result), loc), Arg(by_channel(*bias, rank, inside, loc), loc));
    }
    return cast(Arg(std::move(result), loc), dtype);
  });
}

Tensor BatchNorm::evaluated(const Arg& x) const {
  return mistakes_named(input_->layer, [&] {
    require_input(x, false);
    return normalised_by(x, running_mean, running_variance, weight, bias, epsilon);
  });
}

}  // namespace detail
}  // namespace hearth
