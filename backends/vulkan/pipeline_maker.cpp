#include "pipeline_maker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cooperative_matrix.hpp"

#include <hearth/backends/codegen/glsl_prelude.hpp>
#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::vulkan {
namespace {

constexpr FileFormat kModules{.magic = {'H', 'S', 'P', 'I', 'R', 'V', '0', '0'}, .version = 1};
constexpr FileFormat kPipelines{.magic = {'H', 'V', 'K', 'P', 'I', 'P', 'E', '0'}, .version = 1};
constexpr FileFormat kRecent{.magic = {'H', 'V', 'K', 'L', 'A', 'S', 'T', '0'}, .version = 1};
/// A training with a large model has some hundreds.
constexpr std::size_t kMostRecent = 1024;

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
      loaded_size_ = pipelines.size();
      saved_size_ = loaded_size_;
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
  load_recent();
}

// Programs are told apart by where they lie: one that was built anew asks for much the same.
std::filesystem::path PipelineMaker::recent_path() const {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  return folder_ /
         fmt::format("{}-{:016x}.recent", device_->fingerprint(), xxh64(bytes_of(program)));
}

void PipelineMaker::load_recent() {
  if (folder_.empty()) {
    return;
  }
  const auto file = read_checked_file(recent_path(), kRecent);
  if (!file.has_value()) {
    return;
  }
  std::vector<std::uint64_t> words(std::min(file.value().size() / sizeof(std::uint64_t),  //
                                            2 * kMostRecent));
  std::memcpy(words.data(), file.value().data(), words.size() * sizeof(std::uint64_t));
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    recent_.push_back(
        {words[i], words[i + 1] == 0 ? CooperativeFactor::f16 : CooperativeFactor::bf16});
  }
}

// What this run did not ask for stays behind what it did: a program need not do the same each time.
Status PipelineMaker::save_recent() {
  std::vector<RecentShader> all;
  {
    const MutexLock lock(mutex_);
    all = asked_;
  }
  if (folder_.empty() || all.empty()) {
    return {};
  }
  const auto add = [&](const RecentShader& shader) {
    if (std::ranges::find(all, shader.hash, &RecentShader::hash) == all.end()) {
      all.push_back(shader);
    }
  };
  std::ranges::for_each(recent_, add);
  all.resize(std::min(all.size(), kMostRecent));
  if (std::ranges::equal(all, recent_, {}, &RecentShader::hash, &RecentShader::hash)) {
    return {};
  }
  std::vector<std::uint64_t> words;
  for (const RecentShader& shader : all) {
    words.push_back(shader.hash);
    words.push_back(shader.factor == CooperativeFactor::bf16 ? 1 : 0);
  }
  HEARTH_TRY_STATUS(make_folder(folder_));
  return write_checked_file(recent_path(), kRecent, std::as_bytes(std::span(words)));
}

PipelineMaker::~PipelineMaker() {
  static_cast<void>(save());  // the next process compiles again what is not there
  static_cast<void>(save_recent());
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

// A file that is damaged is written anew.
std::optional<SpirvModule> PipelineMaker::kept_module(std::uint64_t hash) const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const auto file = read_checked_file(path_of(hash), kModules);
  if (!file.has_value()) {
    return std::nullopt;
  }
  SpirvModule words(file.value().size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), file.value().data(), words.size() * sizeof(std::uint32_t));
  return words;
}

Result<PipelineMaker::Module> PipelineMaker::module_of(ShaderFamily family,
                                                       const std::string& text,
                                                       std::uint64_t hash) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = unsaved_.find(hash); found != unsaved_.end()) {
      return Module{.words = found->second, .is_kept = true};
    }
  }
  if (std::optional<SpirvModule> kept = kept_module(hash)) {
    return Module{.words = *std::move(kept), .is_kept = true};
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
  return Module{.words = std::move(module)};
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

VkPipeline PipelineMaker::take_made_ahead(const RecentShader& shader) {
  const MutexLock lock(mutex_);
  asked_.push_back(shader);
  const auto found = ahead_.find(shader.hash);
  if (found == ahead_.end()) {
    return VK_NULL_HANDLE;
  }
  ++counts_.pipelines;
  ++counts_.made_ahead;
  return found->second;
}

Result<VkPipeline> PipelineMaker::pipeline(ShaderFamily family, const std::string& text) {
  HEARTH_TRY_STATUS(begin());
  const RecentShader shader{
      .hash = xxh64(bytes_of(text)),
      .factor = is_cooperative_bf16(text) ? CooperativeFactor::bf16 : CooperativeFactor::f16};
  if (const VkPipeline made = take_made_ahead(shader); made != VK_NULL_HANDLE) {
    return made;
  }
  HEARTH_TRY(const Module module, module_of(family, text, shader.hash));
  HEARTH_TRY(const VkPipeline pipeline, make_pipeline(module, shader.factor));
  const MutexLock lock(mutex_);
  ++counts_.pipelines;
  has_new_pipelines_ = true;
  return pipeline;
}

void PipelineMaker::make_ahead(const RecentShader& shader) noexcept {
  try {
    std::optional<SpirvModule> words = kept_module(shader.hash);
    if (!words) {
      return;
    }
    const Result<VkPipeline> pipeline =
        make_pipeline({.words = *std::move(words), .is_kept = true}, shader.factor);
    if (pipeline.has_value()) {
      const MutexLock lock(mutex_);
      ahead_.emplace(shader.hash, pipeline.value());
    }
  } catch (const std::exception&) {
    // Without host memory it is made when it is asked for, and fails there.
  }
}

Result<VkPipeline> PipelineMaker::make_pipeline(const Module& module, CooperativeFactor factor) {
  const auto make = [&]() -> Result<VkPipeline> {
    if (!has_cooperative_matrices(module.words)) {
      return create(module.words);
    }
    HEARTH_TRY(const SpirvModule rewritten, rewrite_cooperative(module.words, factor));
    return create(rewritten);
  };
  const auto make_kept = [&] {
    const MutexLock lock(kept_mutex_);
    return make();
  };
  const bool is_known = module.is_kept && loaded_size_ > 0 && !device_->physical().is_cpu();
  HEARTH_TRY(const VkPipeline pipeline, is_known ? make_kept() : make());
  const MutexLock lock(mutex_);
  made_.push_back(pipeline);
  return pipeline;
}

Result<VkPipeline> PipelineMaker::create(const SpirvModule& words) const {
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
  return pipeline;
}

}  // namespace hearth::vulkan
