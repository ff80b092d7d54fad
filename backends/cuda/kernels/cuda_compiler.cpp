#include "cuda_compiler.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

#include "backends/cuda/text/cuda_prelude.hpp"

namespace hearth::cuda {
namespace {

// Cubins of sm_90 alone may use what the letter stands for.
std::string architecture_of(int number) {
  return fmt::format("sm_{}{}", number, number == 90 ? "a" : "");
}

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

// Destroys a program of NVRTC.
struct Program {
  const NvrtcApi& api;
  nvrtcProgram handle = nullptr;

  explicit Program(const NvrtcApi& its_api) noexcept : api(its_api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle != nullptr) {
      api.nvrtcDestroyProgram(&handle);
    }
  }

  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (api.nvrtcGetProgramLogSize(handle, &size) != 0 || size == 0) {
      return {};
    }
    std::string text(size, '\0');
    static_cast<void>(api.nvrtcGetProgramLog(handle, text.data()));
    text.resize(std::strlen(text.c_str()));
    return text;
  }
};

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

// A module is the number of threads, then the cubin. Floating point is not contracted, so that a
// text defines its bits: only fma() is contracted.
Result<gpu::KernelModule> CudaCompiler::compile(gpu::KernelFamily family,
                                                const std::string& text) const {
  const auto wrong = [&](std::string_view what) {
    return Error{.code = family == gpu::KernelFamily::custom ? ErrorCode::kernel_failed
                                                             : ErrorCode::internal,
                 .text = fmt::format(
                     "{}: NVRTC, family {}: {}", device_->name(), static_cast<int>(family), what),
                 .device = device_->name()};
  };
  Program program(*nvrtc_);
  if (nvrtc_->nvrtcCreateProgram(&program.handle, text.c_str(), "kernel.cu", 0, nullptr, nullptr) !=
      0) {
    return wrong("no program");
  }
  const std::string architecture = fmt::format("--gpu-architecture={}", architecture_);
  const std::array options = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  if (nvrtc_->nvrtcCompileProgram(
          program.handle, static_cast<int>(options.size()), options.data()) != 0) {
    return wrong(program.log());
  }
  std::size_t size = 0;
  if (nvrtc_->nvrtcGetCUBINSize(program.handle, &size) != 0 || size == 0) {
    return wrong("no cubin");
  }
  gpu::KernelModule words(1 + (size + 3) / 4);
  words[0] = threads_of(text);
  std::vector<char> cubin(size);
  if (nvrtc_->nvrtcGetCUBIN(program.handle, cubin.data()) != 0) {
    return wrong("no cubin");
  }
  std::memcpy(words.data() + 1, cubin.data(), size);
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
