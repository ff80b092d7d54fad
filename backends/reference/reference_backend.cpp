#include <hearth/backends/reference/reference_backend.hpp>

#include <hearth/backends/issue_inline.hpp>
#include <hearth/backends/reference/reference.hpp>

#include <utility>

namespace hearth::reference {

ReferenceBackend::ReferenceBackend(ReferenceOptions options)
    : info_{.name = std::move(options.name),
            .description = "the oracle: one core, plain loops, f64 inside",
            .core_count = 1,
            .computes = true,
            .takes_groups = options.takes_groups},
      pages_(options.pages),
      facts_(kernel_facts()) {}

Support ReferenceBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

Issue ReferenceBackend::submit(std::span<const Launch> batch,
                               std::span<const TimelinePoint> /*after*/) {
  return issue_inline(batch, [this](const KernelCall& call) { return run(call); });
}

Status ReferenceBackend::run(const KernelCall& call) const {
  const Status status = evaluate(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.device = info_.name;
  return error;
}

}  // namespace hearth::reference
