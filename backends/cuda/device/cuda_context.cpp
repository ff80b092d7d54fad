#include "cuda_context.hpp"

#include <cstring>
#include <vector>

#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::cuda {
namespace {

struct Contexts {
  hearth::detail::Mutex mutex;
  std::map<CUdevice, std::weak_ptr<CudaContext>> of_cards HEARTH_GUARDED_BY(mutex);
};

// Never destroyed: abandoned objects may release a context when the process ends.
Contexts& contexts() noexcept {
  static auto* const objects = new Contexts();  // NOLINT: for the whole process
  return *objects;
}

// The context's flags are set only while no other library of the process holds it.
Result<CUcontext> retained(const DriverApi& api, std::string_view device, CUdevice card) {
  constexpr unsigned kBlockingSync = 4;
  unsigned flags = 0;
  int is_active = 0;
  CUresult result = api.cuDevicePrimaryCtxGetState(card, &flags, &is_active);
  if (result != kSuccess) {
    return failed(api, device, "cuDevicePrimaryCtxGetState", result);
  }
  if (is_active == 0) {
    result = api.cuDevicePrimaryCtxSetFlags_v2(card, kBlockingSync);
    if (result != kSuccess) {
      return failed(api, device, "cuDevicePrimaryCtxSetFlags", result);
    }
  }
  CUcontext context = nullptr;
  result = api.cuDevicePrimaryCtxRetain(&context, card);
  if (result != kSuccess) {
    return failed(api, device, "cuDevicePrimaryCtxRetain", result);
  }
  return context;
}

}  // namespace

Result<std::shared_ptr<CudaContext>> CudaContext::of(std::shared_ptr<const DriverApi> api,
                                                     std::string_view device,
                                                     CUdevice handle) {
  Contexts& all = contexts();
  const hearth::detail::MutexLock lock(all.mutex);
  std::weak_ptr<CudaContext>& known = all.of_cards[handle];
  if (std::shared_ptr<CudaContext> context = known.lock()) {
    return context;
  }
  HEARTH_TRY(const CUcontext context, retained(*api, device, handle));
  auto made = std::make_shared<CudaContext>(std::move(api), handle, context);
  known = made;
  return made;
}

CudaContext::CudaContext(std::shared_ptr<const DriverApi> api,
                         CUdevice card,
                         CUcontext context) noexcept
    : api_(std::move(api)), card_(card), context_(context) {}

CudaContext::~CudaContext() {
  api_->cuDevicePrimaryCtxRelease_v2(card_);
}

// An image has to lie at a multiple of 8 bytes.
Result<const CudaKernel*> CudaContext::load(std::string_view device,
                                            std::span<const std::uint32_t> cubin,
                                            const char* entry,
                                            CudaKernel kernel) {
  constexpr int kMostDynamicBytes = 8;
  const Key key(xxh64(std::as_bytes(cubin)), cubin.size());
  const hearth::detail::MutexLock lock(mutex_);
  if (const auto found = kernels_.find(key); found != kernels_.end()) {
    return &found->second;
  }
  std::vector<std::uint64_t> image(cubin.size() / 2 + 1);
  std::memcpy(image.data(), cubin.data(), cubin.size_bytes());
  CUmodule module = nullptr;
  CUresult result = api_->cuModuleLoadData(&module, image.data());
  if (result != kSuccess) {
    return failed(*api_, device, "cuModuleLoadData", result);
  }
  result = api_->cuModuleGetFunction(&kernel.function, module, entry);
  if (result != kSuccess) {
    return failed(*api_, device, "cuModuleGetFunction", result);
  }
  if (kernel.shared_bytes > 0) {
    result = api_->cuFuncSetAttribute(
        kernel.function, kMostDynamicBytes, static_cast<int>(kernel.shared_bytes));
    if (result != kSuccess) {
      return failed(*api_, device, "cuFuncSetAttribute", result);
    }
  }
  return &kernels_.emplace(key, kernel).first->second;
}

}  // namespace hearth::cuda
