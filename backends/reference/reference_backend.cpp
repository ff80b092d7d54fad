#include <hearth/backends/reference/reference_backend.hpp>

#include <hearth/backends/reference/reference.hpp>

#include <algorithm>
#include <utility>

namespace hearth::reference {

ReferenceBackend::ReferenceBackend(ReferenceOptions options)
    : info_{.name = std::move(options.name),
            .description = "the oracle: one core, plain loops, f64 inside",
            .is_host = true,
            .core_count = 1,
            .computes = true},
      pages_(options.pages) {}

Support ReferenceBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

bool ReferenceBackend::may_alias(OpKind /*kind*/, int /*input_index*/) const noexcept {
  return true;
}

Status ReferenceBackend::submit(const KernelCall& call) {
  ++submitted_;
  const Status status = evaluate(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.device = info_.name;
  return error;
}

Status ReferenceBackend::upload(std::byte* to, std::span<const std::byte> from) {
  std::copy(from.begin(), from.end(), to);
  return {};
}

Status ReferenceBackend::download(std::span<std::byte> to, const std::byte* from) {
  std::copy_n(from, to.size(), to.data());
  return {};
}

}  // namespace hearth::reference
