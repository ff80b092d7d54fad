#include <hearth/modules/gru.hpp>

#include "recurrent_run.hpp"

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <utility>

namespace hearth {

Gru::Gru(
    const Config& sizes, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : layers(detail::recurrent_weights("Gru", 3, sizes, device, generator, dtype, loc)),
      config(sizes) {
  detail::set_first_paths(*this);
}

// The new state is new + update*(hidden - new), where update is the share of the old state.
GruResult Gru::run(Arg x, const std::optional<Tensor>& state) const {
  return detail::mistakes_named("Gru", [&] {
    const SourceLoc loc = x.location();
    detail::require_sequences("Gru", x, config.in, layers.front().input_weight);
    const Tensor& weight = layers.front().input_weight;
    const Shape each{x.tensor().shape()[0], config.hidden};
    if (state) {
      detail::require_state(
          "Gru", *state, {static_cast<std::int64_t>(layers.size()), each[0], each[1]}, loc);
    }
    std::vector<Tensor> last;
    const auto direction = [&](std::size_t number,
                               const RecurrentWeights& weights,
                               const Tensor& input,
                               bool is_reversed) {
      const LayerScope scope(weights, weights.input_weight);
      Tensor hidden = state ? detail::part_of(*state, number, loc)
                            : zeros(weight.device(), each, weight.dtype(), loc);
      Tensor output =
          detail::run_direction(weights, input, is_reversed, loc, [&](const Tensor& of_input) {
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
            hidden = add(Arg(fresh, loc), Arg(std::move(stays), loc));
            return hidden;
          });
      last.push_back(hidden);
      return output;
    };
    Tensor output =
        detail::run_layers(layers, config.bidirectional, taken(x, module_name()), loc, direction);
    return GruResult{std::move(output), stack(last, 0, loc)};
  });
}

}  // namespace hearth
