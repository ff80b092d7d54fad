// Submit on an inline backend: each launch runs to its end before the next begins, so points, cells
// and guards are not needed. Free function. Threads: that of the backend.
#pragma once

#include <hearth/backends/backend.hpp>

namespace hearth {

/// Runs the launches in order, up to the first that fails. `run` takes a KernelCall and returns its
/// Status.
template <class Run>
[[nodiscard]] Issue issue_inline(std::span<const Launch> batch, Run&& run) {
  Issue issue;
  for (const Launch& launch : batch) {
    issue.status = run(launch.call);
    if (!issue.status.has_value()) {
      issue.may_have_begun = issue.status.error().code != ErrorCode::unsupported;
      break;
    }
    ++issue.issued;
  }
  return issue;
}

}  // namespace hearth
