#include <hearth/modules/gru.hpp>

#include "recurrent_run.hpp"

#include <hearth/runtime/mistake_name.hpp>

#include <array>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// The new state is new + update*(hidden - new), where update is the share of the old state.
GruResult run_gru(const Gru& layer,
                  const Arg& x,
                  std::optional<Mode> mode,
                  Generator* generator,
                  const RecurrentOptions& options) {
  return detail::mistakes_named("Gru", [&] {
    const detail::RecurrentRun run(
        "Gru", layer.layers, layer.config, x, mode, generator, options.lengths);
    const SourceLoc loc = run.loc();
    using States = detail::RecurrentStates<1>;
    const auto cell =
        [&](const RecurrentWeights& weights, const Tensor& of_input, const States& before) {
          const Tensor& hidden = before[0];
          const std::vector<Tensor> from_input = chunk(Arg(of_input, loc), 3, -1);
          const Tensor of_hidden = weights.of_hidden(Arg(hidden, loc));
          const std::vector<Tensor> from_hidden = chunk(Arg(of_hidden, loc), 3, -1);
          const auto gate = [&](std::size_t i) {
            return sigmoid(Arg(add(Arg(from_input[i], loc), Arg(from_hidden[i], loc)), loc));
          };
          Tensor allowed = mul(Arg(gate(0), loc), Arg(from_hidden[2], loc));
          const Tensor fresh =
              tanh(Arg(add(Arg(from_input[2], loc), Arg(std::move(allowed), loc)), loc));
          Tensor stays = mul(Arg(gate(1), loc), Arg(sub(Arg(hidden, loc), Arg(fresh, loc)), loc));
          return States{add(Arg(fresh, loc), Arg(std::move(stays), loc))};
        };
    auto outcome = detail::run_layers<1>(run, {options.state}, cell);
    return GruResult{std::move(outcome.output), std::move(outcome.states[0])};
  });
}

}  // namespace

Gru::Gru(
    const Config& sizes, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : layers(detail::recurrent_weights("Gru", 3, sizes, device, generator, dtype, loc)),
      config(sizes) {
  detail::set_first_paths(*this);
}

GruResult Gru::run(Arg x, const std::optional<Tensor>& state) const {
  return run_gru(*this, x, {}, nullptr, {.state = state});
}
GruResult Gru::run(Arg x, Mode mode, const RecurrentOptions& options) const {
  return run_gru(*this, x, mode, nullptr, options);
}
GruResult Gru::run(Arg x, Mode mode, Generator& generator, const RecurrentOptions& options) const {
  return run_gru(*this, x, mode, &generator, options);
}

}  // namespace hearth
