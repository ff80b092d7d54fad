#include "conformance_suite.hpp"

#include <hearth/backends/sim/sim_backend.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<sim::SimBackend>();
}

Target make_target(Backend& backend) {
  return target_of(backend);
}

}  // namespace hearth::conformance
