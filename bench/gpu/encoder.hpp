// The encoder of the GPU table: transformer layers of width 512, 8 heads, inner width 2048, GELU,
// norms first. Its head has 10 classes over the mean of the places. Threads: as modules.
#pragma once

#include <vector>

#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/runtime/ops.hpp>

namespace hearth::bench {

struct Encoder {
  std::vector<TransformerEncoderLayer> layers;
  Linear head;

  Encoder(int count, DType dtype, const Device& device, Generator& generator)
      : head({.in = 512, .out = 10}, device, generator, dtype) {
    for (int i = 0; i < count; ++i) {
      layers.emplace_back(
          TransformerEncoderLayer::Config{.width = 512,
                                          .heads = 8,
                                          .inner = 2048,
                                          .dropout = 0.0,
                                          .activation = TransformerEncoderLayer::Activation::gelu,
                                          .norm_first = true},
          device,
          generator,
          dtype);
    }
  }

  /// Shapes: x [n, s, 512] -> [n, 10].
  [[nodiscard]] Tensor forward(Tensor x) const {
    for (const TransformerEncoderLayer& layer : layers) {
      x = layer.forward(x, Mode::eval);
    }
    return head.forward(mean(x, {1}));
  }
  HEARTH_MODULE(Encoder, layers, head)
};

}  // namespace hearth::bench
