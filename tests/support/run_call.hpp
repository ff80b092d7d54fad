// One kernel call on a backend that a test drives by hand: submits, waits, and looks up the
// failure. Threads: as Backend.
#pragma once

#include <array>
#include <span>

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

/// Runs one call to its end; a failure while it runs counts like one at submit.
[[nodiscard]] inline Status run_call(Backend& backend, const KernelCall& call) {
  constexpr ErrorCell kCell = 1;
  const std::array launches{Launch{.call = call, .cell = kCell}};
  const Issue issue = backend.submit(launches, {});
  if (!issue.status.has_value() || issue.point.is_done()) {
    return issue.status;
  }
  HEARTH_TRY_STATUS(backend.flush());
  HEARTH_TRY_STATUS(backend.wait({&issue.point, 1}, Deadline::in(kDefaultWait)));
  return backend.cell_status(kCell);
}

}  // namespace hearth::testing
