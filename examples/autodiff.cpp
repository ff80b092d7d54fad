// Gradients are values: grad() returns them. No tensor stores a gradient, and there is no
// backward().
#include <iostream>
#include <vector>

#include <hearth/hearth.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  const hearth::Tensor x = hearth::Tensor::from(device, {1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  const hearth::Tensor y = hearth::Tensor::from(device, {0.1F, 0.2F, 0.3F, 0.4F}, {2, 2});

  // Gradient of sum(exp((x + y) matmul x)) with respect to y alone: x is no input of the
  // differentiation.
  const std::vector<hearth::Tensor> gradients = hearth::grad(
      [&](const std::vector<hearth::Tensor>& inputs) {
        return hearth::sum(hearth::exp(hearth::matmul(x + inputs[0], x)));
      },
      {y});
  std::cout << "gradient of y =\n" << gradients[0] << "\n";
  return 0;
}
