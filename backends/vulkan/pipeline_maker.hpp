// From the text of a shader to its pipeline, and from one run of a program to the next: modules lie
// on disk by the hash of their text, the driver's pipelines in one file for each card and driver
// version, so that no shader is compiled by us twice and none by the driver twice; and a list, for
// each program and card, of what its last run asked for, which can be made before it is asked for
// again. Without a cache folder nothing is kept. Threads: any.
// Invariant: a pipeline stays as long as this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/backends/codegen/cooperative_rewrite.hpp>
#include <hearth/backends/codegen/spirv_compiler.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "shader_key.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

struct ShaderCounts {
  std::uint64_t pipelines = 0;   ///< That this process made.
  std::uint64_t compiled = 0;    ///< Of these, from a text that was on no disk.
  std::uint64_t made_ahead = 0;  ///< Of these, by make_ahead().
};

/// A text that an earlier run of the program asked for.
struct RecentShader {
  std::uint64_t hash = 0;  ///< Of the text.
  CooperativeFactor factor = CooperativeFactor::f16;
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
  /// What the last run of this program asked of this card, in its order.
  [[nodiscard]] const std::vector<RecentShader>& recent() const noexcept { return recent_; }
  /// Makes such a pipeline from what lies on disk, for who asks for its text. That it is not there,
  /// or fails, is found when it is asked for.
  void make_ahead(const RecentShader& shader) noexcept HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] ShaderCounts counts() const noexcept HEARTH_EXCLUDES(mutex_);
  /// Writes what is new to disk. Errors: io_error.
  [[nodiscard]] Status save() HEARTH_EXCLUDES(mutex_);

 private:
  explicit PipelineMaker(std::shared_ptr<const VulkanDevice> device) noexcept
      : device_(std::move(device)) {}
  /// A module, and whether it was on disk.
  struct Module {
    SpirvModule words;
    bool is_kept = false;
  };

  void load();
  void load_recent();
  [[nodiscard]] Status begin() HEARTH_EXCLUDES(mutex_);
  /// Notes that the text is asked for; its pipeline where it was made ahead, else null.
  [[nodiscard]] VkPipeline take_made_ahead(const RecentShader& shader) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Result<Module> module_of(ShaderFamily family,
                                         const std::string& text,
                                         std::uint64_t hash) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<SpirvModule> kept_module(std::uint64_t hash) const;
  [[nodiscard]] Result<VkPipeline> make_pipeline(const Module& module, CooperativeFactor factor)
      HEARTH_EXCLUDES(mutex_, kept_mutex_);
  [[nodiscard]] Result<VkPipeline> create(const SpirvModule& words) const;
  [[nodiscard]] Status save_recent() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::filesystem::path recent_path() const;
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
  std::vector<RecentShader> recent_;                           ///< Of the last run.
  std::vector<RecentShader> asked_ HEARTH_GUARDED_BY(mutex_);  ///< Of this one.
  std::unordered_map<std::uint64_t, VkPipeline> ahead_ HEARTH_GUARDED_BY(mutex_);
  /// Held while a card's driver makes what it has kept: one takes it 0.1 ms, and of eight at once
  /// each 1 to 3 ms (H100, 580.159.04).
  Mutex kept_mutex_;
  std::size_t loaded_size_ = 0;  ///< Of the driver's pipelines, as they lay on disk at first,
  std::size_t saved_size_ = 0;   ///< and as they lie there now.
  std::vector<std::uint64_t> failing_;
  std::uint64_t begun_ HEARTH_GUARDED_BY(mutex_) = 0;
  ShaderCounts counts_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
