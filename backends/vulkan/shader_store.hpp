// The pipelines of a device by key, made where they are asked for, or by a pool of threads while
// the device goes on without them. Threads: owner only. Invariant: a pipeline stays as long as this
// store.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile_pool.hpp"
#include "pipeline_maker.hpp"
#include "shader_key.hpp"

namespace hearth::vulkan {

class ShaderStore final {
 public:
  /// Without an executor all is made where it is asked for. Lifetime: executors outlive it.
  /// Errors: what Vulkan refuses.
  [[nodiscard]] static Result<std::unique_ptr<ShaderStore>> make(
      std::shared_ptr<const VulkanDevice> device,
      hearth::detail::Executor* executor,
      std::vector<std::uint64_t> failing = {},
      const SaveTerms& saving = {});
  ShaderStore(const ShaderStore&) = delete;
  ShaderStore& operator=(const ShaderStore&) = delete;
  /// Saves what is new, within the limit.
  ~ShaderStore();

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return maker_->layout(); }
  /// The pipeline of a key. `text` is made for one that is new. One that failed fails again.
  ///
  /// Errors: those of PipelineMaker::pipeline.
  [[nodiscard]] Result<VkPipeline> pipeline(const ShaderKey& key, ShaderText text);
  /// The same, but null while the pool makes it. Without a thread of the pool's it is made here.
  [[nodiscard]] Result<VkPipeline> pipeline_if_made(const ShaderKey& key, ShaderText text);
  /// Whether it is made, or has failed.
  [[nodiscard]] bool has(const ShaderKey& key) const;
  [[nodiscard]] bool has_pool() const noexcept { return pool_ != nullptr; }
  [[nodiscard]] ShaderCounts counts() const noexcept { return maker_->counts(); }
  [[nodiscard]] std::uint64_t loop_word() const noexcept { return maker_->loop_word(); }
  [[nodiscard]] bool has_left_a_loop() const noexcept { return maker_->has_left_a_loop(); }
  /// The end has no log any more.
  void forget_log() noexcept { saving_.log = nullptr; }
  /// Whether what is compiled is kept on disk, or why it cannot be.
  [[nodiscard]] Status kept() const { return maker_->kept(); }

 private:
  struct Made {
    VkPipeline pipeline = VK_NULL_HANDLE;
    Status status = {};
    std::shared_ptr<PipelineJob> job = nullptr;  ///< While it is made.

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
  std::unordered_map<ShaderKey, Made, ShaderKeyHash> made_;
  std::unique_ptr<CompilePool> pool_;  ///< Null: none.
};

}  // namespace hearth::vulkan
