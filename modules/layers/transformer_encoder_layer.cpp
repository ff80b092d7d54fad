#include <hearth/modules/transformer_encoder_layer.hpp>

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <utility>

namespace hearth {
namespace {

using Layer = TransformerEncoderLayer;

std::int64_t inner_width(const Layer::Config& config) {
  return config.inner == 0 ? 4 * config.width : config.inner;
}

// Runs the layer. `attend` and `drop` apply attention and dropout in the caller's mode.
template <class Attend, class Drop>
Tensor run(const Layer& layer, const Arg& input, const Attend& attend, const Drop& drop) {
  const SourceLoc loc = input.location();
  const LayerScope scope(layer, layer.linear1.weight);
  const auto arg = [loc](Tensor x) { return Arg(std::move(x), loc); };
  const auto feed_forward = [&](Tensor x) {
    Tensor hidden = layer.linear1.forward(arg(std::move(x)));
    hidden = layer.activation == Layer::Activation::relu ? relu(arg(std::move(hidden)))
                                                         : gelu(arg(std::move(hidden)));
    return layer.linear2.forward(arg(drop(std::move(hidden))));
  };
  const auto around = [&](const Tensor& x, Tensor branch) {
    return add(Arg(x, loc), arg(drop(std::move(branch))));
  };
  return detail::mistakes_named(Layer::module_name(), [&] {
    Tensor x = taken(input, Layer::module_name());
    if (layer.norm_first) {
      x = around(x, attend(layer.norm1.forward(Arg(x, loc))));
      return around(x, feed_forward(layer.norm2.forward(Arg(x, loc))));
    }
    x = layer.norm1.forward(arg(around(x, attend(x))));
    return layer.norm2.forward(arg(around(x, feed_forward(x))));
  });
}

template <class Drop>
Tensor forward_of(const Layer& layer,
                  const Arg& x,
                  const Arg* mask,
                  const AttentionOptions& options,
                  const Drop& drop) {
  const SourceLoc loc = x.location();
  return run(
      layer,
      x,
      [&](Tensor value) {
        const Arg in(std::move(value), loc);
        return mask != nullptr ? layer.attention.forward(in, *mask, options)
                               : layer.attention.forward(in, options);
      },
      drop);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : attention({.width = config.width,
                 .heads = config.heads,
                 .key_heads = config.key_heads,
                 .bias = config.bias},
                device,
                generator,
                dtype,
                loc),
      norm1({.shape = {config.width}, .epsilon = config.epsilon, .bias = config.bias},
            device,
            dtype,
            loc),
      linear1({.in = config.width, .out = inner_width(config), .bias = config.bias},
              device,
              generator,
              dtype,
              loc),
      linear2({.in = inner_width(config), .out = config.width, .bias = config.bias},
              device,
              generator,
              dtype,
              loc),
      norm2({.shape = {config.width}, .epsilon = config.epsilon, .bias = config.bias},
            device,
            dtype,
            loc),
      dropout({.p = config.dropout}, loc),
      activation(config.activation),
      norm_first(config.norm_first) {
  detail::set_first_paths(*this);
}

Tensor TransformerEncoderLayer::forward(Arg x, Mode mode, AttentionOptions options) const {
  const SourceLoc loc = x.location();
  return forward_of(*this, x, nullptr, options, [&](Tensor value) {
    return dropout.forward(Arg(std::move(value), loc), mode);
  });
}
Tensor TransformerEncoderLayer::forward(Arg x,
                                        Arg mask,
                                        Mode mode,
                                        AttentionOptions options) const {
  const SourceLoc loc = x.location();
  return forward_of(*this, x, &mask, options, [&](Tensor value) {
    return dropout.forward(Arg(std::move(value), loc), mode);
  });
}
Tensor TransformerEncoderLayer::forward(Arg x,
                                        Mode mode,
                                        Generator& generator,
                                        AttentionOptions options) const {
  const SourceLoc loc = x.location();
  return forward_of(*this, x, nullptr, options, [&](Tensor value) {
    return dropout.forward(Arg(std::move(value), loc), mode, generator);
  });
}
Tensor TransformerEncoderLayer::forward(
    Arg x, Arg mask, Mode mode, Generator& generator, AttentionOptions options) const {
  const SourceLoc loc = x.location();
  return forward_of(*this, x, &mask, options, [&](Tensor value) {
    return dropout.forward(Arg(std::move(value), loc), mode, generator);
  });
}

Tensor TransformerEncoderLayer::step(Arg x, KeyValueCache& cache) const {
  const SourceLoc loc = x.location();
  return run(
      *this,
      x,
      [&](Tensor value) { return attention.step(Arg(std::move(value), loc), cache); },
      [](Tensor value) { return value; });
}

}  // namespace hearth
