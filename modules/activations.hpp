// Functions of one element as modules without weights, for Sequential, and gelu(), which is made of
// several ops. Shapes: the result is like x. Dtypes: floats. Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// x·Φ(x) with the normal distribution function, by erf (not the tanh approximation).
/// Paper: Hendrycks, Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.
[[nodiscard]] Tensor gelu(Arg x);

struct Relu {
  [[nodiscard]] Tensor forward(Arg x) const { return relu(x); }
  HEARTH_MODULE(Relu)
};
struct Gelu {
  [[nodiscard]] Tensor forward(Arg x) const { return gelu(x); }
  HEARTH_MODULE(Gelu)
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
