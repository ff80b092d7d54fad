#include "shader_store.hpp"

#include <exception>
#include <utility>

namespace hearth::vulkan {

Result<std::unique_ptr<ShaderStore>> ShaderStore::make(std::shared_ptr<const VulkanDevice> device,
                                                       hearth::detail::Executor* executor,
                                                       std::vector<std::uint64_t> failing,
                                                       const SaveTerms& saving) {
  // Preparing does not pay with a driver in software, which takes 0.4 s for each pipeline, cached
  // or not. A test with planned failures counts its pipelines.
  const bool prepares = !device->limits().is_cpu && failing.empty();
  HEARTH_TRY(std::shared_ptr<PipelineMaker> maker,
             PipelineMaker::make(std::move(device), std::move(failing)));
  std::unique_ptr<ShaderStore> store(new ShaderStore(std::move(maker), saving));  // NOLINT
  if (executor != nullptr) {
    store->pool_ = std::make_unique<CompilePool>(*executor, store->maker_);
    if (prepares) {
      store->pool_->prepare();
    }
  }
  return store;
}

// A thread that the pool abandoned is in the driver, which cannot serialise a cache meanwhile. The
// maker then saves when that thread ends.
ShaderStore::~ShaderStore() {
  pool_.reset();
  if (maker_.use_count() > 1) {
    return;
  }
  try {
    CacheSave::write_within(maker_->take_unsaved(), saving_, maker_->device_name());
  } catch (const std::exception&) {
    // Out of memory: the next run compiles it again.
  }
}

Result<VkPipeline> ShaderStore::pipeline(const gpu::KernelKey& key, gpu::KernelText text) {
  if (const auto found = made_.find(key); found != made_.end()) [[likely]] {
    if (found->second.job != nullptr) {
      const Result<VkPipeline> made = found->second.job->result(*maker_);
      if (!found->second.job->is_done()) {
        return made;  // timed out; may be ready later
      }
      found->second = made_of(made);
    }
    return found->second.answer();
  }
  if (const VkPipeline prepared = maker_->find_prepared(key); prepared != VK_NULL_HANDLE) {
    made_.emplace(key, Made{.pipeline = prepared});
    return prepared;
  }
  Result<VkPipeline> pipeline = maker_->pipeline(key, text());
  made_.emplace(key, made_of(pipeline));
  return pipeline;
}

Result<VkPipeline> ShaderStore::pipeline_if_made(const gpu::KernelKey& key, gpu::KernelText text) {
  if (const auto found = made_.find(key); found != made_.end()) [[likely]] {
    if (found->second.job != nullptr && found->second.job->is_done()) {
      found->second = made_of(found->second.job->result(*maker_));
    }
    return found->second.answer();
  }
  VkPipeline prepared = maker_->find_prepared(key);
  std::string whole;
  if (prepared == VK_NULL_HANDLE) {
    whole = text();
    prepared = maker_->find_prepared(key, whole);
  }
  if (prepared != VK_NULL_HANDLE) {
    made_.emplace(key, Made{.pipeline = prepared});
    return prepared;
  }
  auto job = std::make_shared<PipelineJob>(key, std::move(whole));
  if (!pool_->add(job)) {
    return pipeline(key, text);
  }
  made_.emplace(key, Made{.job = std::move(job)});
  return VkPipeline{VK_NULL_HANDLE};
}

bool ShaderStore::has(const gpu::KernelKey& key) const {
  const auto found = made_.find(key);
  return found != made_.end() && (found->second.job == nullptr || found->second.job->is_done());
}

}  // namespace hearth::vulkan
