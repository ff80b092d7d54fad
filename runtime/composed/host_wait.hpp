// Reads of a few numbers inside of an op whose result's shape depends on values. Private to
// runtime. Threads: the caller's, which waits.
#pragma once

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/tensor.hpp>

#include "runtime/ops/op_parts.hpp"

#include <cstdint>
#include <vector>

namespace hearth::detail {

/// How such an op waits: under the caller's options, or by default until the stream's deadline.
class HostWait final {
 public:
  HostWait() = default;
  explicit HostWait(const WaitOptions& options) noexcept : options_(&options) {}

  /// Reads the values. Errors: as Tensor::to_vector().
  template <class T>
  [[nodiscard]] std::vector<T> values_of(const Tensor& tensor, SourceLoc loc) const {
    return options_ == nullptr ? tensor.to_vector<T>(loc) : tensor.to_vector<T>(*options_, loc);
  }

 private:
  const WaitOptions* options_ = nullptr;
};

/// The places of the true elements of a mask [n], in order: i64 [count]. Waits for their number.
[[nodiscard]] Tensor true_places(const Tensor& mask, const HostWait& wait, const At& at);

}  // namespace hearth::detail
