#include <hearth/modules/conv_transpose2d.hpp>

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

void require_valid(const ConvTranspose2d::Config& config, SourceLoc loc) {
  const auto reaches = [](Size2d values, std::int64_t least) {
    return std::min(values[0], values[1]) >= least;
  };
  const bool is_valid =
      config.in >= 1 && config.out >= 1 && config.groups >= 1 && config.in % config.groups == 0 &&
      config.out % config.groups == 0 && reaches(config.kernel, 1) && reaches(config.stride, 1) &&
      reaches(config.dilation, 1) && reaches(config.padding, 0) &&
      reaches(config.output_padding, 0) && config.output_padding[0] < config.stride[0] &&
      config.output_padding[1] < config.stride[1];
  if (!is_valid) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("ConvTranspose2d: sizes are 1 or more, groups divides both channel "
                            "counts and output_padding is below the stride, got in {}, out {}, "
                            "groups {}, kernel {}x{}, stride {}x{}, padding {}x{}, output_padding "
                            "{}x{}, dilation {}x{}",
                            config.in,
                            config.out,
                            config.groups,
                            config.kernel[0],
                            config.kernel[1],
                            config.stride[0],
                            config.stride[1],
                            config.padding[0],
                            config.padding[1],
                            config.output_padding[0],
                            config.output_padding[1],
                            config.dilation[0],
                            config.dilation[1]),
        .location = loc});
  }
}

}  // namespace

ConvTranspose2d::ConvTranspose2d(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : options{.stride = config.stride,
              .padding = config.padding,
              .output_padding = config.output_padding,
              .dilation = config.dilation,
              .groups = config.groups} {
  require_valid(config, loc);
  const detail::FloatEnvironment environment;
  const WeightScope weights(device);
  const Shape shape{config.in, config.out / config.groups, config.kernel[0], config.kernel[1]};
  weight = kaiming_uniform(device, shape, generator, dtype, loc);
  if (config.bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in(shape)));
    bias = random_uniform(device, {config.out}, generator, -bound, bound, dtype, loc);
  }
  detail::set_first_paths(*this);
}

Tensor ConvTranspose2d::forward(Arg x) const {
  return detail::mistakes_named("ConvTranspose2d", [&] {
    const SourceLoc loc = x.location();
    if (!x.is_scalar()) {
      const Shape& shape = x.tensor().shape(loc);
      const std::int64_t in = weight.shape(loc)[0];
      if (shape.rank() != 4 || shape[1] != in) {
        throw_error(
            Error{.code = ErrorCode::shape_mismatch,
                  .text = fmt::format("ConvTranspose2d: needs [n, {}, height, width], got {}",
                                      in,
                                      describe(x.tensor().dtype(), shape)),
                  .op = "ConvTranspose2d",
                  .module_path = detail::layer_of(weight),
                  .location = loc});
      }
    }
    return bias ? conv_transpose2d(x, Arg(weight, loc), Arg(*bias, loc), options)
                : conv_transpose2d(x, Arg(weight, loc), options);
  });
}

}  // namespace hearth
