// A tensor of a conformance case: its own bytes with a guarded margin, under one of the layouts
// that views can give. Values (movable, not copyable: views point into it), any thread.
// Invariants: (1) data is aligned to 64 bytes where the layout is dense; (2) bytes outside the
// elements hold the guard's pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <hearth/backends/kernel.hpp>

#include "case_values.hpp"

namespace hearth::conformance {

enum class LayoutKind : std::uint8_t {
  dense,
  transposed,  ///< Axes stored in reverse order.
  swapped,     ///< The last two axes stored in reverse order.
  gapped,      ///< Every other element, from an odd place on: strides doubled.
  reversed,    ///< Negative strides along every axis.
  repeated,    ///< Stride 0 along the first axis longer than 1: values differ from those of
               ///< the other layouts.
};
inline constexpr LayoutKind kLayoutKinds[] = {LayoutKind::dense,
                                              LayoutKind::transposed,
                                              LayoutKind::swapped,
                                              LayoutKind::gapped,
                                              LayoutKind::reversed,
                                              LayoutKind::repeated};
[[nodiscard]] std::string_view name(LayoutKind kind) noexcept;
/// Whether the kind gives `shape` a layout that no earlier kind gives.
[[nodiscard]] bool is_distinct(LayoutKind kind, const Shape& shape) noexcept;

class CaseTensor {
 public:
  /// An output: all elements hold the guard's pattern.
  CaseTensor(DType dtype, const Shape& shape);
  /// Holds `values`, in row-major order. Where the layout repeats elements, the last one written
  /// stays.
  CaseTensor(DType dtype, const Shape& shape, LayoutKind kind, const std::vector<Number>& values);
  CaseTensor(CaseTensor&&) = default;
  CaseTensor& operator=(CaseTensor&&) = default;

  [[nodiscard]] TensorView view() const noexcept { return {data_, layout_.get(), dtype_}; }
  /// The elements in row-major order.
  [[nodiscard]] std::vector<Number> values() const;
  /// All bytes, including margins and gaps.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Whether every byte before the first and after the last element is unchanged.
  [[nodiscard]] bool margins_are_whole() const noexcept;

 private:
  void place(std::int64_t element_count, std::int64_t first_element);

  DType dtype_;
  std::unique_ptr<detail::Layout> layout_;  ///< Its address outlives moves.
  std::vector<std::byte> bytes_;
  std::byte* data_ = nullptr;
  std::int64_t begin_ = 0;  ///< The end of the front margin in bytes_.
  std::int64_t end_ = 0;
};

}  // namespace hearth::conformance
