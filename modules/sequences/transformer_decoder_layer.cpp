#include <hearth/modules/transformer_decoder_layer.hpp>

#include "transformer_parts.hpp"

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <utility>

namespace hearth {
namespace {

using Decoder = TransformerDecoderLayer;

// Runs the layer. `attend` applies its self-attention, `look_up` its attention to the memory.
template <class Attend, class LookUp>
Tensor run_decoder(const Decoder& layer,
                   const Arg& input,
                   const detail::TransformerDropout& drop,
                   const Attend& attend,
                   const LookUp& look_up) {
  const SourceLoc loc = input.location();
  const LayerScope scope(layer, layer.linear1.weight);
  return detail::mistakes_named(Decoder::module_name(), [&] {
    Tensor x = taken(input, Decoder::module_name());
    x = detail::residual(layer, layer.norm1, x, drop, loc, attend);
    x = detail::residual(layer, layer.norm2, x, drop, loc, look_up);
    return detail::residual(layer, layer.norm3, x, drop, loc, [&](const Tensor& value) {
      return detail::feed_forward(layer, value, drop, loc);
    });
  });
}

Tensor attended_memory(const Decoder& layer,
                       const Tensor& x,
                       const KeyValueCache& memory,
                       const std::optional<Tensor>& mask,
                       SourceLoc loc) {
  return mask ? layer.cross_attention.attend(Arg(x, loc), memory, Arg(*mask, loc))
              : layer.cross_attention.attend(Arg(x, loc), memory);
}

Tensor decoded(const Decoder& layer,
               const Arg& x,
               const Arg& memory,
               Mode mode,
               Generator* generator,
               const DecoderOptions& options) {
  const SourceLoc loc = x.location();
  const detail::TransformerDropout drop(layer.dropout, mode, generator, loc);
  const KeyValueCache projected = layer.start(memory).memory;
  const AttentionOptions causal{.causal = options.causal};
  return run_decoder(
      layer,
      x,
      drop,
      [&](const Tensor& value) {
        const Arg in(value, loc);
        return options.mask ? layer.attention.forward(in, Arg(*options.mask, loc), causal)
                            : layer.attention.forward(in, causal);
      },
      [&](const Tensor& value) {
        return attended_memory(layer, value, projected, options.memory_mask, loc);
      });
}

}  // namespace

TransformerDecoderLayer::TransformerDecoderLayer(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : TransformerDecoderLayer(
          config, detail::TransformerParts(config, device, generator, dtype, loc), loc) {}

TransformerDecoderLayer::TransformerDecoderLayer(const Config& config,
                                                 const detail::TransformerParts& parts,
                                                 SourceLoc loc)
    : attention(parts.attention(config.rotary)),
      norm1(parts.norm()),
      cross_attention(parts.attention({})),
      norm2(parts.norm()),
      linear1(parts.into_inner()),
      linear2(parts.out_of_inner()),
      gate(parts.gate()),
      norm3(parts.norm()),
      dropout({.p = config.dropout}, loc),
      activation(config.activation),
      norm_first(config.norm_first) {
  detail::set_first_paths(*this);
}

Tensor TransformerDecoderLayer::forward(Arg x,
                                        Arg memory,
                                        Mode mode,
                                        const DecoderOptions& options) const {
  return decoded(*this, x, memory, mode, nullptr, options);
}
Tensor TransformerDecoderLayer::forward(
    Arg x, Arg memory, Mode mode, Generator& generator, const DecoderOptions& options) const {
  return decoded(*this, x, memory, mode, &generator, options);
}

DecoderCache TransformerDecoderLayer::start(Arg memory, std::optional<Tensor> memory_mask) const {
  return detail::mistakes_named(module_name(), [&] {
    return DecoderCache{.memory = cross_attention.projected(memory),
                        .memory_mask = std::move(memory_mask)};
  });
}

Tensor TransformerDecoderLayer::step(Arg x, DecoderCache& cache) const {
  const SourceLoc loc = x.location();
  if (!cache.memory.keys) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "TransformerDecoderLayer: step() needs a cache with a memory, which "
                              "start(memory) makes",
                      .location = loc});
  }
  const detail::TransformerDropout drop(dropout, Mode::eval, nullptr, loc);
  KeyValueCache positions = cache.positions;
  Tensor result = run_decoder(
      *this,
      x,
      drop,
      [&](const Tensor& value) { return attention.step(Arg(value, loc), positions); },
      [&](const Tensor& value) {
        return attended_memory(*this, value, cache.memory, cache.memory_mask, loc);
      });
  cache.positions = std::move(positions);
  return result;
}

}  // namespace hearth
