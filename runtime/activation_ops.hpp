// Activations: elementwise functions between layers of networks. ops.hpp includes this header and
// states the rules of all ops. Dtypes: floats; f16 and bf16 are computed in f32 and rounded once.
// Threads: any.
#pragma once

#include <cstdint>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// x where it is above 0, else slope·x. Dtypes: floats.
/// Paper: Maas, Hannun, Ng, Rectifier nonlinearities improve neural network acoustic models, ICML
/// 2013.
[[nodiscard]] Tensor leaky_relu(Arg x, double slope = 0.01);
/// x·sigmoid(x).
/// Paper: Elfwing, Uchibe, Doya, arXiv:1702.03118.
[[nodiscard]] Tensor silu(Arg x);
enum class GeluForm : std::uint8_t {
  erf,   ///< x·Φ(x), with the normal distribution function Φ.
  tanh,  ///< The approximation x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2.
};
/// Gaussian error linear unit.
/// Paper: Hendrycks, Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.
[[nodiscard]] Tensor gelu(Arg x, GeluForm form = GeluForm::erf);
/// x where it is above 0, else alpha·(exp(x) - 1). Errors: ArgumentError if alpha is not finite.
/// Paper: Clevert, Unterthiner, Hochreiter, arXiv:1511.07289.
[[nodiscard]] Tensor elu(Arg x, double alpha = 1);
/// elu times a scale. Both constants keep mean 0 and variance 1 through a chain of layers.
/// Paper: Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515.
[[nodiscard]] Tensor selu(Arg x);
/// x where it is above 0, else alpha·(exp(x/alpha) - 1): differentiable at 0 for every alpha.
/// Errors: ArgumentError if alpha is 0 or not finite.
/// Paper: Barron, Continuously Differentiable Exponential Linear Units, arXiv:1704.07483.
[[nodiscard]] Tensor celu(Arg x, double alpha = 1);
struct SoftplusOptions {
  double beta = 1;        ///< Sharpness: the larger, the closer to relu.
  double threshold = 20;  ///< The result is x where beta·x is above it.
};
/// log(1 + exp(beta·x))/beta, a smooth relu, without overflow.
///
/// Errors: ArgumentError if beta is 0 or not finite, or the threshold is NaN.
/// Paper: Dugas et al., Incorporating Second-Order Functional Knowledge, NIPS 2000.
[[nodiscard]] Tensor softplus(Arg x, SoftplusOptions options = {});
/// x·tanh(softplus(x)). Paper: Misra, Mish, arXiv:1908.08681.
[[nodiscard]] Tensor mish(Arg x);
/// x/6 + 1/2, limited to [0, 1]. Paper: Howard et al., MobileNetV3, arXiv:1905.02244.
[[nodiscard]] Tensor hardsigmoid(Arg x);
/// x·hardsigmoid(x). Paper: as hardsigmoid.
[[nodiscard]] Tensor hardswish(Arg x);
/// x/(1 + |x|). Paper: Turian, Bergstra, Bengio, Quadratic Features and Deep Architectures for
/// Chunking, NAACL 2009.
[[nodiscard]] Tensor softsign(Arg x);

}  // namespace hearth
