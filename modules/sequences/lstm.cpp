#include <hearth/modules/lstm.hpp>

#include "recurrent_run.hpp"

#include <hearth/runtime/mistake_name.hpp>

#include <array>
#include <utility>
#include <vector>

namespace hearth {
namespace {

LstmResult run_lstm(const Lstm& layer,
                    const Arg& x,
                    std::optional<Mode> mode,
                    Generator* generator,
                    const LstmOptions& options) {
  return detail::mistakes_named("Lstm", [&] {
    const detail::RecurrentRun run(
        "Lstm", layer.layers, layer.config, x, mode, generator, options.lengths);
    const SourceLoc loc = run.loc();
    using States = detail::RecurrentStates<2>;
    const auto cell = [&](const RecurrentWeights& weights,
                          const Tensor& of_input,
                          const States& before) {
      const Tensor of_hidden = weights.of_hidden(Arg(before[0], loc));
      const Tensor sums = add(Arg(of_input, loc), Arg(of_hidden, loc));
      const std::vector<Tensor> gates = chunk(Arg(sums, loc), 4, -1);
      Tensor keeps = mul(Arg(sigmoid(Arg(gates[1], loc)), loc), Arg(before[1], loc));
      Tensor writes =
          mul(Arg(sigmoid(Arg(gates[0], loc)), loc), Arg(tanh(Arg(gates[2], loc)), loc));
      Tensor next = add(Arg(std::move(keeps), loc), Arg(std::move(writes), loc));
      Tensor hidden = mul(Arg(sigmoid(Arg(gates[3], loc)), loc), Arg(tanh(Arg(next, loc)), loc));
      return States{std::move(hidden), std::move(next)};
    };
    std::array<std::optional<Tensor>, 2> begin;
    if (options.state) {
      begin = {options.state->hidden, options.state->cell};
    }
    auto outcome = detail::run_layers<2>(run, begin, cell);
    return LstmResult{std::move(outcome.output),
                      {std::move(outcome.states[0]), std::move(outcome.states[1])}};
  });
}

}  // namespace

Lstm::Lstm(
    const Config& sizes, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : layers(detail::recurrent_weights("Lstm", 4, sizes, device, generator, dtype, loc)),
      config(sizes) {
  detail::set_first_paths(*this);
}

LstmResult Lstm::run(Arg x, const std::optional<LstmState>& state) const {
  return run_lstm(*this, x, {}, nullptr, {.state = state});
}
LstmResult Lstm::run(Arg x, Mode mode, const LstmOptions& options) const {
  return run_lstm(*this, x, mode, nullptr, options);
}
LstmResult Lstm::run(Arg x, Mode mode, Generator& generator, const LstmOptions& options) const {
  return run_lstm(*this, x, mode, &generator, options);
}

}  // namespace hearth
