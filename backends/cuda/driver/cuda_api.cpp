#include "cuda_api.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace hearth::cuda {
namespace {

constexpr std::array kDriverNames = {"libcuda.so.1", "libcuda.so"};
constexpr std::array kNvrtcNames = {
    "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
constexpr std::array kNvrtcFolders = {"cu13/lib", "cu12/lib", "cuda_nvrtc/lib"};

template <class Function>
Status load(Function& to, const SharedLibrary& library, const char* name) {
  void* const found = library.find(name);
  if (found == nullptr) {
    return Error{
        .code = ErrorCode::not_found,
        .text = fmt::format(
            "{} lacks the function {}: it is too old; install a newer one", library.file, name)};
  }
  to = reinterpret_cast<Function>(found);  // NOLINT: so dlsym gives functions
  return {};
}

}  // namespace

#define HEARTH_CUDA_LOAD(name, parameters) HEARTH_TRY_STATUS(load(api->name, library, #name));

Result<std::shared_ptr<const DriverApi>> DriverApi::open(const std::string& folder) {
  HEARTH_TRY(const SharedLibrary library,
             open_library({.title = "driver of NVIDIA",
                           .names = kDriverNames,
                           .wheel_folders = {},
                           .remedy = "install it"},
                          folder));
  auto api = std::make_shared<DriverApi>();
  api->file = library.file;
  HEARTH_CUDA_FUNCTIONS(HEARTH_CUDA_LOAD)
  if (const CUresult result = api->cuInit(0); result != kSuccess) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("CUDA cannot start: cuInit gave {}", api->text_of(result))};
  }
  if (api->cuDriverGetVersion(&api->version) != kSuccess) {
    api->version = 0;
  }
  return std::shared_ptr<const DriverApi>(std::move(api));
}

namespace {

Result<std::shared_ptr<const NvrtcApi>> nvrtc_of(const SharedLibrary& library) {
  auto api = std::make_shared<NvrtcApi>();
  api->file = library.file;
  HEARTH_NVRTC_FUNCTIONS(HEARTH_CUDA_LOAD)
  int major = 0;
  int minor = 0;
  int count = 0;
  if (api->nvrtcVersion(&major, &minor) != 0 || api->nvrtcGetNumSupportedArchs(&count) != 0) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("{} does not report its version", library.file)};
  }
  api->version = major * 1000 + minor * 10;
  api->architectures.resize(static_cast<std::size_t>(count));
  if (api->nvrtcGetSupportedArchs(api->architectures.data()) != 0) {
    api->architectures.clear();
  }
  return std::shared_ptr<const NvrtcApi>(std::move(api));
}

}  // namespace

Result<std::shared_ptr<const NvrtcApi>> NvrtcApi::open(const std::string& folder) {
  HEARTH_TRY(const SharedLibrary library,
             open_library({.title = "NVRTC, which compiles kernels,",
                           .names = kNvrtcNames,
                           .wheel_folders = kNvrtcFolders,
                           .remedy = "install it with CUDA's toolkit or by 'pip install "
                                     "nvidia-cuda-nvrtc'"},
                          folder));
  return nvrtc_of(library);
}

Result<std::shared_ptr<const NvrtcApi>> NvrtcApi::open_copy() const {
  HEARTH_TRY(const SharedLibrary library,
             copy_library(reinterpret_cast<const void*>(nvrtcVersion)));  // NOLINT: of its code
  return nvrtc_of(library);
}
#undef HEARTH_CUDA_LOAD

std::string NvrtcApi::lack_for(int architecture, std::string_view card) const {
  const bool has_code = architectures.empty() ||
                        std::ranges::find(architectures, architecture) != architectures.end();
  return has_code ? ""
                  : fmt::format("{} has no code for sm_{}, which {} needs: install a newer NVRTC",
                                file,
                                architecture,
                                card);
}

std::string DriverApi::text_of(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != kSuccess || name == nullptr ||
      cuGetErrorString(result, &text) != kSuccess || text == nullptr) {
    return fmt::format("the error {}", result);
  }
  return fmt::format("{}: {} ({})", name, text, result);
}

bool is_sticky(CUresult result) noexcept {
  constexpr std::array kSticky = {46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
  for (const int each : kSticky) {
    if (each == result) {
      return true;
    }
  }
  return false;
}

Error failed(const DriverApi& api,
             std::string_view device,
             std::string_view call,
             CUresult result) {
  const bool is_lost = is_sticky(result);
  return {.code = is_lost                  ? ErrorCode::device_lost
                  : result == kOutOfMemory ? ErrorCode::out_of_memory
                                           : ErrorCode::kernel_failed,
          .text = fmt::format("{}: {} gave {}{}",
                              device,
                              call,
                              api.text_of(result),
                              is_lost ? "; CUDA works again only in a new process: restart the "
                                        "program, and resume from its checkpoint"
                                      : ""),
          .device = std::string(device)};
}

}  // namespace hearth::cuda
