// A device that computes with the oracle: correct, not fast. Owned by its device and driven by its
// actor: no locks.
// Invariant: an op is finished when submit() returns.
#pragma once

#include <span>
#include <string>

#include <hearth/backends/backend.hpp>
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
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Returns true: the oracle reads all inputs before it stores.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  /// Returns reference::may_take_prologue().
  [[nodiscard]] bool may_take_prologue(OpKind kind,
                                       int input,
                                       OpKind maker) const noexcept override;
  /// Errors: those of reference::evaluate, with this device's name.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override;

 private:
  [[nodiscard]] Status run(const KernelCall& call) const;

  BackendInfo info_;
  HostPageProvider pages_;
};

}  // namespace hearth::reference
