// A device that computes with the oracle: every op right, none fast.
// Owned by its device, driven by its actor: no locks.
// Invariants: (1) an op is finished when submit() returns; (2) submitted() counts the ops that were
// run, failed ones too.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/host_page_provider.hpp>

namespace hearth::reference {

struct ReferenceOptions {
  std::string name = "reference:0";
  HostPageOptions pages = {};
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ReferenceOptions options = {});

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Always: the oracle reads all inputs before it stores.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// Errors: those of reference::evaluate, with this device's name.
  [[nodiscard]] Status submit(const KernelCall& call) override;
  [[nodiscard]] Status upload(std::byte* to, std::span<const std::byte> from) override;
  [[nodiscard]] Status download(std::span<std::byte> to, const std::byte* from) override;
  [[nodiscard]] std::uint64_t submitted() const noexcept override { return submitted_; }
  [[nodiscard]] std::uint64_t completed() noexcept override { return submitted_; }

 private:
  BackendInfo info_;
  HostPageProvider pages_;
  std::uint64_t submitted_ = 0;
};

}  // namespace hearth::reference
