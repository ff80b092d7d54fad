// Builds pipelines from GLSL, for one device: SPIR-V, its passes, the driver's pipelines. The
// driver keeps its own form of them in one file for each card and driver version. Threads: any.
// Invariant: pipelines live as long as the compiler.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

#include "backends/gpu/store/kernel_compiler.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"
#include "loop_watch.hpp"

namespace hearth::vulkan {

[[nodiscard]] inline gpu::KernelHandle handle_of(VkPipeline pipeline) noexcept {
  return std::bit_cast<gpu::KernelHandle>(pipeline);
}
[[nodiscard]] inline VkPipeline pipeline_of(gpu::KernelHandle kernel) noexcept {
  return std::bit_cast<VkPipeline>(kernel);
}

class PipelineCompiler final : public gpu::KernelCompiler {
 public:
  /// Errors: those of Vulkan.
  [[nodiscard]] static Result<std::shared_ptr<PipelineCompiler>> make(
      std::shared_ptr<const VulkanDevice> device);
  PipelineCompiler(const PipelineCompiler&) = delete;
  PipelineCompiler& operator=(const PipelineCompiler&) = delete;
  ~PipelineCompiler() override;

  [[nodiscard]] const gpu::CompilerIdentity& identity() const noexcept override {
    return identity_;
  }
  [[nodiscard]] std::string whole_text(gpu::KernelFamily family, std::string text) const override;
  [[nodiscard]] Result<gpu::KernelModule> compile(gpu::KernelFamily family,
                                                  const std::string& text) const override;
  /// Checks a program's own text: its shared memory, and that it needs no descriptors.
  [[nodiscard]] Status check(gpu::KernelFamily family,
                             const gpu::KernelModule& words) const override;
  [[nodiscard]] Result<gpu::KernelHandle> load(const gpu::KernelModule& words) override
      HEARTH_EXCLUDES(mutex_);
  void open_cache(const std::filesystem::path& folder) override;
  void add_unsaved(gpu::CacheSave& to) override;

  /// The layout of all pipelines.
  [[nodiscard]] VkPipelineLayout layout() const noexcept { return layout_; }
  /// Address of the word where shaders report a loop that was left early; 0: none.
  [[nodiscard]] std::uint64_t loop_word() const noexcept {
    return watch_ != nullptr ? watch_->address() : 0;
  }
  /// True if the driver has ended a loop of a shader early.
  [[nodiscard]] bool has_ended_loop_early() const noexcept {
    return watch_ != nullptr && watch_->has_seen_any();
  }

 private:
  explicit PipelineCompiler(std::shared_ptr<const VulkanDevice> device);
  void join_saved();

  std::shared_ptr<const VulkanDevice> device_;
  const gpu::CompilerIdentity identity_;
  std::unique_ptr<LoopWatch> watch_;  ///< Null for drivers that end no loop.
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path folder_;   ///< Empty: nothing is kept.
  std::filesystem::path path_;     ///< File of the driver's pipelines.
  std::size_t loaded_size_ = 0;    ///< Bytes of the driver's pipelines as loaded from disk,
  std::uint64_t loaded_hash_ = 0;  ///< and their checksum.
  hearth::detail::Mutex mutex_;
  std::vector<VkPipeline> made_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
