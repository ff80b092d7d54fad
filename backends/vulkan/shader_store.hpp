// Compiled shaders: in this process by key, on disk by text, so that no shader is compiled by us
// twice and none by the driver twice, across runs too. Files lie in the cache folder: one for each
// text, and one for each card and driver version. Without such a folder nothing is kept. Threads:
// owner only. Invariant: a pipeline stays as long as this store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <vector>

#include <hearth/backends/codegen/spirv_compiler.hpp>

#include "shader_key.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

struct ShaderCounts {
  std::uint64_t pipelines = 0;  ///< That this process made.
  std::uint64_t compiled = 0;   ///< Of these, from a text that was on no disk.
};

class ShaderStore final {
 public:
  /// Errors: what Vulkan refuses.
  [[nodiscard]] static Result<std::unique_ptr<ShaderStore>> make(
      std::shared_ptr<const VulkanDevice> device);
  /// Saves what is new.
  ~ShaderStore();
  ShaderStore(const ShaderStore&) = delete;
  ShaderStore& operator=(const ShaderStore&) = delete;

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return layout_; }
  /// The pipeline of a key. `text` is made for one that is new. One that failed fails again.
  ///
  /// Errors: internal, a text that does not compile; what Vulkan refuses.
  [[nodiscard]] Result<VkPipeline> pipeline(const ShaderKey& key, ShaderText text);
  [[nodiscard]] const ShaderCounts& counts() const noexcept { return counts_; }
  /// Writes what is new to disk. Errors: io_error.
  [[nodiscard]] Status save();

 private:
  struct Made {
    VkPipeline pipeline = VK_NULL_HANDLE;
    Status status = {};
  };

  explicit ShaderStore(std::shared_ptr<const VulkanDevice> device) noexcept
      : device_(std::move(device)) {}
  void load();
  [[nodiscard]] Result<VkPipeline> make_pipeline(const ShaderKey& key, const std::string& text);
  [[nodiscard]] Result<SpirvModule> module_of(const ShaderKey& key, const std::string& text);
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t hash) const;

  std::shared_ptr<const VulkanDevice> device_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path folder_;  ///< Empty: nothing is kept.
  std::unordered_map<ShaderKey, Made, ShaderKeyHash> made_;
  std::unordered_map<std::uint64_t, SpirvModule> unsaved_;  ///< By the hash of their text.
  bool has_new_pipelines_ = false;
  std::size_t saved_size_ = 0;  ///< Of the driver's pipelines, as they lie on disk.
  ShaderCounts counts_;
};

}  // namespace hearth::vulkan
