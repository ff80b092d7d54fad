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
struct Elu {
  double alpha = 1;  ///< The result far below 0 is -alpha.
  [[nodiscard]] Tensor forward(Arg x) const { return elu(x, alpha); }
  HEARTH_MODULE(Elu)
};
struct Selu {
  [[nodiscard]] Tensor forward(Arg x) const { return selu(x); }
  HEARTH_MODULE(Selu)
};
struct Celu {
  double alpha = 1;  ///< The result far below 0 is -alpha.
  [[nodiscard]] Tensor forward(Arg x) const { return celu(x, alpha); }
  HEARTH_MODULE(Celu)
};
struct Softplus {
  double beta = 1;        ///< Sharpness: the larger, the closer to Relu.
  double threshold = 20;  ///< The result is x where beta·x is above it.
  [[nodiscard]] Tensor forward(Arg x) const {
    return softplus(x, {.beta = beta, .threshold = threshold});
  }
  HEARTH_MODULE(Softplus)
};
struct Mish {
  [[nodiscard]] Tensor forward(Arg x) const { return mish(x); }
  HEARTH_MODULE(Mish)
};
struct Hardsigmoid {
  [[nodiscard]] Tensor forward(Arg x) const { return hardsigmoid(x); }
  HEARTH_MODULE(Hardsigmoid)
};
struct Hardswish {
  [[nodiscard]] Tensor forward(Arg x) const { return hardswish(x); }
  HEARTH_MODULE(Hardswish)
};
struct Softsign {
  [[nodiscard]] Tensor forward(Arg x) const { return softsign(x); }
  HEARTH_MODULE(Softsign)
};

}  // namespace hearth
