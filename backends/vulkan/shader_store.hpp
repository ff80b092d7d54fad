// The pipelines of a device by key. The caller makes them where it needs them, or a pool of threads
// does while the device goes on without them. Threads: owner only. Invariant: pipelines live as
// long as the store.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/encoder/kernel_key.hpp"
#include "compile_pool.hpp"
#include "pipeline_maker.hpp"

namespace hearth::vulkan {

class ShaderStore final {
 public:
  /// Without an executor the caller makes every pipeline. Lifetime: executors outlive the store.
  /// Errors: those of Vulkan.
  [[nodiscard]] static Result<std::unique_ptr<ShaderStore>> make(
      std::shared_ptr<const VulkanDevice> device,
      hearth::detail::Executor* executor,
      std::vector<std::uint64_t> failing = {},
      const SaveTerms& saving = {});
  ShaderStore(const ShaderStore&) = delete;
  ShaderStore& operator=(const ShaderStore&) = delete;
  /// Saves new data, within the limit.
  ~ShaderStore();

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return maker_->layout(); }
  /// The pipeline of a key. Calls `text` for a new key. A failed key fails again.
  ///
  /// Errors: those of PipelineMaker::pipeline.
  [[nodiscard]] Result<VkPipeline> pipeline(const gpu::KernelKey& key, gpu::KernelText text);
  /// The pipeline of a key, or null while the pool makes it. Makes it here if the pool has no
  /// thread.
  [[nodiscard]] Result<VkPipeline> pipeline_if_made(const gpu::KernelKey& key,
                                                    gpu::KernelText text);
  /// True if the pipeline is made, or has failed.
  [[nodiscard]] bool has(const gpu::KernelKey& key) const;
  [[nodiscard]] bool has_pool() const noexcept { return pool_ != nullptr; }
  [[nodiscard]] ShaderCounts counts() const noexcept { return maker_->counts(); }
  [[nodiscard]] std::uint64_t loop_word() const noexcept { return maker_->loop_word(); }
  [[nodiscard]] bool has_left_a_loop() const noexcept { return maker_->has_left_a_loop(); }
  /// Drops the log, which ends before the store.
  void forget_log() noexcept { saving_.log = nullptr; }
  /// Success if compiled shaders are kept on disk, else the reason.
  [[nodiscard]] Status kept() const { return maker_->kept(); }

 private:
  struct Made {
    VkPipeline pipeline = VK_NULL_HANDLE;
    Status status = {};
    std::shared_ptr<PipelineJob> job = nullptr;  ///< Set while the pipeline is made.

    [[nodiscard]] Result<VkPipeline> answer() const {
      return status.has_value() ? Result<VkPipeline>(pipeline) : Result<VkPipeline>(status);
    }
  };

  ShaderStore(std::shared_ptr<PipelineMaker> maker, const SaveTerms& saving) noexcept
      : maker_(std::move(maker)), saving_(saving) {}
  [[nodiscard]] static Made made_of(const Result<VkPipeline>& pipeline) {
    return {.pipeline = pipeline.has_value() ? pipeline.value() : VK_NULL_HANDLE,
            .status = pipeline.status()};
  }

  std::shared_ptr<PipelineMaker> maker_;
  SaveTerms saving_;
  std::unordered_map<gpu::KernelKey, Made, gpu::KernelKeyHash> made_;
  std::unique_ptr<CompilePool> pool_;  ///< Null: no pool.
};

}  // namespace hearth::vulkan
