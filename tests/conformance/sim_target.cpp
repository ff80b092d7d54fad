#include "conformance_suite.hpp"

#include <hearth/backends/sim/sim_backend.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<sim::SimBackend>();
}

}  // namespace hearth::conformance
