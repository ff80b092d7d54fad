// From the text of a shader to its pipeline, and from one run of a program to the next: modules lie
// on disk by the hash of their text, the driver's pipelines in one file for each card and driver
// version, so that no shader is compiled by us twice and none by the driver twice. Without a cache
// folder nothing is kept. Threads: any.
// Invariant: a pipeline stays as long as this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/backends/codegen/spirv_compiler.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "shader_key.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

struct ShaderCounts {
  std::uint64_t pipelines = 0;  ///< That this process made.
  std::uint64_t compiled = 0;   ///< Of these, from a text that was on no disk.
};

class PipelineMaker final {
 public:
  /// `failing`: these pipelines fail, counted from 1, for tests.
  /// Errors: what Vulkan refuses.
  [[nodiscard]] static Result<std::shared_ptr<PipelineMaker>> make(
      std::shared_ptr<const VulkanDevice> device, std::vector<std::uint64_t> failing = {});
  /// Saves what is new.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return layout_; }
  /// Errors: internal, a text that does not compile (kernel_failed: a program's); what Vulkan
  /// refuses.
  [[nodiscard]] Result<VkPipeline> pipeline(ShaderFamily family, const std::string& text)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] ShaderCounts counts() const noexcept HEARTH_EXCLUDES(mutex_);
  /// Writes what is new to disk. Errors: io_error.
  [[nodiscard]] Status save() HEARTH_EXCLUDES(mutex_);

 private:
  explicit PipelineMaker(std::shared_ptr<const VulkanDevice> device) noexcept
      : device_(std::move(device)) {}
  void load();
  [[nodiscard]] Status begin() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Result<SpirvModule> module_of(ShaderFamily family, const std::string& text)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t hash) const;

  std::shared_ptr<const VulkanDevice> device_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path folder_;  ///< Empty: nothing is kept.
  mutable Mutex mutex_;
  std::vector<VkPipeline> made_ HEARTH_GUARDED_BY(mutex_);
  /// By the hash of their text.
  std::unordered_map<std::uint64_t, SpirvModule> unsaved_ HEARTH_GUARDED_BY(mutex_);
  bool has_new_pipelines_ HEARTH_GUARDED_BY(mutex_) = false;
  std::size_t saved_size_ = 0;  ///< Of the driver's pipelines, as they lie on disk.
  std::vector<std::uint64_t> failing_;
  std::uint64_t begun_ HEARTH_GUARDED_BY(mutex_) = 0;
  ShaderCounts counts_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
