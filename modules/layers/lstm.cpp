#include <hearth/modules/lstm.hpp>

#include "recurrent_run.hpp"

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <utility>

namespace hearth {

Lstm::Lstm(
    const Config& sizes, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : layers(detail::recurrent_weights("Lstm", 4, sizes, device, generator, dtype, loc)),
      config(sizes) {
  detail::set_first_paths(*this);
}

LstmResult Lstm::run(Arg x, const std::optional<LstmState>& state) const {
  return detail::mistakes_named("Lstm", [&] {
    const SourceLoc loc = x.location();
    detail::require_sequences("Lstm", x, config.in, layers.front().input_weight);
    const Tensor& weight = layers.front().input_weight;
    const Shape each{x.tensor().shape()[0], config.hidden};
    if (state) {
      const Shape wanted{static_cast<std::int64_t>(layers.size()), each[0], each[1]};
      detail::require_state("Lstm", state->hidden, wanted, loc);
      detail::require_state("Lstm", state->cell, wanted, loc);
    }
    std::vector<Tensor> last_hidden;
    std::vector<Tensor> last_cell;
    const auto direction = [&](std::size_t number,
                               const RecurrentWeights& weights,
                               const Tensor& input,
                               bool is_reversed) {
      const LayerScope scope(weights, weights.input_weight);
      const auto start = [&](const Tensor& all) { return detail::part_of(all, number, loc); };
      Tensor hidden =
          state ? start(state->hidden) : zeros(weight.device(), each, weight.dtype(), loc);
      Tensor cell = state ? start(state->cell) : zeros(weight.device(), each, weight.dtype(), loc);
      Tensor output =
          detail::run_direction(weights, input, is_reversed, loc, [&](const Tensor& of_input) {
            const Tensor sums =
                add(Arg(of_input, loc), Arg(weights.of_hidden(Arg(hidden, loc)), loc));
            const std::vector<Tensor> gates = chunk(Arg(sums, loc), 4, -1);
            Tensor keeps = mul(Arg(sigmoid(Arg(gates[1], loc)), loc), Arg(cell, loc));
            Tensor writes =
                mul(Arg(sigmoid(Arg(gates[0], loc)), loc), Arg(tanh(Arg(gates[2], loc)), loc));
            cell = add(Arg(std::move(keeps), loc), Arg(std::move(writes), loc));
            hidden = mul(Arg(sigmoid(Arg(gates[3], loc)), loc), Arg(tanh(Arg(cell, loc)), loc));
            return hidden;
          });
      last_hidden.push_back(hidden);
      last_cell.push_back(cell);
      return output;
    };
    Tensor output =
        detail::run_layers(layers, config.bidirectional, taken(x, module_name()), loc, direction);
    return LstmResult{std::move(output), {stack(last_hidden, 0, loc), stack(last_cell, 0, loc)}};
  });
}

}  // namespace hearth
