// A backend that forwards all calls to another one, also those of its kernels and copies. Tests
// override the functions that they observe or disturb. Threads: as Backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

class ForwardingBackend : public Backend, public KernelMaker, public CopyEngine {
 public:
  using Points = std::span<const TimelinePoint>;

  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const BackendInfo& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] PageProvider& pages() noexcept override { return inner_->pages(); }
  [[nodiscard]] const KernelFacts& facts() const noexcept override { return inner_->facts(); }
  [[nodiscard]] KernelMaker& kernels() noexcept override { return *this; }
  [[nodiscard]] CopyEngine& copies() noexcept override { return *this; }
  [[nodiscard]] BatchTimes* times() noexcept override { return inner_->times(); }
  [[nodiscard]] Support supports(const KernelCall& call) const override {
    return inner_->supports(call);
  }
  void use_scratch(ScratchMemory& scratch) noexcept override { inner_->use_scratch(scratch); }
  [[nodiscard]] Issue submit(std::span<const Launch> batch, Points after) override {
    Issue all;
    for (const Launch& launch : batch) {
      Issue one = submit_one(launch, after);
      if (!one.status.has_value()) {
        all.status = std::move(one.status);
        all.may_have_begun = one.may_have_begun;
        all.is_compiling = one.is_compiling;
        all.is_pick_refused = one.is_pick_refused;
        break;
      }
      all.point = one.point;
      ++all.issued;
    }
    return all;
  }
  [[nodiscard]] Status flush() override { return inner_->flush(); }
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override {
    return inner_->completed(stream);
  }
  [[nodiscard]] Status wait(Points any_of, Deadline deadline) override {
    return inner_->wait(any_of, deadline);
  }
  void drain() noexcept override { inner_->drain(); }
  [[nodiscard]] Status cell_status(ErrorCell cell) override { return inner_->cell_status(cell); }

  // ---- KernelMaker ----

  [[nodiscard]] Status prepare(const KernelCall& call) override {
    return inner_->kernels().prepare(call);
  }
  [[nodiscard]] std::vector<detail::Candidate> candidates(const KernelCall& call) const override {
    return inner_->kernels().candidates(call);
  }
  void precompile(const KernelCall& call) override { inner_->kernels().precompile(call); }
  [[nodiscard]] bool has_kernel(const KernelCall& call) override {
    return inner_->kernels().has_kernel(call);
  }
  [[nodiscard]] std::int64_t scratch_bytes(const KernelCall& call) const noexcept override {
    return inner_->kernels().scratch_bytes(call);
  }
  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override {
    return inner_->kernels().joinable_calls(call);
  }
  [[nodiscard]] CompileCounts compile_counts() const noexcept override {
    return inner_->kernels().compile_counts();
  }

  // ---- CopyEngine ----

  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        Points after) override {
    return inner_->copies().upload(to, from, after);
  }
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          Points after) override {
    return inner_->copies().download(to, from, after);
  }
  void forget_target(std::span<std::byte> target) noexcept override {
    inner_->copies().forget_target(target);
  }
  [[nodiscard]] TimelinePoint newest_copy(std::uint8_t stream) const noexcept override {
    return inner_->copies().newest_copy(stream);
  }
  [[nodiscard]] HostBytes host_bytes(std::size_t size) override {
    return inner_->copies().host_bytes(size);
  }
  [[nodiscard]] std::int64_t pinned_bytes() const noexcept override {
    return inner_->copies().pinned_bytes();
  }
  std::int64_t trim() noexcept override { return inner_->copies().trim(); }

 protected:
  /// Submits one launch of a batch; tests override it.
  [[nodiscard]] virtual Issue submit_one(const Launch& launch, Points after) {
    return inner_->submit({&launch, 1}, after);
  }
  /// The answer to a refused launch.
  [[nodiscard]] static Issue refused(Error error) {
    return {.status = std::move(error), .may_have_begun = false};
  }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace hearth::testing
