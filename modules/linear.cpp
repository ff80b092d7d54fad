#include <hearth/modules/linear.hpp>

#include <hearth/modules/init.hpp>

#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth {

Linear::Linear(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc) {
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
  set_paths(*this);
}

Tensor Linear::forward(Arg x) const {
  const SourceLoc loc = x.location();
  if (!x.is_scalar()) {
    const Shape& shape = x.tensor().shape(loc);
    const std::int64_t in = weight.shape(loc)[1];
    if (shape.rank() == 0 || shape[shape.rank() - 1] != in) {
      throw_error(
          Error{.code = ErrorCode::shape_mismatch,
                .text = fmt::format(
                    "Linear: needs [..., {}], got {}", in, describe(x.tensor().dtype(), shape)),
                .op = "Linear",
                .module_path = detail::layer_of(weight),
                .location = loc});
    }
  }
  const Tensor columns = transpose(Arg(weight, loc));
  return bias ? matmul(x, Arg(columns, loc), Arg(*bias, loc)) : matmul(x, Arg(columns, loc));
}

}  // namespace hearth
