#include "pipeline_maker.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/cooperative_matrix.hpp"
#include "backends/vulkan/spirv/bound_variables.hpp"
#include "backends/vulkan/spirv/cooperative_rewrite.hpp"
#include "backends/vulkan/spirv/widening_rewrite.hpp"
#include "backends/vulkan/spirv/workgroup_memory.hpp"

namespace hearth::vulkan {
namespace {

constexpr FileFormat kModules{.magic = {'H', 'S', 'P', 'I', 'R', 'V', '0', '0'}, .version = 2};
constexpr FileFormat kPipelines{.magic = {'H', 'V', 'K', 'P', 'I', 'P', 'E', '0'}, .version = 1};
constexpr FileFormat kUsed{.magic = {'H', 'V', 'K', 'U', 'S', 'E', 'D', '0'}, .version = 2};

/// Limit of prepared pipelines; some 0.1 ms each on NVIDIA.
constexpr std::size_t kMostPrepared = 512;

/// Limits of the files on disk: some KiB each, drivers' files some MiB.
constexpr std::size_t kMostModules = 8192;
constexpr std::size_t kMostPrograms = 256;
constexpr std::size_t kMostDrivers = 32;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::shared_ptr<PipelineMaker>> PipelineMaker::make(
    std::shared_ptr<const VulkanDevice> device,
    std::vector<std::uint64_t> failing,
    std::uint64_t build) {
  std::shared_ptr<PipelineMaker> store(new PipelineMaker(std::move(device), build));  // NOLINT
  store->failing_ = std::move(failing);
  const VulkanDevice& d = *store->device_;
  HEARTH_TRY(store->watch_, LoopWatch::make(d));
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = static_cast<std::uint32_t>(gpu::kPushBytes +
                                          (store->watch_ != nullptr ? sizeof(std::uint64_t) : 0));
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  const VkResult result =
      d.api().vkCreatePipelineLayout(d.handle(), &layout, nullptr, &store->layout_);
  if (result != VK_SUCCESS) {
    return d.failed("vkCreatePipelineLayout", result);
  }
  store->load();
  return store;
}

// A driver checks the header of a cache, and rejects a foreign one. A file that is missing or
// damaged costs time only: its contents are made again.
void PipelineMaker::load() {
  std::vector<std::byte> pipelines;
  const auto cache = cache_dir();
  kept_ = cache.status();
  if (cache.has_value()) {
    folder_ = cache.value() / "vulkan";
    path_of_driver_ = folder_ / (device_->fingerprint() + ".pipelines");
    kept_ = make_folder(folder_);
    if (kept_.has_value()) {
      kept_ = check_writable(path_of_driver_);
    }
    if (auto file = read_checked_file(path_of_driver_, kPipelines); file.has_value()) {
      pipelines = std::move(file).value();
      loaded_size_ = pipelines.size();
      loaded_hash_ = xxh64(pipelines);
    }
    load_used();
  }
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = pipelines.size();
  info.pInitialData = pipelines.empty() ? nullptr : pipelines.data();
  if (device_->api().vkCreatePipelineCache(device_->handle(), &info, nullptr, &cache_) !=
      VK_SUCCESS) {
    cache_ = VK_NULL_HANDLE;  // the driver works without a cache
  }
}

// Loads the list of used pipelines, and the build that saved it.
void PipelineMaker::load_used() {
  path_of_used_ = folder_ / used_name();
  const auto file = read_checked_file(path_of_used_, kUsed);
  if (!file.has_value() || file.value().size() < sizeof build_) {
    return;
  }
  std::memcpy(&build_before_, file.value().data(), sizeof build_before_);
  const std::span<const std::byte> bytes = std::span(file.value()).subspan(sizeof build_before_);
  const Used none{.key = gpu::KernelKey(gpu::KernelFamily::custom)};
  used_before_.assign(std::min(bytes.size() / sizeof(Used), kMostPrepared), none);
  static_assert(std::is_trivially_copyable_v<Used>);
  std::memcpy(used_before_.data(), bytes.data(), used_before_.size() * sizeof(Used));
  knows_keys_ = build_before_ == build_ && build_ != 0 &&
                std::ranges::all_of(used_before_, &gpu::KernelKey::is_whole, &Used::key);
}

PipelineMaker::~PipelineMaker() {
  // The next process compiles files that were not written, for lack of room or of memory.
  try {
    static_cast<void>(take_unsaved().write());
  } catch (const std::exception&) {
  }
  const DeviceApi& api = device_->api();
  for (const VkPipeline pipeline : made_) {
    api.vkDestroyPipeline(device_->handle(), pipeline, nullptr);
  }
  api.vkDestroyPipelineCache(device_->handle(), cache_, nullptr);
  api.vkDestroyPipelineLayout(device_->handle(), layout_, nullptr);
}

ShaderCounts PipelineMaker::counts() const noexcept {
  const hearth::detail::MutexLock lock(mutex_);
  return counts_;
}

std::filesystem::path PipelineMaker::path_of(std::uint64_t hash) const {
  return folder_ / "spirv" / fmt::format("{:016x}", hash);
}

// A program is identified by its executable. Lists of other programs do not help, nor lists for
// other matrix units (HEARTH_VULKAN_WITHOUT).
std::string PipelineMaker::used_name() const {
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  const gpu::DeviceLimits& limits = device_->limits();
  return fmt::format("{}-{:016x}-{:d}{:d}{:d}{:d}.used",
                     device_->fingerprint(),
                     xxh64(bytes_of(program)),
                     limits.has_cooperative_matrix,
                     limits.has_khr_matrices,
                     limits.has_cooperative_bf16,
                     limits.has_cooperative_i8);
}

// This device's pipelines first, then earlier ones: a program may open several devices with
// different work.
void PipelineMaker::add_used(CacheSave& to) {
  std::vector<Used> used;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (used_.size() == std::exchange(used_taken_, used_.size())) {
      return;
    }
    used = used_;
  }
  for (const Used& before : used_before_) {
    // An entry of another build has that build's key.
    if (build_before_ == build_ && std::ranges::find(used, before) == used.end()) {
      used.push_back(before);
    }
  }
  used.erase(used.begin() + static_cast<std::ptrdiff_t>(std::min(used.size(), kMostPrepared)),
             used.end());
  if (used == used_before_ && build_before_ == build_) {
    return;
  }
  std::vector<std::byte> bytes(sizeof build_ + used.size() * sizeof(Used));
  std::memcpy(bytes.data(), &build_, sizeof build_);
  std::memcpy(bytes.data() + sizeof build_, used.data(), used.size() * sizeof(Used));
  to.add(path_of_used_, kUsed, std::move(bytes));
}

CacheSave PipelineMaker::take_unsaved() {
  CacheSave files;
  if (folder_.empty()) {
    return files;
  }
  add_used(files);
  std::unordered_map<std::uint64_t, SpirvModule> modules;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (!std::exchange(has_new_pipelines_, false)) {
      return files;
    }
    modules.swap(unsaved_);
  }
  for (const auto& [hash, words] : modules) {
    // The hash in the file detects a file under another module's name.
    std::vector<std::byte> bytes(sizeof hash + words.size() * sizeof words[0]);
    std::memcpy(bytes.data(), &hash, sizeof hash);
    std::memcpy(bytes.data() + sizeof hash, words.data(), words.size() * sizeof words[0]);
    files.add(path_of(hash), kModules, std::move(bytes));
  }
  add_pipelines(files);
  files.keep_most(folder_ / "spirv", "", kMostModules);
  files.keep_most(folder_, ".used", kMostPrograms);
  files.keep_most(folder_, ".pipelines", kMostDrivers);
  return files;
}

