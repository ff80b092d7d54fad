#include <hearth/modules/recurrent_weights.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  if (!(config.dropout >= 0 && config.dropout <= 1) || (config.dropout > 0 && config.layers == 1)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: dropout is in 0 to 1 and acts between layers, got "
                                          "dropout {}, layers {}",
                                          layer,
                                          config.dropout,
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

}  // namespace detail
}  // namespace hearth
