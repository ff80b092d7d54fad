// Elementwise functions as modules without weights, for Sequential.
// Shapes: the result is like x. Dtypes: floats. Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

struct Relu {
  [[nodiscard]] Tensor forward(Arg x) const { return relu(x); }
  HEARTH_MODULE(Relu)
};
struct LeakyRelu {
  double slope = 0.01;  ///< Factor of values below 0.
  [[nodiscard]] Tensor forward(Arg x) const { return leaky_relu(x, slope); }
  HEARTH_MODULE(LeakyRelu)
};
struct Gelu {
  GeluForm form = GeluForm::erf;  ///< The exact function or an approximation.
  [[nodiscard]] Tensor forward(Arg x) const { return gelu(x, form); }
  HEARTH_MODULE(Gelu)
};
struct Silu {
  [[nodiscard]] Tensor forward(Arg x) const { return silu(x); }
  HEARTH_MODULE(Silu)
};
struct Tanh {
  [[nodiscard]] Tensor forward(Arg x) const { return tanh(x); }
  HEARTH_MODULE(Tanh)
};
struct Sigmoid {
  [[nodiscard]] Tensor forward(Arg x) const { return sigmoid(x); }
  HEARTH_MODULE(Sigmoid)
};

}  // namespace hearth
