// Makes a sim with planned faults, for factories of backends. The sim is inline, or asynchronous if
// the request has a schedule or the plan has work that hangs: on an inline sim such work would fail
// at once instead. A value of its caller's.
#pragma once

#include <memory>
#include <utility>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>

namespace hearth::testing {

[[nodiscard]] inline std::unique_ptr<Backend> make_sim(const BackendRequest& request,
                                                       FaultPlan faults) {
  if (request.sim_schedule || faults.hanging_submit != 0) {
    return std::make_unique<sim::AsyncSim>(
        sim::AsyncSimOptions{.name = request.name,
                             .faults = std::move(faults),
                             .schedule = request.sim_schedule.value_or(SimSchedule{})});
  }
  return std::make_unique<sim::SimBackend>(
      sim::SimOptions{.name = request.name, .faults = std::move(faults)});
}

}  // namespace hearth::testing
