#include "conformance_suite.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<cpu::CpuBackend>();
}

Target make_target(Backend& backend) {
  return target_of(backend);
}

}  // namespace hearth::conformance
