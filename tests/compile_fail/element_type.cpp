// Only the listed element types make tensors: any other type would be taken for f32.
#include <cstdint>
#include <vector>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

#ifdef HEARTH_MUST_FAIL
using Number = HEARTH_ELEMENT;
#else
using Number = std::int64_t;
#endif

std::vector<Number> there_and_back(const hearth::Device& device) {
  return hearth::Tensor::from(device, std::vector<Number>{1, 2, 3}, {3}).to_vector<Number>();
}
