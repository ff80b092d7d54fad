// Common parts of TransformerEncoderLayer and TransformerDecoderLayer: their sublayers, the
// feed-forward block, and the residual sum around a block. Private to modules.
// Threads: as the layers.
#pragma once

#include <hearth/modules/dropout.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/swiglu.hpp>
#include <hearth/modules/transformer_config.hpp>

#include <hearth/runtime/ops.hpp>

#include <optional>
#include <utility>

namespace hearth::detail {

/// Creates the sublayers of one layer in turn, from one generator.
class TransformerParts {
 public:
  TransformerParts(const TransformerConfig& config,
                   const Device& device,
                   Generator& generator,
                   DType dtype,
                   SourceLoc loc)
      : config_(config), device_(device), generator_(generator), dtype_(dtype), loc_(loc) {}

  [[nodiscard]] MultiHeadAttention attention(const std::optional<RotaryOptions>& rotary) const {
    return {{.width = config_.width,
             .heads = config_.heads,
             .key_heads = config_.key_heads,
             .bias = config_.bias,
             .rotary = rotary},
            device_,
            generator_,
            dtype_,
            loc_};
  }
  [[nodiscard]] LayerNorm norm() const {
    return {{.shape = {config_.width}, .epsilon = config_.epsilon, .bias = config_.bias},
            device_,
            dtype_,
            loc_};
  }
  [[nodiscard]] Linear into_inner() const { return linear(config_.width, inner()); }
  [[nodiscard]] Linear out_of_inner() const { return linear(inner(), config_.width); }
  /// The gate of the feed-forward block, if its activation has one.
  [[nodiscard]] std::optional<Linear> gate() const {
    return config_.activation == FeedForwardActivation::swiglu ? std::optional(into_inner())
                                                               : std::nullopt;
  }

 private:
  [[nodiscard]] std::int64_t inner() const noexcept {
    return config_.inner == 0 ? 4 * config_.width : config_.inner;
  }
  [[nodiscard]] Linear linear(std::int64_t in, std::int64_t out) const {
    return {{.in = in, .out = out, .bias = config_.bias}, device_, generator_, dtype_, loc_};
  }

  const TransformerConfig& config_;
  const Device& device_;
  Generator& generator_;
  DType dtype_;
  SourceLoc loc_;
};

/// Dropout of a layer in one forward pass.
class TransformerDropout {
 public:
  /// Draws from `generator`, or from the calling thread's GeneratorScope if it is null.
  TransformerDropout(const Dropout& dropout, Mode mode, Generator* generator, SourceLoc loc)
      : dropout_(dropout), mode_(mode), generator_(generator), loc_(loc) {}

  [[nodiscard]] Tensor operator()(Tensor x) const {
    const Arg arg(std::move(x), loc_);
    return generator_ == nullptr ? dropout_.forward(arg, mode_)
                                 : dropout_.forward(arg, mode_, *generator_);
  }

 private:
  const Dropout& dropout_;
  Mode mode_;
  Generator* generator_;
  SourceLoc loc_;
};

/// The feed-forward block of a layer.
template <class Layer>
[[nodiscard]] Tensor feed_forward(const Layer& layer,
                                  const Tensor& x,
                                  const TransformerDropout& drop,
                                  SourceLoc loc) {
  const Arg in(x, loc);
  Tensor hidden = layer.linear1.forward(in);
  if (layer.gate) {
    hidden = swiglu(Arg(layer.gate->forward(in), loc), Arg(std::move(hidden), loc));
  } else {
    hidden = layer.activation == FeedForwardActivation::relu ? relu(Arg(std::move(hidden), loc))
                                                             : gelu(Arg(std::move(hidden), loc));
  }
  return layer.linear2.forward(Arg(drop(std::move(hidden)), loc));
}

/// Returns norm(x + branch(x)), or x + branch(norm(x)) in a layer whose norms come first.
template <class Layer, class Branch>
[[nodiscard]] Tensor residual(const Layer& layer,
                              const LayerNorm& norm,
                              const Tensor& x,
                              const TransformerDropout& drop,
                              SourceLoc loc,
                              const Branch& branch) {
  Tensor change =
      drop(layer.norm_first ? branch(Tensor(norm.forward(Arg(x, loc)))) : branch(Tensor(x)));
  Tensor sum = add(Arg(x, loc), Arg(std::move(change), loc));
  return layer.norm_first ? std::move(sum) : norm.forward(Arg(std::move(sum), loc));
}

}  // namespace hearth::detail
