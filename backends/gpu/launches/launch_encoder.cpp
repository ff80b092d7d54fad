#include "launch_encoder.hpp"

#include <utility>

namespace hearth::gpu {
namespace {

/// Scratch up to this size has two alternating halves.
constexpr std::int64_t kMostTurnBytes = std::int64_t{128} << 20;
/// Address of scratch for launches that record nothing.
constexpr std::uint64_t kNowhere = 256;

}  // namespace

Status LaunchEncoder::dispatch(const KernelKey& key,
                               KernelText text,
                               const ParameterBlock& parameters,
                               Grid grid) {
  if (terms_.only_queries) {
    is_compiling_ = is_compiling_ || !kernels_.has(key);
    return {};
  }
  // A launch that has recorded a dispatch has to be whole, so it waits for its kernels.
  const bool is_deferrable = terms_.is_deferrable && dispatches_ == 0;
  HEARTH_TRY(const KernelHandle kernel,
             is_deferrable ? kernels_.kernel_if_made(key, text) : kernels_.kernel(key, text));
  if (kernel == KernelHandle::none) {
    is_compiling_ = true;
    terms_.records = false;  // later dispatches only request their kernels
    return {};
  }
  if (!terms_.records || grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return {};
  }
  ++dispatches_;
  return ops_.dispatch(kernel, parameters, grid);
}

// A deterministic runtime makes kernels at once, so no kernel stands in for another.
bool LaunchEncoder::is_compiled_later(const KernelKey& key, KernelText text) {
  if (limits().interprets_always) {
    return true;
  }
  if (terms_.only_queries || dispatches_ > 0 || !kernels_.has_pool() ||
      !(terms_.records || terms_.is_deferrable)) {
    return false;
  }
  const Result<KernelHandle> made = kernels_.kernel_if_made(key, text);
  return made.has_value() && made.value() == KernelHandle::none;
}

Result<bool> LaunchEncoder::dispatch_made(const KernelKey& key,
                                          KernelText text,
                                          const ParameterBlock& parameters,
                                          Grid grid) {
  if (!limits().interprets_always) {
    // A stand-in that cannot be made is not used: the launch waits for its own kernel.
    const Result<KernelHandle> made = kernels_.kernel_if_made(key, text);
    if (!made.has_value() || made.value() == KernelHandle::none) {
      return false;
    }
  }
  HEARTH_TRY_STATUS(dispatch(key, text, parameters, grid));
  return true;
}

std::optional<std::int64_t> LaunchEncoder::product_workspace(const LibraryProduct& product) {
  const LibraryCall* const call = products_ != nullptr ? products_->find(product) : nullptr;
  return call == nullptr ? std::nullopt : std::optional(call->scratch_bytes());
}

Status LaunchEncoder::product_by_library(const LibraryProduct& product, std::uint64_t workspace) {
  if (!terms_.records || terms_.only_queries) {
    return {};
  }
  const LibraryCall* const call = products_ != nullptr ? products_->find(product) : nullptr;
  if (call == nullptr) {
    return Error{.code = ErrorCode::internal, .text = "the library has no call for a product"};
  }
  ParameterBlock parameters;
  parameters.add(product.a).add(product.b).add(product.y).add(product.bias).add(workspace);
  ++dispatches_;
  return ops_.dispatch(*call, parameters);
}

void LaunchEncoder::barrier() {
  if (terms_.records) {
    ops_.barrier();
  }
}

// One piece of device memory serves all launches in turn: hazard tracking of its bytes orders them.
// Launches alternate between its halves, so a launch's first write need not wait for reads of the
// launch before. A backend without a device's pool has a piece of its own.
Result<std::uint64_t> LaunchEncoder::scratch(std::int64_t size_bytes) {
  if (!terms_.records) {
    return kNowhere;
  }
  memory_->release_after(ops_.open_value());  // a second call by one launch
  const std::int64_t half = (size_bytes + 63) / 64 * 64;
  Result<std::byte*> taken = memory_->take(half <= kMostTurnBytes ? 2 * half : size_bytes);
  const bool has_halves = half <= kMostTurnBytes && taken.has_value();
  if (!taken.has_value() && half <= kMostTurnBytes) {
    taken = memory_->take(size_bytes);
  }
  is_second_turn_ = has_halves && !is_second_turn_;
  HEARTH_TRY(const std::byte* const bytes, std::move(taken));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes) +  // NOLINT: a device address
                       static_cast<std::uintptr_t>(is_second_turn_ ? half : 0);
  const ByteSpan span{address, address + static_cast<std::uint64_t>(size_bytes)};
  HEARTH_TRY_STATUS(ops_.also_touches({}, {&span, 1}));
  return address;
}

}  // namespace hearth::gpu
