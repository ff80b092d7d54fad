#include "conformance_suite.hpp"

#include <hearth/backends/sim/async_sim.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  // The cases own their memory, which the shadow does not know.
  return std::make_unique<sim::AsyncSim>(
      sim::AsyncSimOptions{.schedule = {.reorder_seed = 1, .checks_memory = false}});
}

Target make_target(Backend& backend) {
  return target_of(backend);
}

}  // namespace hearth::conformance
