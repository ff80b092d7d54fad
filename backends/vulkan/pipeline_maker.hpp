// From the text of a shader to its pipeline, and from one run of a program to the next: modules lie
// on disk by the hash of their text, the driver's pipelines in one file for each card and driver
// version, so that no shader is compiled by us twice and none by the driver twice; and which of
// them a program used, so that its next run has them before it asks. Without a cache folder nothing
// is kept. Threads: any.
// Invariant: a pipeline stays as long as this.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/backends/codegen/spirv_compiler.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "build_id.hpp"
#include "cache_save.hpp"
#include "loop_watch.hpp"
#include "shader_key.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

struct ShaderCounts {
  std::uint64_t pipelines = 0;  ///< That this process made.
  std::uint64_t compiled = 0;   ///< Of these, from a text that was on no disk.
  std::uint64_t prepared = 0;   ///< Of these, by prepare().
};

class PipelineMaker final {
 public:
  /// `failing`: these pipelines fail, counted from 1, for tests. `build`: which build of the
  /// library gives keys; 0: that is not known.
  /// Errors: what Vulkan refuses.
  [[nodiscard]] static Result<std::shared_ptr<PipelineMaker>> make(
      std::shared_ptr<const VulkanDevice> device,
      std::vector<std::uint64_t> failing = {},
      std::uint64_t build = build_id());
  /// Saves what is new and was not taken.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return layout_; }
  /// Errors: internal, a text that does not compile (kernel_failed: a program's); what Vulkan
  /// refuses.
  [[nodiscard]] Result<VkPipeline> pipeline(const ShaderKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_);
  /// The pipeline of a text, if prepare() has made it; else null. Where it was this build that left
  /// it on disk, its key says which it is, and the text need not be made.
  [[nodiscard]] VkPipeline find_prepared(const ShaderKey& key) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] VkPipeline find_prepared(const ShaderKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_) {
    return find_watched(key, watched(key, bare));
  }
  /// How many pipelines this program used in earlier runs.
  [[nodiscard]] std::size_t known_count() const noexcept { return used_before_.size(); }
  /// Makes them, each once however many threads do, until `has_ended`. What cannot be made is left
  /// to who asks for it.
  void prepare(const std::atomic<bool>& has_ended) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] ShaderCounts counts() const noexcept HEARTH_EXCLUDES(mutex_);
  /// What is new, for the disk. At the end, when nobody makes pipelines any more.
  [[nodiscard]] CacheSave take_unsaved() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] const std::string& device_name() const noexcept { return device_->name(); }
  /// Where shaders leave word of that; 0: nowhere.
  /// Whether what is compiled is kept on disk, or why it cannot be.
  [[nodiscard]] const Status& kept() const noexcept { return kept_; }
  [[nodiscard]] std::uint64_t loop_word() const noexcept {
    return watch_ != nullptr ? watch_->address() : 0;
  }
  /// Whether the driver has ended a loop of a shader early.
  [[nodiscard]] bool has_left_a_loop() const noexcept {
    return watch_ != nullptr && watch_->has_seen_any();
  }

 private:
  /// A text that a program used.
  struct Used {
    std::uint64_t hash = 0;
    std::uint64_t is_bf16 = 0;  ///< Of matrix units.
    ShaderKey key;              ///< To the build that left it.

    friend bool operator==(const Used& a, const Used& b) noexcept {
      return a.hash == b.hash && a.is_bf16 == b.is_bf16;
    }
  };
  struct Prepared {
    VkPipeline pipeline = VK_NULL_HANDLE;
    std::size_t used_before = 0;  ///< Its place there.
  };

  PipelineMaker(std::shared_ptr<const VulkanDevice> device, std::uint64_t build) noexcept
      : device_(std::move(device)), build_(build) {}
  void load();
  /// The text that is compiled, of the one that is asked for.
  [[nodiscard]] std::string watched(const ShaderKey& key, const std::string& bare) const;
  [[nodiscard]] VkPipeline find_watched(const ShaderKey& key, const std::string& text)
      HEARTH_EXCLUDES(mutex_);
  void add_pipelines(CacheSave& to);
  void join_saved();
  [[nodiscard]] std::uint64_t hash_of(const std::string& text) const noexcept;
  void load_used();
  void note_used(const Used& use) HEARTH_REQUIRES(mutex_);
  void add_used(CacheSave& to) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::string used_name() const;
  [[nodiscard]] std::optional<SpirvModule> module_on_disk(std::uint64_t hash) const;
  /// From the words of a module, as it lies on disk.
  [[nodiscard]] Result<VkPipeline> pipeline_of(SpirvModule words, bool is_bf16)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status begin() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status check_own(ShaderFamily family, const SpirvModule& words) const;
  [[nodiscard]] Result<SpirvModule> module_of(ShaderFamily family,
                                              const std::string& text,
                                              std::uint64_t hash) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t hash) const;

  std::shared_ptr<const VulkanDevice> device_;
  std::unique_ptr<LoopWatch> watch_;  ///< Null where drivers end no loop.
  Status kept_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path folder_;          ///< Empty: nothing is kept.
  std::filesystem::path path_of_driver_;  ///< What the driver keeps.
  mutable hearth::detail::Mutex mutex_;
  std::vector<VkPipeline> made_ HEARTH_GUARDED_BY(mutex_);
  /// By the hash of their text.
  std::unordered_map<std::uint64_t, SpirvModule> unsaved_ HEARTH_GUARDED_BY(mutex_);
  bool has_new_pipelines_ HEARTH_GUARDED_BY(mutex_) = false;
  std::vector<Used> used_ HEARTH_GUARDED_BY(mutex_);  ///< In the order of their first use.
  std::size_t used_taken_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::vector<Used> used_before_;     ///< By earlier runs of this program, the last one's first.
  std::atomic<std::size_t> next_{0};  ///< Of these, to be prepared.
  std::filesystem::path path_of_used_;
  const std::uint64_t build_;
  std::uint64_t build_before_ = 0;  ///< That left used_before_.
  bool knows_keys_ = false;         ///< Those keys are this build's.
  /// By the hash of their text, and by their keys.
  std::unordered_map<std::uint64_t, VkPipeline> prepared_ HEARTH_GUARDED_BY(mutex_);
  std::unordered_map<ShaderKey, Prepared, ShaderKeyHash> prepared_keys_ HEARTH_GUARDED_BY(mutex_);
  std::size_t loaded_size_ = 0;    ///< Of the driver's pipelines, as they lay on disk,
  std::uint64_t loaded_hash_ = 0;  ///< and their checksum.
  std::vector<std::uint64_t> failing_;
  std::uint64_t begun_ HEARTH_GUARDED_BY(mutex_) = 0;
  ShaderCounts counts_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