// Merges pipelines that another device of this card, or another process, has saved meanwhile. If
// two save at the same moment, one loses its new pipelines and compiles them again.
void PipelineMaker::join_saved() {
  const auto file = read_checked_file(path_of_driver_, kPipelines);
  if (!file.has_value() || xxh64(file.value()) == loaded_hash_) {
    return;
  }
  const DeviceApi& api = device_->api();
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = file.value().size();
  info.pInitialData = file.value().data();
  VkPipelineCache saved = VK_NULL_HANDLE;
  if (api.vkCreatePipelineCache(device_->handle(), &info, nullptr, &saved) != VK_SUCCESS) {
    return;  // as without a file
  }
  // If merging fails, the cache is as good as before.
  static_cast<void>(api.vkMergePipelineCaches(device_->handle(), cache_, 1, &saved));
  api.vkDestroyPipelineCache(device_->handle(), saved, nullptr);
}

void PipelineMaker::add_pipelines(CacheSave& to) {
  if (cache_ == VK_NULL_HANDLE) {
    return;
  }
  join_saved();
  std::size_t size = 0;
  const DeviceApi& api = device_->api();
  if (api.vkGetPipelineCacheData(device_->handle(), cache_, &size, nullptr) != VK_SUCCESS ||
      size == loaded_size_) {
    return;
  }
  std::vector<std::byte> data(size);
  if (api.vkGetPipelineCacheData(device_->handle(), cache_, &size, data.data()) != VK_SUCCESS) {
    return;  // the driver has pipelines but exports none
  }
  data.resize(size);
  to.add(path_of_driver_, kPipelines, std::move(data));
}

