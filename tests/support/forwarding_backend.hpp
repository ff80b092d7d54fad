// A backend that forwards all calls to another one. Tests override the functions that they observe
// or disturb. Threads: as Backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

class ForwardingBackend : public Backend {
 public:
  using Points = std::span<const TimelinePoint>;

  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const BackendInfo& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] PageProvider& pages() noexcept override { return inner_->pages(); }
  [[nodiscard]] Support supports(const KernelCall& call) const override {
    return inner_->supports(call);
  }
  [[nodiscard]] Status prepare(const KernelCall& call) override { return inner_->prepare(call); }
  void foresee(const KernelCall& call) override { inner_->foresee(call); }
  [[nodiscard]] bool has_kernel(const KernelCall& call) override {
    return inner_->has_kernel(call);
  }
  [[nodiscard]] bool may_take_prologue(OpKind kind,
                                       int input,
                                       OpKind maker) const noexcept override {
    return inner_->may_take_prologue(kind, input, maker);
  }
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override {
    return inner_->may_alias(kind, input_index);
  }
  [[nodiscard]] bool may_anchor(OpKind kind) const noexcept override {
    return inner_->may_anchor(kind);
  }
  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override {
    return inner_->joinable_calls(call);
  }
  void use_scratch(ScratchMemory& scratch) noexcept override { inner_->use_scratch(scratch); }
  [[nodiscard]] std::int64_t scratch_bytes(const KernelCall& call) const noexcept override {
    return inner_->scratch_bytes(call);
  }
  [[nodiscard]] Issue submit(std::span<const Launch> batch, Points after) override {
    Issue all;
    for (const Launch& launch : batch) {
      Issue one = submit_one(launch, after);
      if (!one.status.has_value()) {
        all.status = std::move(one.status);
        all.may_have_begun = one.may_have_begun;
        all.is_compiling = one.is_compiling;
        break;
      }
      all.point = one.point;
      ++all.issued;
    }
    return all;
  }
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        Points after) override {
    return inner_->upload(to, from, after);
  }
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          Points after) override {
    return inner_->download(to, from, after);
  }
  void forget_target(std::span<std::byte> target) noexcept override {
    inner_->forget_target(target);
  }
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override {
    return inner_->completed(stream);
  }
  [[nodiscard]] Status wait(Points any_of, Deadline deadline) override {
    return inner_->wait(any_of, deadline);
  }
  [[nodiscard]] Status cell_status(ErrorCell cell) override { return inner_->cell_status(cell); }

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
