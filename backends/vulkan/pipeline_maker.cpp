#include "pipeline_maker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cooperative_matrix.hpp"

#include <hearth/backends/codegen/cooperative_rewrite.hpp>
#include <hearth/backends/codegen/glsl_prelude.hpp>
#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::vulkan {
namespace {

constexpr FileFormat kModules{.magic = {'H', 'S', 'P', 'I', 'R', 'V', '0', '0'}, .version = 1};
constexpr FileFormat kPipelines{.magic = {'H', 'V', 'K', 'P', 'I', 'P', 'E', '0'}, .version = 1};

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::shared_ptr<PipelineMaker>> PipelineMaker::make(
    std::shared_ptr<const VulkanDevice> device, std::vector<std::uint64_t> failing) {
  std::shared_ptr<PipelineMaker> store(new PipelineMaker(std::move(device)));  // NOLINT
  store->failing_ = std::move(failing);
  const VulkanDevice& d = *store->device_;
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = static_cast<std::uint32_t>(kPushBytes);
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

// A driver looks at the header of a cache by itself, and takes none that is not its own. A file
// that is not there, or is damaged, costs time and nothing else: what it would have held is made
// anew.
void PipelineMaker::load() {
  std::vector<std::byte> pipelines;
  if (const auto cache = cache_dir(); cache.has_value()) {
    folder_ = cache.value() / "vulkan";
    if (auto file =
            read_checked_file(folder_ / (device_->fingerprint() + ".pipelines"), kPipelines);
        file.has_value()) {
      pipelines = std::move(file).value();
      saved_size_ = pipelines.size();
    }
  }
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = pipelines.size();
  info.pInitialData = pipelines.empty() ? nullptr : pipelines.data();
  if (device_->api().vkCreatePipelineCache(device_->handle(), &info, nullptr, &cache_) !=
      VK_SUCCESS) {
    cache_ = VK_NULL_HANDLE;  // the driver works without one
  }
}

PipelineMaker::~PipelineMaker() {
  static_cast<void>(save());  // the next process compiles again what is not there
  const DeviceApi& api = device_->api();
  for (const VkPipeline pipeline : made_) {
    api.vkDestroyPipeline(device_->handle(), pipeline, nullptr);
  }
  api.vkDestroyPipelineCache(device_->handle(), cache_, nullptr);
  api.vkDestroyPipelineLayout(device_->handle(), layout_, nullptr);
}

ShaderCounts PipelineMaker::counts() const noexcept {
  const MutexLock lock(mutex_);
  return counts_;
}

std::filesystem::path PipelineMaker::path_of(std::uint64_t hash) const {
  return folder_ / "spirv" / fmt::format("{:016x}", hash);
}

// Two processes that save at the same time write the same bytes.
Status PipelineMaker::save() {
  std::unordered_map<std::uint64_t, SpirvModule> modules;
  {
    const MutexLock lock(mutex_);
    if (folder_.empty() || !has_new_pipelines_) {
      return {};
    }
    modules.swap(unsaved_);
    has_new_pipelines_ = false;
  }
  HEARTH_TRY_STATUS(make_folder(folder_ / "spirv"));
  for (const auto& [hash, words] : modules) {
    HEARTH_TRY_STATUS(write_checked_file(path_of(hash), kModules, std::as_bytes(std::span(words))));
  }
  std::size_t size = 0;
  const DeviceApi& api = device_->api();
  if (cache_ != VK_NULL_HANDLE &&
      api.vkGetPipelineCacheData(device_->handle(), cache_, &size, nullptr) == VK_SUCCESS &&
      size != saved_size_) {
    std::vector<std::byte> data(size);
    if (api.vkGetPipelineCacheData(device_->handle(), cache_, &size, data.data()) == VK_SUCCESS) {
      HEARTH_TRY_STATUS(write_checked_file(folder_ / (device_->fingerprint() + ".pipelines"),
                                           kPipelines,
                                           std::span(data).first(size)));
      saved_size_ = size;
    }
  }
  return {};
}

Result<SpirvModule> PipelineMaker::module_of(ShaderFamily family, const std::string& text) {
  const std::uint64_t hash = xxh64(bytes_of(text));
  {
    const MutexLock lock(mutex_);
    if (const auto found = unsaved_.find(hash); found != unsaved_.end()) {
      return found->second;
    }
  }
  if (!folder_.empty()) {
    // A file that is damaged is written anew.
    if (const auto file = read_checked_file(path_of(hash), kModules); file.has_value()) {
      SpirvModule words(file.value().size() / sizeof(std::uint32_t));
      std::memcpy(words.data(), file.value().data(), words.size() * sizeof(std::uint32_t));
      return words;
    }
  }
#ifdef HEARTH_ASSERTS
  constexpr bool kValidates = true;
#else
  constexpr bool kValidates = false;
#endif
  HEARTH_TRY(
      SpirvModule module,
      compile_glsl(
          fmt::format("family {}", static_cast<int>(family)), text, {.validate = kValidates}));
  const MutexLock lock(mutex_);
  unsaved_.emplace(hash, module);
  ++counts_.compiled;
  return module;
}

// Whether this one may be made, by the plan of a test.
Status PipelineMaker::begin() {
  const MutexLock lock(mutex_);
  ++begun_;
  if (std::ranges::find(failing_, begun_) == failing_.end()) {
    return {};
  }
  return Error{.code = ErrorCode::kernel_failed,
               .text = fmt::format("compilation {} fails as planned", begun_)};
}

Result<VkPipeline> PipelineMaker::pipeline(ShaderFamily family, const std::string& text) {
  HEARTH_TRY_STATUS(begin());
  HEARTH_TRY(SpirvModule words, module_of(family, text));
  if (has_cooperative_matrices(words)) {
    HEARTH_TRY(
        words,
        rewrite_cooperative(
            words, is_cooperative_bf16(text) ? CooperativeFactor::bf16 : CooperativeFactor::f16));
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
  const MutexLock lock(mutex_);
  made_.push_back(pipeline);
  ++counts_.pipelines;
  has_new_pipelines_ = true;
  return pipeline;
}

}  // namespace hearth::vulkan