// A damaged file counts as missing.
std::optional<SpirvModule> PipelineMaker::module_on_disk(std::uint64_t hash) const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const auto file = read_checked_file(path_of(hash), kModules);
  std::uint64_t written = 0;
  if (!file.has_value() || file.value().size() < sizeof written) {
    return std::nullopt;
  }
  std::memcpy(&written, file.value().data(), sizeof written);
  if (written != hash) {
    return std::nullopt;
  }
  SpirvModule words((file.value().size() - sizeof written) / sizeof(std::uint32_t));
  std::memcpy(
      words.data(), file.value().data() + sizeof written, words.size() * sizeof(std::uint32_t));
  return words;
}

Result<SpirvModule> PipelineMaker::module_of(gpu::KernelFamily family,
                                             const std::string& text,
                                             std::uint64_t hash) {
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (const auto found = unsaved_.find(hash); found != unsaved_.end()) {
      return found->second;
    }
  }
  if (std::optional<SpirvModule> words = module_on_disk(hash)) {
    HEARTH_TRY_STATUS(check_own(family, *words));
    return *std::move(words);
  }
#ifdef HEARTH_ASSERTS
  constexpr bool kValidates = true;
#else
  constexpr bool kValidates = false;
#endif
  HEARTH_TRY(SpirvModule module,
             compile_glsl(fmt::format("family {}", static_cast<int>(family)),
                          text,
                          {.validate = kValidates,
                           .converts_f16 = device_->limits().converts_f16(),
                           .has_long_grids = device_->limits().has_long_grids()}));
  HEARTH_TRY_STATUS(check_own(family, module));  // before other processes can load it
  const hearth::detail::MutexLock lock(mutex_);
  unsaved_.emplace(hash, module);
  ++counts_.compiled;
  return module;
}

// Applies the fault plan of a test to the next pipeline.
Status PipelineMaker::begin() {
  const hearth::detail::MutexLock lock(mutex_);
  ++begun_;
  if (std::ranges::find(failing_, begun_) == failing_.end()) {
    return {};
  }
  return Error{.code = ErrorCode::kernel_failed,
               .text = fmt::format("compilation {} fails by the fault plan", begun_)};
}

// Checks a program's own text. Drivers may do anything with too much shared memory, or with unbound
// descriptors.
Status PipelineMaker::check_own(gpu::KernelFamily family, const SpirvModule& words) const {
  if (family != gpu::KernelFamily::custom) {
    return {};
  }
  if (const std::optional<std::string> bound = bound_variable(words)) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("the GLSL text declares '{}', a resource of its own: a kernel "
                                     "has its operands and no descriptor sets",
                                     *bound)};
  }
  const std::int64_t bytes = workgroup_bytes(words);
  const auto most = static_cast<std::int64_t>(device_->limits().shared_bytes);
  if (bytes <= most) {
    return {};
  }
  return Error{.code = ErrorCode::unsupported,
               .text = fmt::format("its shared variables have {} bytes, a workgroup of the device "
                                   "at most {}",
                                   bytes,
                                   most)};
}

std::string PipelineMaker::watched(const gpu::KernelKey& key, const std::string& bare) const {
  return watch_ != nullptr ? LoopWatch::watched(bare, key.family() == gpu::KernelFamily::custom)
                           : bare;
}

