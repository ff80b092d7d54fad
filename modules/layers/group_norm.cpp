#include <hearth/modules/group_norm.hpp>

#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

namespace hearth {

GroupNorm::GroupNorm(const Config& config, const Device& device, DType dtype, SourceLoc loc)
    : groups(config.groups), channels(config.channels), epsilon(config.epsilon) {
  if (config.groups < 1 || config.channels < 1 || config.channels % config.groups != 0 ||
      !(config.epsilon >= 0)) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("GroupNorm: groups must divide channels, and epsilon be 0 or "
                                  "more, got groups {}, channels {}, epsilon {}",
                                  config.groups,
                                  config.channels,
                                  config.epsilon),
              .location = loc});
  }
  if (config.affine) {
    const WeightScope weights(device);
    weight = ones(device, {config.channels}, dtype, loc);
    bias = zeros(device, {config.channels}, dtype, loc);
  }
  detail::set_first_paths(*this);
}

Tensor GroupNorm::forward(Arg x) const {
  return detail::mistakes_named("GroupNorm", [&] {
    const SourceLoc loc = x.location();
    return weight ? group_norm(x, groups, Arg(*weight, loc), Arg(*bias, loc), epsilon)
                  : group_norm(x, groups, epsilon);
  });
}

}  // namespace hearth
