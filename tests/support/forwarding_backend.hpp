// A backend that leaves all the work to another: tests override what they look at or spoil. As
// Backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <hearth/backends/backend.hpp>

namespace hearth::testing {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const BackendInfo& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] PageProvider& pages() noexcept override { return inner_->pages(); }
  [[nodiscard]] Support supports(const KernelCall& call) const override {
    return inner_->supports(call);
  }
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override {
    return inner_->may_alias(kind, input_index);
  }
  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override {
    return inner_->joinable_calls(call);
  }
  void use_scratch(ScratchMemory& scratch) noexcept override { inner_->use_scratch(scratch); }
  [[nodiscard]] std::int64_t scratch_bytes(const KernelCall& call) const noexcept override {
    return inner_->scratch_bytes(call);
  }
  [[nodiscard]] Status submit(const KernelCall& call) override { return inner_->submit(call); }
  [[nodiscard]] Status upload(std::byte* to, std::span<const std::byte> from) override {
    return inner_->upload(to, from);
  }
  [[nodiscard]] Status download(std::span<std::byte> to, const std::byte* from) override {
    return inner_->download(to, from);
  }
  [[nodiscard]] Status finish() override { return inner_->finish(); }
  [[nodiscard]] std::uint64_t submitted() const noexcept override { return inner_->submitted(); }
  [[nodiscard]] std::uint64_t completed() noexcept override { return inner_->completed(); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace hearth::testing
