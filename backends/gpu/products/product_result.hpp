// Stores the sums of a product: to memory as they are, or through an epilogue, the pointwise
// expression behind the product. The families of products (product.hpp) find a sum's place and add
// the bias. The rest is here, so every product takes the same epilogues. A sum is rounded to the
// product's type first: an epilogue gives the bits of the two separate ops. Values on the stack,
// which borrow the call. Threads: any.
//
// Functions for a family's put() and put_many(), with C the type of sums:
//   void store_result(INDEX place, C sum)        place: the element's in the result, row-major
//   void store_results(INDEX place, C sums[w])   w = width(), if above 1: neighbours from there on
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/encoder/device_limits.hpp"
#include "backends/gpu/encoder/kernel_key.hpp"
#include "backends/gpu/encoder/parameter_block.hpp"
#include "backends/gpu/pointwise/pointwise_text.hpp"
#include "backends/gpu/space/strided.hpp"

namespace hearth::gpu {

/// Returns whether a product supports the call's epilogue, if it has one.
[[nodiscard]] Support supports_epilogue(const KernelCall& call, const DeviceLimits& limits);

class ProductResult final {
 public:
  /// Requires a call that supports_epilogue(), with elements. `dtype` is that of the op's own
  /// result.
  ProductResult(const KernelCall& call, DType dtype, const DeviceLimits& limits) noexcept;

  /// True if `width` neighbours can be stored at once, when they lie in one row of the result and
  /// begin at a multiple of `width`.
  [[nodiscard]] bool takes(int width) const noexcept;
  /// True if `width` neighbours can be stored at once, in rows of any length, when their place in
  /// the result is a multiple of `width`.
  [[nodiscard]] bool takes_ragged(int width) const noexcept;
  /// Requires takes(width), or 1.
  void set_width(int width) noexcept;
  /// Requires takes_ragged(width).
  void set_ragged_width(int width) noexcept {
    width_ = width;
    is_ragged_ = true;
  }
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] bool has_epilogue() const noexcept { return call_->epilogue != nullptr; }
  /// Largest reach of the epilogue's operands and the result, in elements.
  [[nodiscard]] std::int64_t reach() const noexcept { return reach_; }

  void add_words(KernelKey& key) const noexcept;
  /// Adds the parameters, in the order of members().
  void add_parameters(ParameterBlock& to, bool is_wide) const noexcept;
  [[nodiscard]] std::string members(bool is_wide) const;
  [[nodiscard]] std::string text(bool is_wide) const;

 private:
  [[nodiscard]] std::string epilogue_text(bool is_wide) const;
  [[nodiscard]] std::string find_function(bool is_wide) const;
  [[nodiscard]] std::string store_one() const;
  [[nodiscard]] std::string store_many() const;
  [[nodiscard]] std::string find_call(std::string_view place) const;
  [[nodiscard]] std::string rounded(std::string_view sum) const;
  [[nodiscard]] bool has_strided() const noexcept;
  [[nodiscard]] bool is_vector_ready(const TensorView& view, int width) const noexcept;

  const KernelCall* call_;
  DType dtype_;
  bool is_rolled_;
  int width_ = 1;
  bool is_ragged_ = false;
  std::int64_t reach_ = 0;
  StridedSpace<kMostExpressionInputs> space_;  // of the epilogue's operands
  std::array<Access, kMostExpressionInputs> access_{};
};

}  // namespace hearth::gpu
