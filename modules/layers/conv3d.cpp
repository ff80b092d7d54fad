#include <hearth/modules/conv3d.hpp>

#include <hearth/modules/init.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

void require_valid(const Conv3d::Config& config, SourceLoc loc) {
  const auto reaches = [](Size3d values, std::int64_t least) {
    return std::min({values[0], values[1], values[2]}) >= least;
  };
  const bool is_valid = config.in >= 1 && config.out >= 1 && config.groups >= 1 &&
                        config.in % config.groups == 0 && config.out % config.groups == 0 &&
                        reaches(config.kernel, 1) && reaches(config.stride, 1) &&
                        reaches(config.dilation, 1) && reaches(config.padding, 0);
  if (!is_valid) {
    const auto shown = [](Size3d size) {
      return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
    };
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("Conv3d: sizes are 1 or more and groups divides both channel counts, "
                            "got in {}, out {}, groups {}, kernel {}, stride {}, padding {}, "
                            "dilation {}",
                            config.in,
                            config.out,
                            config.groups,
                            shown(config.kernel),
                            shown(config.stride),
                            shown(config.padding),
                            shown(config.dilation)),
        .location = loc});
  }
}

}  // namespace

Conv3d::Conv3d(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : options{.stride = config.stride,
              .padding = config.padding,
              .dilation = config.dilation,
              .groups = config.groups} {
  require_valid(config, loc);
  const detail::FloatEnvironment environment;
  const WeightScope weights(device);
  const Size3d& kernel = config.kernel;
  const Shape shape{config.out, config.in / config.groups, kernel[0], kernel[1], kernel[2]};
  weight = kaiming_uniform(device, shape, generator, dtype, loc);
  if (config.bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in(shape)));
    bias = random_uniform(device, {config.out}, generator, -bound, bound, dtype, loc);
  }
  detail::set_first_paths(*this);
}

Tensor Conv3d::forward(Arg x) const {
  return detail::mistakes_named("Conv3d", [&] {
    const SourceLoc loc = x.location();
    if (!x.is_scalar()) {
      const Shape& shape = x.tensor().shape(loc);
      const std::int64_t in = weight.shape(loc)[1] * options.groups;
      if (shape.rank() != 5 || shape[1] != in) {
        throw_error(Error{.code = ErrorCode::shape_mismatch,
                          .text = fmt::format("Conv3d: needs [n, {}, depth, height, width], got {}",
                                              in,
                                              describe(x.tensor().dtype(), shape)),
                          .op = "Conv3d",
                          .module_path = detail::layer_of(weight),
                          .location = loc});
      }
    }
    return bias ? conv3d(x, Arg(weight, loc), Arg(*bias, loc), options)
                : conv3d(x, Arg(weight, loc), options);
  });
}

}  // namespace hearth
