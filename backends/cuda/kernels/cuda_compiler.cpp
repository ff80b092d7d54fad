#include "cuda_compiler.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

#include "backends/cuda/text/cuda_prelude.hpp"
#include "cubin.hpp"

namespace hearth::cuda {
namespace {

// The threads of a block, which the front of a text has.
unsigned threads_of(std::string_view text) noexcept {
  constexpr std::string_view kName = "#define GROUP_THREADS ";
  const std::size_t at = text.find(kName);
  unsigned threads = 0;
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), threads);
  }
  return threads;
}

}  // namespace

Result<std::shared_ptr<CudaCompiler>> CudaCompiler::make(std::shared_ptr<const CudaDevice> device) {
  Result<std::shared_ptr<const NvrtcApi>> nvrtc = NvrtcApi::open(device->nvidia_folders());
  const auto missing = [&device](ErrorCode code, std::string_view why) {
    return Error{.code = code,
                 .text = fmt::format("no device '{}': {}", device->name(), why),
                 .device = device->name()};
  };
  if (!nvrtc.has_value()) {
    return missing(nvrtc.error().code, nvrtc.error().text);
  }
  const std::vector<int>& known = nvrtc.value()->architectures;
  if (!known.empty() && std::ranges::find(known, device->architecture()) == known.end()) {
    return missing(ErrorCode::unsupported,
                   fmt::format("{} has no code for sm_{}, which {} needs: install a newer NVRTC",
                               nvrtc.value()->file,
                               device->architecture(),
                               device->card()));
  }
  return std::make_shared<CudaCompiler>(std::move(device), std::move(nvrtc).value());
}

CudaCompiler::CudaCompiler(std::shared_ptr<const CudaDevice> device,
                           std::shared_ptr<const NvrtcApi> nvrtc)
    : device_(std::move(device)),
      nvrtc_(std::move(nvrtc)),
      architecture_(architecture_of(device_->architecture())) {
  // The prelude is part of each text, so it needs no number of its own.
  const std::string options = fmt::format("{} {}", architecture_, nvrtc_->version);
  identity_ = {.device = device_->name(),
               .folder = "cuda",
               .modules = "cubin",
               .card = device_->fingerprint(),
               .options = "",
               .compiler = xxh64(std::as_bytes(std::span(options))),
               .loads_fast = true};
}

std::string CudaCompiler::description() const {
  return fmt::format(
      "NVRTC {}.{} of {}", nvrtc_->version / 1000, nvrtc_->version % 1000 / 10, nvrtc_->file);
}

std::string CudaCompiler::whole_text(gpu::KernelFamily /*family*/, std::string text) const {
  return cuda_text(text);
}

// A module is the number of threads, then the cubin.
Result<gpu::KernelModule> CudaCompiler::compile(gpu::KernelFamily family,
                                                const std::string& text) const {
  const auto wrong = [&](std::string_view what) {
    return Error{.code = family == gpu::KernelFamily::custom ? ErrorCode::kernel_failed
                                                             : ErrorCode::internal,
                 .text = fmt::format(
                     "{}: NVRTC, family {}: {}", device_->name(), static_cast<int>(family), what),
                 .device = device_->name()};
  };
  const Cubin compiled = compile_text(*nvrtc_, architecture_, text);
  if (compiled.bytes.empty()) {
    return wrong(compiled.log);
  }
  const std::span<const char> cubin = compiled.bytes;
  gpu::KernelModule words(1 + (cubin.size() + 3) / 4);
  words[0] = threads_of(text);
  std::memcpy(words.data() + 1, cubin.data(), cubin.size());
  return words;
}

Status CudaCompiler::check(gpu::KernelFamily /*family*/,
                           const gpu::KernelModule& /*module*/) const {
  return {};
}

// An image has to lie at a multiple of 8 bytes.
Result<gpu::KernelHandle> CudaCompiler::load(const gpu::KernelModule& words) {
  const DriverApi& api = device_->api();
  std::vector<std::uint64_t> image((words.size() - 1) / 2 + 1);
  std::memcpy(image.data(), words.data() + 1, (words.size() - 1) * sizeof words[0]);
  CUmodule module = nullptr;
  CUresult result = api.cuModuleLoadData(&module, image.data());
  if (result != kSuccess) {
    return device_->failed("cuModuleLoadData", result);
  }
  CudaKernel kernel{.function = nullptr, .threads = words[0]};
  result = api.cuModuleGetFunction(&kernel.function, module, kEntryName);
  if (result != kSuccess) {
    return device_->failed("cuModuleGetFunction", result);
  }
  const hearth::detail::MutexLock lock(mutex_);
  kernels_.push_back(kernel);
  return static_cast<gpu::KernelHandle>(
      reinterpret_cast<std::uintptr_t>(&kernels_.back()));  // NOLINT: its address
}

void CudaCompiler::open_cache(const std::filesystem::path& /*folder*/) {}
void CudaCompiler::add_unsaved(gpu::CacheSave& /*to*/) {}

}  // namespace hearth::cuda
