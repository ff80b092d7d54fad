#include "conformance_suite.hpp"

#include <hearth/backends/sim/async_sim.hpp>

namespace hearth::conformance {

std::unique_ptr<Backend> make_backend() {
  // The cases have memory of their own, of which the shadow would know nothing.
  return std::make_unique<sim::AsyncSim>(
      sim::AsyncSimOptions{.schedule = {.reorder_seed = 1, .checks_memory = false}});
}

}  // namespace hearth::conformance
