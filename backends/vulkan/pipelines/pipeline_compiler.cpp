#include "pipeline_compiler.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/cooperative_matrix.hpp"
#include "backends/vulkan/spirv/bound_variables.hpp"
#include "backends/vulkan/spirv/cooperative_rewrite.hpp"
#include "backends/vulkan/spirv/special_values.hpp"
#include "backends/vulkan/spirv/spirv_compiler.hpp"
#include "backends/vulkan/spirv/widening_rewrite.hpp"
#include "backends/vulkan/spirv/workgroup_memory.hpp"

namespace hearth::vulkan {
namespace {

constexpr FileFormat kPipelines{.magic = {'H', 'V', 'K', 'P', 'I', 'P', 'E', '0'}, .version = 1};
/// Limit of the drivers' files on disk, some MiB each.
constexpr std::size_t kMostDrivers = 32;

// A module depends on its text, the compiler, the device's conversions and grids, and on the passes
// behind the compiler. A driver in software takes 0.4 s for each pipeline, cached or not.
gpu::CompilerIdentity identity_of(const VulkanDevice& device) {
  const gpu::DeviceLimits& limits = device.limits();
  const std::uint64_t passes = (limits.converts_f16() ? 1U : 0U) |
                               (limits.has_long_grids() ? 2U : 0U) |
                               (limits.has_khr_matrices ? 4U : 0U) | (limits.is_cpu ? 8U : 0U);
  return {.device = device.name(),
          .folder = "vulkan",
          .modules = "spirv",
          .card = device.fingerprint(),
          .options = fmt::format("{:d}{:d}{:d}{:d}s{}",
                                 limits.has_cooperative_matrix,
                                 limits.has_khr_matrices,
                                 limits.has_cooperative_bf16,
                                 limits.has_cooperative_i8,
                                 limits.special_widths),
          .compiler = std::uint64_t{glsl_compiler_version()} ^ (passes << 56U),
          .loads_fast = !limits.is_cpu};
}

}  // namespace

PipelineCompiler::PipelineCompiler(std::shared_ptr<const VulkanDevice> device)
    : device_(std::move(device)), identity_(identity_of(*device_)) {}

Result<std::shared_ptr<PipelineCompiler>> PipelineCompiler::make(
    std::shared_ptr<const VulkanDevice> device) {
  std::shared_ptr<PipelineCompiler> compiler(new PipelineCompiler(std::move(device)));  // NOLINT
  const VulkanDevice& d = *compiler->device_;
  HEARTH_TRY(compiler->watch_, LoopWatch::make(d));
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = static_cast<std::uint32_t>(
      gpu::kPushBytes + (compiler->watch_ != nullptr ? sizeof(std::uint64_t) : 0));
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  const VkResult result =
      d.api().vkCreatePipelineLayout(d.handle(), &layout, nullptr, &compiler->layout_);
  if (result != VK_SUCCESS) {
    return d.failed("vkCreatePipelineLayout", result);
  }
  return compiler;
}

PipelineCompiler::~PipelineCompiler() {
  const DeviceApi& api = device_->api();
  for (const VkPipeline pipeline : made_) {
    api.vkDestroyPipeline(device_->handle(), pipeline, nullptr);
  }
  api.vkDestroyPipelineCache(device_->handle(), cache_, nullptr);
  api.vkDestroyPipelineLayout(device_->handle(), layout_, nullptr);
}

std::string PipelineCompiler::whole_text(gpu::KernelFamily family, std::string text) const {
  return watch_ != nullptr ? LoopWatch::watched(text, family == gpu::KernelFamily::custom)
                           : std::move(text);
}

// ---- modules ----

// Drivers of KHR's matrices, and drivers in software, get a rewritten module.
Result<gpu::KernelModule> PipelineCompiler::compile(gpu::KernelFamily family,
                                                    const std::string& text) const {
#ifdef HEARTH_ASSERTS
  constexpr bool kValidates = true;
#else
  constexpr bool kValidates = false;
#endif
  const gpu::DeviceLimits& limits = device_->limits();
  HEARTH_TRY(SpirvModule words,
             compile_glsl(fmt::format("family {}", static_cast<int>(family)),
                          text,
                          {.validate = kValidates,
                           .converts_f16 = limits.converts_f16(),
                           .has_long_grids = limits.has_long_grids()}));
  HEARTH_TRY_STATUS(check(family, words));
  if (limits.has_khr_matrices && has_cooperative_matrices(words)) {
    HEARTH_TRY(
        words,
        rewrite_cooperative(
            words, is_cooperative_bf16(text) ? CooperativeFactor::bf16 : CooperativeFactor::f16));
  }
  if (limits.is_cpu) {
    HEARTH_TRY(words, rewrite_widening(std::move(words)));
  }
  return declare_special_values(std::move(words), limits.special_widths);
}

// Checks a program's own text. Drivers may do anything with too much shared memory, or with unbound
// descriptors.
Status PipelineCompiler::check(gpu::KernelFamily family, const gpu::KernelModule& words) const {
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

Result<gpu::KernelHandle> PipelineCompiler::load(const gpu::KernelModule& words) {
  const DeviceApi& api = device_->api();
  VkShaderModuleCreateInfo info_of_module{};
  info_of_module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info_of_module.codeSize = words.size() * sizeof(std::uint32_t);
  info_of_module.pCode = words.data();
  VkShaderModule handle = VK_NULL_HANDLE;
  VkResult result = api.vkCreateShaderModule(device_->handle(), &info_of_module, nullptr, &handle);
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
  return handle_of(pipeline);
}

// ---- the driver's cache ----

// A driver checks the header of a cache, and rejects a foreign one.
void PipelineCompiler::open_cache(const std::filesystem::path& folder) {
  std::vector<std::byte> pipelines;
  if (!folder.empty()) {
    folder_ = folder;
    path_ = folder / (device_->fingerprint() + ".pipelines");
    if (auto file = read_checked_file(path_, kPipelines); file.has_value()) {
      pipelines = std::move(file).value();
      loaded_size_ = pipelines.size();
      loaded_hash_ = xxh64(pipelines);
    }
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

// Merges pipelines that another device of this card, or another process, has saved meanwhile. If
// two save at the same moment, one loses its new pipelines and compiles them again.
void PipelineCompiler::join_saved() {
  const auto file = read_checked_file(path_, kPipelines);
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

void PipelineCompiler::add_unsaved(gpu::CacheSave& to) {
  if (cache_ == VK_NULL_HANDLE || folder_.empty()) {
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
  to.add(path_, kPipelines, std::move(data));
  to.keep_most(folder_, ".pipelines", kMostDrivers);
}

}  // namespace hearth::vulkan
