// Makes pipelines from texts of shaders, and keeps them from one run of a program to the next.
// Modules lie on disk by the hash of their text, the driver's pipelines in one file for each card
// and driver version. No shader is thus compiled twice, by this library or by the driver. A list of
// the pipelines that a program used lets its next run prepare them. Without a cache folder nothing
// is kept. Threads: any.
// Invariant: pipelines live as long as the maker.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

#include "backends/gpu/encoder/kernel_key.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"
#include "backends/vulkan/pipelines/loop_watch.hpp"
#include "backends/vulkan/spirv/spirv_compiler.hpp"
#include "build_id.hpp"
#include "cache_save.hpp"

namespace hearth::vulkan {

struct ShaderCounts {
  std::uint64_t pipelines = 0;  ///< Pipelines that this process made.
  std::uint64_t compiled = 0;   ///< Pipelines compiled from a text that was on no disk.
  std::uint64_t prepared = 0;   ///< Pipelines made by prepare().
};

class PipelineMaker final {
 public:
  /// `failing`: these pipelines fail, counted from 1, for tests. `build`: the build of the library
  /// to which keys belong; 0: unknown.
  /// Errors: those of Vulkan.
  [[nodiscard]] static Result<std::shared_ptr<PipelineMaker>> make(
      std::shared_ptr<const VulkanDevice> device,
      std::vector<std::uint64_t> failing = {},
      std::uint64_t build = build_id());
  /// Saves new data that take_unsaved() did not take.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  [[nodiscard]] VkPipelineLayout layout() const noexcept { return layout_; }
  /// Errors: internal, if a text does not compile (kernel_failed for a program's text); those of
  /// Vulkan.
  [[nodiscard]] Result<VkPipeline> pipeline(const gpu::KernelKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_);
  /// The prepared pipeline of a text, or null. If this build left it on disk, the key identifies
  /// it, and the text is not needed.
  [[nodiscard]] VkPipeline find_prepared(const gpu::KernelKey& key) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] VkPipeline find_prepared(const gpu::KernelKey& key, const std::string& bare)
      HEARTH_EXCLUDES(mutex_) {
    return find_watched(key, watched(key, bare));
  }
  /// Number of pipelines that this program used in earlier runs.
  [[nodiscard]] std::size_t known_count() const noexcept { return used_before_.size(); }
  /// Makes the known pipelines until `has_ended`, each once, on any number of threads. A failure is
  /// left to the first caller that needs the pipeline.
  void prepare(const std::atomic<bool>& has_ended) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] ShaderCounts counts() const noexcept HEARTH_EXCLUDES(mutex_);
  /// New data for the disk. Called at the end, when no thread makes pipelines.
  [[nodiscard]] CacheSave take_unsaved() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] const std::string& device_name() const noexcept { return device_->name(); }
  /// Success if compiled shaders are kept on disk, else the reason.
  /// Address of the word where shaders report a loop that was left early; 0: none.
  [[nodiscard]] const Status& kept() const noexcept { return kept_; }
  [[nodiscard]] std::uint64_t loop_word() const noexcept {
    return watch_ != nullptr ? watch_->address() : 0;
  }
  /// True if the driver has ended a loop of a shader early.
  [[nodiscard]] bool has_left_a_loop() const noexcept {
    return watch_ != nullptr && watch_->has_seen_any();
  }

 private:
  /// A text that a program used.
  struct Used {
    std::uint64_t hash = 0;
    std::uint64_t is_bf16 = 0;  ///< Factors of the matrix units are bf16.
    gpu::KernelKey key;         ///< Valid for the build that saved it.

    friend bool operator==(const Used& a, const Used& b) noexcept {
      return a.hash == b.hash && a.is_bf16 == b.is_bf16;
    }
  };
  struct Prepared {
    VkPipeline pipeline = VK_NULL_HANDLE;
    std::size_t used_before = 0;  ///< Index in used_before_.
  };

  PipelineMaker(std::shared_ptr<const VulkanDevice> device, std::uint64_t build) noexcept
      : device_(std::move(device)), build_(build) {}
  void load();
  /// The text to compile, for a requested text.
  [[nodiscard]] std::string watched(const gpu::KernelKey& key, const std::string& bare) const;
  [[nodiscard]] VkPipeline find_watched(const gpu::KernelKey& key, const std::string& text)
      HEARTH_EXCLUDES(mutex_);
  void add_pipelines(CacheSave& to);
  void join_saved();
  [[nodiscard]] std::uint64_t hash_of(const std::string& text) const noexcept;
  void load_used();
  void note_used(const Used& use) HEARTH_REQUIRES(mutex_);
  void add_used(CacheSave& to) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::string used_name() const;
  [[nodiscard]] std::optional<SpirvModule> module_on_disk(std::uint64_t hash) const;
  /// Makes a pipeline from a module, as it lies on disk.
  [[nodiscard]] Result<VkPipeline> pipeline_of(SpirvModule words, bool is_bf16)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status begin() HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status check_own(gpu::KernelFamily family, const SpirvModule& words) const;
  [[nodiscard]] Result<SpirvModule> module_of(gpu::KernelFamily family,
                                              const std::string& text,
                                              std::uint64_t hash) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t hash) const;

  std::shared_ptr<const VulkanDevice> device_;
  std::unique_ptr<LoopWatch> watch_;  ///< Null for drivers that end no loop.
  Status kept_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path folder_;          ///< Empty: nothing is kept.
  std::filesystem::path path_of_driver_;  ///< File of the driver's pipelines.
  mutable hearth::detail::Mutex mutex_;
  std::vector<VkPipeline> made_ HEARTH_GUARDED_BY(mutex_);
  /// By the hash of their text.
  std::unordered_map<std::uint64_t, SpirvModule> unsaved_ HEARTH_GUARDED_BY(mutex_);
  bool has_new_pipelines_ HEARTH_GUARDED_BY(mutex_) = false;
  std::vector<Used> used_ HEARTH_GUARDED_BY(mutex_);  ///< In the order of their first use.
  std::size_t used_taken_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::vector<Used> used_before_;  ///< Used by earlier runs of this program, the last run's first.
  std::atomic<std::size_t> next_{0};  ///< Index of the next one to prepare.
  std::filesystem::path path_of_used_;
  const std::uint64_t build_;
  std::uint64_t build_before_ = 0;  ///< The build that left used_before_.
  bool knows_keys_ = false;         ///< The keys of used_before_ are this build's.
  /// By the hash of their text, and by their keys.
  std::unordered_map<std::uint64_t, VkPipeline> prepared_ HEARTH_GUARDED_BY(mutex_);
  std::unordered_map<gpu::KernelKey, Prepared, gpu::KernelKeyHash> prepared_keys_
      HEARTH_GUARDED_BY(mutex_);
  std::size_t loaded_size_ = 0;    ///< Bytes of the driver's pipelines as loaded from disk,
  std::uint64_t loaded_hash_ = 0;  ///< and their checksum.
  std::vector<std::uint64_t> failing_;
  std::uint64_t begun_ HEARTH_GUARDED_BY(mutex_) = 0;
  ShaderCounts counts_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
