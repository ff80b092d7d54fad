// Encodes launches one after another into the open batch of ops. To prepare, it makes pipelines and
// records nothing. Threads: owner only.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include <hearth/backends/scratch_memory.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "command_stream.hpp"
#include "shader_store.hpp"

namespace hearth::vulkan {

/// Terms of a launch beside its operands.
struct LaunchTerms {
  bool records = true;  ///< False: only makes pipelines.
  /// Makes no pipeline: is_compiling() reports whether one is missing.
  bool only_asks = false;
  /// Records nothing while the first pipeline is missing: is_compiling() then returns true.
  bool may_come_later = false;
  std::uint64_t cell = 0;
  std::uint64_t guard = 0;
  std::span<const std::int8_t> keeps = {};
};

class LaunchEncoder final : public gpu::KernelEncoder {
 public:
  LaunchEncoder(const VulkanDevice& device, ShaderStore& shaders, CommandStream& ops) noexcept
      : device_(device), shaders_(shaders), ops_(ops) {}

  /// Takes scratch from the device's pool from here on.
  void use_scratch(ScratchMemory& memory) noexcept { memory_ = &memory; }
  /// Frees the launch's scratch at the end of the open batch.
  void give_scratch_back() noexcept {
    if (memory_ != nullptr) {
      memory_->give_back_after(ops_.open_value());
    }
  }
  void begin(const LaunchTerms& terms) noexcept {
    terms_ = terms;
    is_compiling_ = false;
  }
  /// True if this launch waits for its pipelines.
  [[nodiscard]] bool is_compiling() const noexcept { return is_compiling_; }
  void forget_dispatches() noexcept { dispatches_ = 0; }
  [[nodiscard]] std::uint64_t dispatches() const noexcept { return dispatches_; }

  [[nodiscard]] const gpu::DeviceLimits& limits() const noexcept override {
    return device_.limits();
  }
  [[nodiscard]] Status dispatch(const gpu::KernelKey& key,
                                gpu::KernelText text,
                                const gpu::ParameterBlock& parameters,
                                gpu::Grid grid) override;
  [[nodiscard]] Result<bool> dispatch_made(const gpu::KernelKey& key,
                                           gpu::KernelText text,
                                           const gpu::ParameterBlock& parameters,
                                           gpu::Grid grid) override;
  [[nodiscard]] bool is_made_later(const gpu::KernelKey& key, gpu::KernelText text) override;
  void barrier() override;
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t size_bytes) override;
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return terms_.cell; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return terms_.guard; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override {
    return terms_.keeps;
  }

 private:
  /// A piece that was too small, kept until the batches that may use it have ended.
  struct Outgrown {
    Buffer buffer;
    std::uint64_t value;
  };

  const VulkanDevice& device_;
  ShaderStore& shaders_;
  CommandStream& ops_;
  LaunchTerms terms_;
  bool is_compiling_ = false;
  std::uint64_t dispatches_ = 0;
  ScratchMemory* memory_ = nullptr;
  bool is_second_turn_ = false;
  Buffer scratch_;  ///< Used until use_scratch().
  std::deque<Outgrown> outgrown_;
};

}  // namespace hearth::vulkan
