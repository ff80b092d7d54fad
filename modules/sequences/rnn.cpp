#include <hearth/modules/rnn.hpp>

#include "recurrent_run.hpp"

#include <hearth/runtime/mistake_name.hpp>

#include <array>
#include <utility>
#include <vector>

namespace hearth {
namespace {

RecurrentConfig config_of(const Rnn::Config& sizes) {
  return {.in = sizes.in,
          .hidden = sizes.hidden,
          .layers = sizes.layers,
          .bias = sizes.bias,
          .bidirectional = sizes.bidirectional,
          .dropout = sizes.dropout};
}

RnnResult run_rnn(const Rnn& layer,
                  const Arg& x,
                  std::optional<Mode> mode,
                  Generator* generator,
                  const RecurrentOptions& options) {
  return detail::mistakes_named("Rnn", [&] {
    const detail::RecurrentRun run(
        "Rnn", layer.layers, layer.config, x, mode, generator, options.lengths);
    const SourceLoc loc = run.loc();
    using States = detail::RecurrentStates<1>;
    const auto cell = [&](const RecurrentWeights& weights, Tensor of_input, const States& before) {
      Tensor of_hidden = weights.of_hidden(Arg(before[0], loc));
      const Tensor sums = add(Arg(std::move(of_input), loc), Arg(std::move(of_hidden), loc));
      return States{layer.activation == Rnn::Activation::tanh ? tanh(Arg(sums, loc))
                                                              : relu(Arg(sums, loc))};
    };
    auto outcome = detail::run_layers<1>(run, {options.state}, cell);
    return RnnResult{std::move(outcome.output), std::move(outcome.states[0])};
  });
}

}  // namespace

Rnn::Rnn(
    const Config& sizes, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : layers(detail::recurrent_weights("Rnn", 1, config_of(sizes), device, generator, dtype, loc)),
      config(config_of(sizes)),
      activation(sizes.activation) {
  detail::set_first_paths(*this);
}

RnnResult Rnn::run(Arg x, const std::optional<Tensor>& state) const {
  return run_rnn(*this, x, {}, nullptr, {.state = state});
}
RnnResult Rnn::run(Arg x, Mode mode, const RecurrentOptions& options) const {
  return run_rnn(*this, x, mode, nullptr, options);
}
RnnResult Rnn::run(Arg x, Mode mode, Generator& generator, const RecurrentOptions& options) const {
  return run_rnn(*this, x, mode, &generator, options);
}

}  // namespace hearth
