// A device that computes with the oracle: correct, not fast. Owned by its device and driven by its
// actor: no locks.
// Invariant: an op is finished when submit() returns.
#pragma once

#include <span>
#include <string>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/host_copies.hpp>
#include <hearth/memory/host_page_provider.hpp>

namespace hearth::reference {

struct ReferenceOptions {
  std::string name = "reference:0";
  bool takes_groups = false;  ///< Enables fused groups, for tests of them.
  HostPageOptions pages = {};
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ReferenceOptions options = {});

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  /// Returns reference::kernel_facts().
  [[nodiscard]] const KernelFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] KernelMaker& kernels() noexcept override { return kernels_; }
  [[nodiscard]] CopyEngine& copies() noexcept override { return copies_; }
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Errors: those of reference::evaluate, with this device's name.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;

 private:
  [[nodiscard]] Status run(const KernelCall& call) const;

  BackendInfo info_;
  HostPageProvider pages_;
  KernelFacts facts_;
  KernelMaker kernels_;
  HostCopies copies_;
};

}  // namespace hearth::reference
