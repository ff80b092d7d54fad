// A std::vector<bool> holds bits, not elements.
#include <cstdint>
#include <vector>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

hearth::Tensor mask(const hearth::Device& device) {
#ifdef HEARTH_MUST_FAIL
  const std::vector<bool> bits{true, false};
  return hearth::Tensor::from(device, bits, {2});
#else
  return hearth::Tensor::from(device, {true, false}, {2});
#endif
}
