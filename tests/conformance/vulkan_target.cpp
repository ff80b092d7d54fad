#include "conformance_suite.hpp"

#include <hearth/backends/vulkan/vulkan_backend.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  return vulkan::VulkanBackend::open({}).value();
}

Target make_target(Backend& backend) {
  return target_of(backend);
}

}  // namespace hearth::conformance
