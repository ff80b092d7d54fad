#include <hearth/modules/recurrent_weights.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace hearth {

RecurrentWeights::RecurrentWeights(std::int64_t gates,
                                   const RecurrentConfig& config,
                                   const Device& device,
                                   Generator& generator,
                                   DType dtype,
                                   SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const double bound = 1 / std::sqrt(static_cast<double>(config.hidden));
  const std::int64_t rows = gates * config.hidden;
  const auto uniform = [&](const Shape& shape) {
    return random_uniform(device, shape, generator, -bound, bound, dtype, loc);
  };
  const WeightScope weights(device);
  input_weight = uniform({rows, config.in});
  hidden_weight = uniform({rows, config.hidden});
  if (config.bias) {
    input_bias = uniform({rows});
    hidden_bias = uniform({rows});
  }
}

Tensor RecurrentWeights::of_input(Arg x) const {
  const SourceLoc loc = x.location();
  const Tensor columns = transpose(Arg(input_weight, loc));
  return input_bias ? matmul(x, Arg(columns, loc), Arg(*input_bias, loc))
                    : matmul(x, Arg(columns, loc));
}

Tensor RecurrentWeights::of_hidden(Arg hidden) const {
  const SourceLoc loc = hidden.location();
  const Tensor columns = transpose(Arg(hidden_weight, loc));
  return hidden_bias ? matmul(hidden, Arg(columns, loc), Arg(*hidden_bias, loc))
                     : matmul(hidden, Arg(columns, loc));
}

namespace detail {

std::vector<RecurrentWeights> recurrent_weights(std::string_view layer,
                                                std::int64_t gates,
                                                const RecurrentConfig& config,
                                                const Device& device,
                                                Generator& generator,
                                                DType dtype,
                                                SourceLoc loc) {
  if (std::min({config.in, config.hidden, config.layers}) < 1) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("{}: sizes are 1 or more, got in {}, hidden {}, layers {}",
                                  layer,
                                  config.in,
                                  config.hidden,
                                  config.layers),
              .location = loc});
  }
  const std::int64_t directions = config.bidirectional ? 2 : 1;
  RecurrentConfig next = config;
  std::vector<RecurrentWeights> all;
  for (std::int64_t number = 0; number < config.layers; ++number) {
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      all.emplace_back(gates, next, device, generator, dtype, loc);
    }
    next.in = config.hidden * directions;
  }
  return all;
}

void require_sequences(std::string_view layer,
                       const Arg& x,
                       std::int64_t in,
                       const Tensor& weight) {
  if (x.is_scalar()) {
    static_cast<void>(taken(x, layer));  // throws for a scalar
  }
  const Shape shape = x.tensor().shape(x.location());
  if (shape.rank() != 3 || shape[1] < 1 || shape[2] != in) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("{}: needs sequences [n, 1 or more, {}], got {}",
                                          layer,
                                          in,
                                          describe(x.tensor().dtype(), shape)),
                      .op = std::string(layer),
                      .location = x.location()});
  }
  if (x.tensor().dtype() != weight.dtype()) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("{}: needs {} as its weights are, got {}",
                                          layer,
                                          name(weight.dtype()),
                                          describe(x.tensor().dtype(), shape)),
                      .op = std::string(layer),
                      .module_path = layer_of(weight),
                      .location = x.location()});
  }
}

void require_state(std::string_view layer,
                   const Tensor& state,
                   const Shape& wanted,
                   SourceLoc loc) {
  if (state.shape(loc) != wanted) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("{}: the state must be {}, is {}",
                                          layer,
                                          wanted.to_string(),
                                          state.shape().to_string()),
                      .op = std::string(layer),
                      .location = loc});
  }
}

}  // namespace detail
}  // namespace hearth
