#include <hearth/backends/reference/reference_backend.hpp>

#include <hearth/backends/issue_inline.hpp>
#include <hearth/backends/reference/reference.hpp>

#include <algorithm>
#include <utility>

namespace hearth::reference {

ReferenceBackend::ReferenceBackend(ReferenceOptions options)
    : info_{.name = std::move(options.name),
            .description = "the oracle: one core, plain loops, f64 inside",
            .core_count = 1,
            .computes = true,
            .takes_groups = options.takes_groups},
      pages_(options.pages) {}

Support ReferenceBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

bool ReferenceBackend::may_alias(OpKind /*kind*/, int /*input_index*/) const noexcept {
  return true;
}

bool ReferenceBackend::may_take_prologue(OpKind kind, int input, OpKind maker) const noexcept {
  return reference::may_take_prologue(kind, input, maker);
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

Result<CopyPart> ReferenceBackend::upload(std::byte* to,
                                          std::span<const std::byte> from,
                                          std::span<const TimelinePoint> /*after*/) {
  std::copy(from.begin(), from.end(), to);
  return CopyPart{.size_bytes = from.size()};
}

Result<CopyPart> ReferenceBackend::download(std::span<std::byte> to,
                                            const std::byte* from,
                                            std::span<const TimelinePoint> /*after*/) {
  std::copy_n(from, to.size(), to.data());
  return CopyPart{.size_bytes = to.size()};
}

}  // namespace hearth::reference
