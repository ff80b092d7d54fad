// Interns the custom kernels of one runtime: each CustomKernel that has run gets a number for its
// code and gradient. Private to runtime. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/custom_code.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/interner.hpp>

namespace hearth {

class Tensor;
struct CustomGradient;

/// Code and gradient of one CustomKernel. Immutable.
struct CustomDefinition {
  CustomCode code;
  /// Null if the kernel has no gradient.
  std::function<std::vector<Tensor>(const CustomGradient&)> vjp;
};
using CustomRef = std::shared_ptr<const CustomDefinition>;

namespace detail {
struct CustomPolicy {
  using Id = hearth::detail::Id<struct CustomTag>;
  using Key = CustomRef;
  using Entry = CustomRef;
  static std::uint64_t hash(const CustomRef& kernel) noexcept {
    return reinterpret_cast<std::uintptr_t>(kernel.get()) * 0x9e3779b97f4a7c15U;  // NOLINT: a hash
  }
  static bool equal(const CustomRef& entry, const CustomRef& kernel) noexcept {
    return entry == kernel;
  }
  static CustomRef make(const CustomRef& kernel) { return kernel; }
  static Error full(std::uint32_t cap) {
    return Error{
        .code = ErrorCode::out_of_memory,
        .text = fmt::format("custom kernels: {} are there; make each once, and keep it", cap)};
  }
};
}  // namespace detail

using CustomId = detail::CustomPolicy::Id;
using CustomTable = detail::Interner<detail::CustomPolicy>;
inline constexpr std::uint32_t kMostCustomKernels = 1U << 14U;

}  // namespace hearth
