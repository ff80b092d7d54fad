// Submitting on an inline backend: each launch runs to its end before the next is looked at, so
// that no point, cell or guard is needed. A free function; as the backend that calls it.
#pragma once

#include <hearth/backends/backend.hpp>

namespace hearth {

/// Runs the launches one after another, up to the first that fails. `run` takes a KernelCall and
/// returns its Status.
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
