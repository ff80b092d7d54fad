// The networks of train_mnist and concurrent_inference.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>

#include <hearth/hearth.hpp>

namespace digits {

/// Pixels-512-512-10 with relu.
struct Mlp {
  hearth::Linear a, b, c;
  Mlp(std::int64_t height,
      std::int64_t width,
      const hearth::Device& device,
      hearth::Generator& generator)
      : a({.in = height * width, .out = 512}, device, generator),
        b({.in = 512, .out = 512}, device, generator),
        c({.in = 512, .out = 10}, device, generator) {}
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) const {
    return c.forward(relu(b.forward(relu(a.forward(flatten(x, 1))))));
  }
  HEARTH_MODULE(Mlp, a, b, c)
};

/// Two 3×3 convolutions with relu and 2×2 max pooling, and a linear layer.
struct Cnn {
  hearth::Conv2d a, b;
  hearth::Linear c;
  Cnn(std::int64_t height,
      std::int64_t width,
      const hearth::Device& device,
      hearth::Generator& generator)
      : a({.in = 1, .out = 32, .padding = {1, 1}}, device, generator),
        b({.in = 32, .out = 64, .padding = {1, 1}}, device, generator),
        c({.in = 64 * pooled(height) * pooled(width), .out = 10}, device, generator) {}
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) const {
    hearth::Tensor y = max_pool2d(relu(a.forward(x)));
    y = max_pool2d(relu(b.forward(std::move(y))));
    return c.forward(flatten(std::move(y), 1));
  }
  /// Side length after two poolings.
  static std::int64_t pooled(std::int64_t side) {
    if (side < 4) {
      throw std::runtime_error("--model cnn needs images of 4x4 pixels or more; mlp takes any");
    }
    return side / 2 / 2;
  }
  HEARTH_MODULE(Cnn, a, b, c)
};

}  // namespace digits
