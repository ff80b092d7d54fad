#include <hearth/modules/transformer_encoder_layer.hpp>

#include "transformer_parts.hpp"

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <utility>

namespace hearth {
namespace {

using Encoder = TransformerEncoderLayer;

// Runs the layer. `attend` applies its attention.
template <class Attend>
Tensor run_encoder(const Encoder& layer,
                   const Arg& input,
                   const detail::TransformerDropout& drop,
                   const Attend& attend) {
  const SourceLoc loc = input.location();
  const LayerScope scope(layer, layer.linear1.weight);
  return detail::mistakes_named(Encoder::module_name(), [&] {
    Tensor x = taken(input, Encoder::module_name());
    x = detail::residual(layer, layer.norm1, x, drop, loc, attend);
    return detail::residual(layer, layer.norm2, x, drop, loc, [&](const Tensor& value) {
      return detail::feed_forward(layer, value, drop, loc);
    });
  });
}

Tensor encoded(const Encoder& layer,
               const Arg& x,
               const Arg* mask,
               Mode mode,
               Generator* generator,
               const AttentionOptions& options) {
  const SourceLoc loc = x.location();
  const detail::TransformerDropout drop(layer.dropout, mode, generator, loc);
  return run_encoder(layer, x, drop, [&](Tensor value) {
    const Arg in(std::move(value), loc);
    return mask != nullptr ? layer.attention.forward(in, *mask, options)
                           : layer.attention.forward(in, options);
  });
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : TransformerEncoderLayer(
          config, detail::TransformerParts(config, device, generator, dtype, loc), loc) {}

TransformerEncoderLayer::TransformerEncoderLayer(const Config& config,
                                                 const detail::TransformerParts& parts,
                                                 SourceLoc loc)
    : attention(parts.attention(config.rotary)),
      norm1(parts.norm()),
      linear1(parts.into_inner()),
      linear2(parts.out_of_inner()),
      gate(parts.gate()),
      norm2(parts.norm()),
      dropout({.p = config.dropout}, loc),
      activation(config.activation),
      norm_first(config.norm_first) {
  detail::set_first_paths(*this);
}

Tensor TransformerEncoderLayer::forward(Arg x, Mode mode, AttentionOptions options) const {
  return encoded(*this, x, nullptr, mode, nullptr, options);
}
Tensor TransformerEncoderLayer::forward(Arg x,
                                        Arg mask,
                                        Mode mode,
                                        AttentionOptions options) const {
  return encoded(*this, x, &mask, mode, nullptr, options);
}
Tensor TransformerEncoderLayer::forward(Arg x,
                                        Mode mode,
                                        Generator& generator,
                                        AttentionOptions options) const {
  return encoded(*this, x, nullptr, mode, &generator, options);
}
Tensor TransformerEncoderLayer::forward(
    Arg x, Arg mask, Mode mode, Generator& generator, AttentionOptions options) const {
  return encoded(*this, x, &mask, mode, &generator, options);
}

Tensor TransformerEncoderLayer::step(Arg x, KeyValueCache& cache) const {
  const SourceLoc loc = x.location();
  const detail::TransformerDropout drop(dropout, Mode::eval, nullptr, loc);
  return run_encoder(*this, x, drop, [&](Tensor value) {
    return attention.step(Arg(std::move(value), loc), cache);
  });
}

}  // namespace hearth
