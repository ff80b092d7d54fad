#include <hearth/modules/layer_norm.hpp>

#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

namespace hearth {

LayerNorm::LayerNorm(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : epsilon(config.epsilon) {
  if (config.shape.rank() < 1 || config.shape.element_count() < 1 || !(config.epsilon >= 0)) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format(
                  "LayerNorm: needs axes with elements and an epsilon of 0 or more, got {} and {}",
                  config.shape.to_string(),
                  config.epsilon),
              .location = loc});
  }
  const WeightScope weights(device);
  weight = ones(device, config.shape, dtype, loc);
  if (config.bias) {
    bias = zeros(device, config.shape, dtype, loc);
  }
  detail::set_first_paths(*this);
}

Tensor LayerNorm::forward(Arg x) const {
  return detail::mistakes_named("LayerNorm", [&] {
    const SourceLoc loc = x.location();
    const NormOptions options{.axis_count = weight.shape().rank(), .epsilon = epsilon};
    return bias ? hearth::layer_norm(x, Arg(weight, loc), Arg(*bias, loc), options)
                : hearth::layer_norm(x, Arg(weight, loc), options);
  });
}

}  // namespace hearth
