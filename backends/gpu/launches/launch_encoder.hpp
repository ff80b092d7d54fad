// Encodes launches one after another into the open batch of ops. To prepare, it makes kernels and
// records nothing. Threads: owner only.
#pragma once

#include <cstdint>
#include <span>

#include <hearth/backends/scratch_memory.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/store/kernel_store.hpp"
#include "launch_stream.hpp"

namespace hearth::gpu {

/// Terms of a launch beside its operands.
struct LaunchTerms {
  bool records = true;  ///< False: only makes kernels.
  /// Makes no kernel: is_compiling() reports whether one is missing.
  bool only_queries = false;
  /// Records nothing while the first kernel is missing: is_compiling() then returns true.
  bool is_deferrable = false;
  std::uint64_t cell = 0;
  std::uint64_t guard = 0;
  std::span<const std::int8_t> keeps = {};
};

class LaunchEncoder final : public KernelEncoder {
 public:
  /// Lifetime: the arguments outlive the encoder. `products` may be null.
  LaunchEncoder(const DeviceLimits& limits,
                KernelStore& kernels,
                ProductLibrary* products,
                LaunchStream& ops,
                ScratchMemory& memory) noexcept
      : limits_(limits), kernels_(kernels), products_(products), ops_(ops), memory_(&memory) {}

  /// Takes scratch from this memory from here on.
  void use_scratch(ScratchMemory& memory) noexcept { memory_ = &memory; }
  /// Frees the launch's scratch at the end of the open batch.
  void release_scratch() noexcept { memory_->release_after(ops_.open_value()); }
  void begin(const LaunchTerms& terms) noexcept {
    terms_ = terms;
    is_compiling_ = false;
  }
  /// True if this launch waits for its kernels.
  [[nodiscard]] bool is_compiling() const noexcept { return is_compiling_; }
  void forget_dispatches() noexcept { dispatches_ = 0; }
  [[nodiscard]] std::uint64_t dispatches() const noexcept { return dispatches_; }

  [[nodiscard]] const DeviceLimits& limits() const noexcept override { return limits_; }
  [[nodiscard]] Status dispatch(const KernelKey& key,
                                KernelText text,
                                const ParameterBlock& parameters,
                                Grid grid) override;
  [[nodiscard]] Result<bool> dispatch_made(const KernelKey& key,
                                           KernelText text,
                                           const ParameterBlock& parameters,
                                           Grid grid) override;
  [[nodiscard]] bool is_compiled_later(const KernelKey& key, KernelText text) override;
  [[nodiscard]] std::optional<std::int64_t> product_workspace(
      const LibraryProduct& product) override;
  [[nodiscard]] Status product_by_library(const LibraryProduct& product,
                                          std::uint64_t workspace) override;
  void barrier() override;
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t size_bytes) override;
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return terms_.cell; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return terms_.guard; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override {
    return terms_.keeps;
  }

 private:
  const DeviceLimits& limits_;
  KernelStore& kernels_;
  ProductLibrary* products_;
  LaunchStream& ops_;
  LaunchTerms terms_;
  bool is_compiling_ = false;
  std::uint64_t dispatches_ = 0;
  ScratchMemory* memory_;
  bool is_second_turn_ = false;
};

}  // namespace hearth::gpu
