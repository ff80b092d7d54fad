// Tensors: creating, computing and printing them.
#include <cstdio>
#include <iostream>

#include <hearth/hearth.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  std::cout << device.name() << ": " << device.description() << "\n\n";

  const hearth::Tensor a =
      hearth::Tensor::from(device, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const hearth::Tensor row = hearth::Tensor::from(device, {10.0F, 20.0F, 30.0F}, {3});

  // Every op returns at once, and the device computes meanwhile. Printing waits for the values.
  const hearth::Tensor b = a * 2 + row;  // the row is broadcast
  std::cout << "a * 2 + row =\n" << b << "\n\n";

  // Views share the memory of their source.
  const hearth::Tensor backwards = hearth::slice(b, 1, {.step = -1});
  std::cout << "columns backwards =\n" << backwards << "\n\n";
  std::cout << "as half floats =\n" << hearth::transpose(b).to(hearth::DType::f16) << "\n\n";

  // Reductions over one axis, lists of tensors, elementwise comparisons.
  std::cout << "sums of rows =\n" << hearth::sum(b, -1) << "\n\n";
  std::cout << "the row twice =\n" << hearth::stack({row, row}) << "\n\n";
  std::cout << "above 25 =\n" << (b > 25) << "\n\n";

  // Moving a tensor into an op lets the device reuse its memory for the result.
  hearth::Tensor c = hearth::exp(b - hearth::max(b));
  c /= hearth::sum(c);  // so does a compound assignment
  std::cout << "softmax over all, sum " << hearth::sum(c).item() << "\n";

  // Mistakes are found at the call, before anything is queued, and errors name the line.
  try {
    std::cout << "a matmul row =\n" << hearth::matmul(a, row) << "\n";
    std::cout << hearth::matmul(a, a) << "\n";
  } catch (const hearth::ShapeError& error) {
    std::cout << "\nas expected: " << error.what() << "\n";
  }
  return 0;
}
