#include <hearth/modules/conv1d.hpp>

#include <hearth/modules/init.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

void require_valid(const Conv1d::Config& config, SourceLoc loc) {
  const std::int64_t least = std::min(
      {config.in, config.out, config.groups, config.kernel, config.stride, config.dilation});
  if (least < 1 || config.padding < 0 || config.in % config.groups != 0 ||
      config.out % config.groups != 0) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("Conv1d: sizes are 1 or more and groups divides both channel counts, "
                            "got in {}, out {}, groups {}, kernel {}, stride {}, padding {}, "
                            "dilation {}",
                            config.in,
                            config.out,
                            config.groups,
                            config.kernel,
                            config.stride,
                            config.padding,
                            config.dilation),
        .location = loc});
  }
}

}  // namespace

Conv1d::Conv1d(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : options{.stride = config.stride,
              .padding = config.padding,
              .dilation = config.dilation,
              .groups = config.groups} {
  require_valid(config, loc);
  const detail::FloatEnvironment environment;
  const WeightScope weights(device);
  const Shape shape{config.out, config.in / config.groups, config.kernel};
  weight = kaiming_uniform(device, shape, generator, dtype, loc);
  if (config.bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in(shape)));
    bias = random_uniform(device, {config.out}, generator, -bound, bound, dtype, loc);
  }
  detail::set_first_paths(*this);
}

Tensor Conv1d::forward(Arg x) const {
  const SourceLoc loc = x.location();
  return detail::mistakes_named("Conv1d", [&] {
    return bias ? conv1d(x, Arg(weight, loc), Arg(*bias, loc), options)
                : conv1d(x, Arg(weight, loc), options);
  });
}

}  // namespace hearth
