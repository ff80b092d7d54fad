#include "cuda_compiler.hpp"

#include <charconv>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>

#include "backends/cuda/text/cuda_prelude.hpp"
#include "cubin.hpp"
#include "program_errors.hpp"

namespace hearth::cuda {
namespace {

constexpr std::size_t kNumbers = 2;  // in front of a module's cubin
constexpr std::string_view kThreads = "#define GROUP_THREADS ";
constexpr std::string_view kSharedBytes = "#define GROUP_SHARED_BYTES ";

// A number that the text defines; 0 if it does not.
unsigned number_of(std::string_view text, std::string_view definition) noexcept {
  const std::size_t at = text.find(definition);
  unsigned number = 0;
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + definition.size(), text.data() + text.size(), number);
  }
  return number;
}

// An error of the program, not of this folder.
Error wrong_program(const std::string& device, std::string_view log, std::string_view text) {
  return {.code = ErrorCode::kernel_failed, .text = program_errors(log, text), .device = device};
}

}  // namespace

Result<std::shared_ptr<CudaCompiler>> CudaCompiler::make(std::shared_ptr<const CudaDevice> device,
                                                         hearth::detail::Log* log) {
  Result<std::shared_ptr<const NvrtcApi>> nvrtc = NvrtcApi::open(device->nvidia_folders());
  const auto missing = [&device](ErrorCode code, std::string_view why) {
    return Error{.code = code,
                 .text = fmt::format("no device '{}': {}", device->name(), why),
                 .device = device->name()};
  };
  if (!nvrtc.has_value()) {
    return missing(nvrtc.error().code, nvrtc.error().text);
  }
  const std::string lack = nvrtc.value()->lack_for(device->architecture(), device->card());
  if (!lack.empty()) {
    return missing(ErrorCode::unsupported, lack);
  }
  return std::make_shared<CudaCompiler>(std::move(device), std::move(nvrtc).value(), log);
}

CudaCompiler::CudaCompiler(std::shared_ptr<const CudaDevice> device,
                           std::shared_ptr<const NvrtcApi> nvrtc,
                           hearth::detail::Log* log)
    : device_(std::move(device)),
      nvrtc_(std::move(nvrtc)),
      copies_(NvrtcCopies::of(nvrtc_)),
      log_(log),
      architecture_(architecture_of(device_->architecture())) {
  // The prelude is part of each text, so it needs no number of its own.
  constexpr int kForm = 2;  // of a module
  const std::string options = fmt::format("{} {} {}", architecture_, nvrtc_->version, kForm);
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

// A module is the number of threads, the bytes of memory that they share, then the cubin.
Result<gpu::KernelModule> CudaCompiler::compile(gpu::KernelFamily family,
                                                const std::string& text) const {
  const NvrtcCopies::Use nvrtc = copies_->take(log_);
  const Cubin compiled = compile_text(nvrtc.api(), architecture_, text);
  if (compiled.bytes.empty() && family == gpu::KernelFamily::custom) {
    return wrong_program(device_->name(), compiled.log, text);
  }
  if (compiled.bytes.empty()) {
    return Error{
        .code = ErrorCode::internal,
        .text = fmt::format(
            "{}: NVRTC, family {}: {}", device_->name(), static_cast<int>(family), compiled.log),
        .device = device_->name()};
  }
  const std::span<const char> cubin = compiled.bytes;
  gpu::KernelModule words(kNumbers + (cubin.size() + 3) / 4);
  words[0] = number_of(text, kThreads);
  words[1] = number_of(text, kSharedBytes);
  std::memcpy(words.data() + kNumbers, cubin.data(), cubin.size());
  return words;
}

Status CudaCompiler::check(gpu::KernelFamily /*family*/,
                           const gpu::KernelModule& /*module*/) const {
  return {};
}

Result<gpu::KernelHandle> CudaCompiler::load(const gpu::KernelModule& words) {
  static_cast<void>(device_->api());  // makes the context current
  HEARTH_TRY(const CudaKernel* const kernel,
             device_->context().load(
                 device_->name(),
                 std::span(words).subspan(kNumbers),
                 kEntryName,
                 {.function = nullptr, .threads = words[0], .shared_bytes = words[1]}));
  return static_cast<gpu::KernelHandle>(
      reinterpret_cast<std::uintptr_t>(kernel));  // NOLINT: its address
}

void CudaCompiler::open_cache(const std::filesystem::path& /*folder*/) {}
void CudaCompiler::add_unsaved(gpu::CacheSave& /*to*/) {}

}  // namespace hearth::cuda
