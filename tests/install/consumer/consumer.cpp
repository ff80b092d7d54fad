#include <cstdio>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device("cpu:0");
  const hearth::Tensor x = hearth::Tensor::from<float>(device, {1, 2, 3, 4}, {2, 2});
  const bool is_right =
      (matmul(x, x) + 1.0F).to_vector<float>() == std::vector<float>{8, 11, 16, 23};
  std::puts(is_right ? "consumer: ok" : "consumer: wrong");
  return is_right ? 0 : 1;
}