Result<VkPipeline> PipelineMaker::pipeline(const gpu::KernelKey& key, const std::string& bare) {
  HEARTH_TRY_STATUS(begin());
  const std::string text = watched(key, bare);
  if (const VkPipeline prepared = find_watched(key, text); prepared != VK_NULL_HANDLE) {
    return prepared;
  }
  HEARTH_TRY(SpirvModule words, module_of(key.family(), text, hash_of(text)));
  return pipeline_of(std::move(words), is_cooperative_bf16(text));
}

// A module depends on its text, the compiler, and the device's conversions and grids.
std::uint64_t PipelineMaker::hash_of(const std::string& text) const noexcept {
  return xxh64(bytes_of(text), glsl_compiler_version()) ^
         (device_->limits().converts_f16() ? 1U : 0U) ^
         (device_->limits().has_long_grids() ? 2U : 0U);
}

void PipelineMaker::note_used(const Used& use) {
  if (std::ranges::find(used_, use) == used_.end()) {
    used_.push_back(use);
  }
}

VkPipeline PipelineMaker::find_prepared(const gpu::KernelKey& key) {
  const hearth::detail::MutexLock lock(mutex_);
  const auto found = prepared_keys_.find(key);
  if (found == prepared_keys_.end()) {
    return VK_NULL_HANDLE;
  }
  note_used(used_before_[found->second.used_before]);
  return found->second.pipeline;
}

VkPipeline PipelineMaker::find_watched(const gpu::KernelKey& key, const std::string& text) {
  const Used use{.hash = hash_of(text), .is_bf16 = is_cooperative_bf16(text) ? 1U : 0U, .key = key};
  const hearth::detail::MutexLock lock(mutex_);
  note_used(use);
  const auto found = prepared_.find(use.hash);
  return found != prepared_.end() ? found->second : VK_NULL_HANDLE;
}

void PipelineMaker::prepare(const std::atomic<bool>& has_ended) {
  for (std::size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < used_before_.size();
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    if (has_ended.load(std::memory_order_acquire)) {  // partner: ~CompilePool
      return;
    }
    const Used& use = used_before_[i];
    {
      const hearth::detail::MutexLock lock(mutex_);
      if (std::ranges::find(used_, use) != used_.end()) {
        continue;  // already requested
      }
    }
    std::optional<SpirvModule> words = module_on_disk(use.hash);
    if (!words) {
      continue;
    }
    if (const auto made = pipeline_of(*std::move(words), use.is_bf16 != 0); made.has_value()) {
      const hearth::detail::MutexLock lock(mutex_);
      prepared_.emplace(use.hash, made.value());
      if (knows_keys_) {
        prepared_keys_.emplace(use.key, Prepared{made.value(), i});
      }
      ++counts_.prepared;
    }
  }
}

Result<VkPipeline> PipelineMaker::pipeline_of(SpirvModule words, bool is_bf16) {
  if (device_->limits().has_khr_matrices && has_cooperative_matrices(words)) {
    HEARTH_TRY(
        words,
        rewrite_cooperative(words, is_bf16 ? CooperativeFactor::bf16 : CooperativeFactor::f16));
  }
  if (device_->limits().is_cpu) {
    HEARTH_TRY(words, rewrite_widening(std::move(words)));
  }
  const DeviceApi& api = device_->api();
  VkShaderModuleCreateInfo module{};
  module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module.codeSize = words.size() * sizeof(std::uint32_t);
  module.pCode = words.data();
  VkShaderModule handle = VK_NULL_HANDLE;
  VkResult result = api.vkCreateShaderModule(device_->handle(), &module, nullptr, &handle);
  if (result != VK_SUCCESS) {
    return device_->failed("vkCreateShaderModule", result);
  }
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = handle;
  info.stage.pName = "main";
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  result = api.vkCreateComputePipelines(device_->handle(), cache_, 1, &info, nullptr, &pipeline);
  api.vkDestroyShaderModule(device_->handle(), handle, nullptr);
  if (result != VK_SUCCESS) {
    return device_->failed("vkCreateComputePipelines", result);
  }
  const hearth::detail::MutexLock lock(mutex_);
  made_.push_back(pipeline);
  ++counts_.pipelines;
  has_new_pipelines_ = true;
  return pipeline;
}

}  // namespace hearth::vulkan
