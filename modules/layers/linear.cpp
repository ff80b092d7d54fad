#include <hearth/modules/linear.hpp>

#include <hearth/modules/init.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth {

Linear::Linear(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  if (config.in < 1 || config.out < 1) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format(
                  "Linear: needs 1 or more features, got in {}, out {}", config.in, config.out),
              .location = loc});
  }
  const WeightScope weights(device);
  weight = kaiming_uniform(device, {config.out, config.in}, generator, dtype, loc);
  if (config.bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(config.in));
    bias = random_uniform(device, {config.out}, generator, -bound, bound, dtype, loc);
  }
  detail::set_first_paths(*this);
}

namespace {

void require_fit(const Arg& x, const Tensor& weight) {
  const SourceLoc loc = x.location();
  const Tensor& input = x.tensor();
  if (!input.is_valid() || !weight.is_valid()) {
    return;  // matmul rejects it
  }
  const auto refuse = [&](ErrorCode code, const std::string& text) {
    throw_error(Error{.code = code,
                      .text = "Linear: " + text,
                      .op = "Linear",
                      .module_path = detail::layer_of(weight),
                      .location = loc});
  };
  const Shape& shape = input.shape();
  const std::int64_t in = weight.shape()[{1, loc}];
  if (shape.rank() == 0 || shape[shape.rank() - 1] != in) {
    refuse(ErrorCode::shape_mismatch,
           fmt::format("needs [..., {}], got {}", in, describe(input.dtype(), shape)));
  }
  if (input.dtype() != weight.dtype()) {
    refuse(ErrorCode::dtype_mismatch,
           fmt::format("needs {} as its weights are, got {}",
                       name(weight.dtype()),
                       describe(input.dtype(), shape)));
  }
}

}  // namespace

Tensor Linear::forward(Arg x) const {
  const SourceLoc loc = x.location();
  return detail::mistakes_named("Linear", [&] {
    if (!x.is_scalar()) {
      require_fit(x, weight);
    }
    const Tensor columns = transpose(Arg(weight, loc));
    return bias ? matmul(x, Arg(columns, loc), Arg(*bias, loc)) : matmul(x, Arg(columns, loc));
  });
}

}  // namespace hearth
