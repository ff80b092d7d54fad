// Axes that a shader walks together, with the strides of several operands along each, and the GLSL
// that maps an index to offsets. Neighbouring axes are merged where all operands allow it. Values.
// Threads: any. Invariants: (1) no axis has size 1, except those of pad(); (2) the last axis is the
// fastest; (3) divisions by sizes are multiplications, unless indices are wide.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <hearth/backends/merged_axes.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"
#include "strided.hpp"

namespace hearth::gpu {

/// a / b, rounded up.
[[nodiscard]] constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

/// The smallest power of two that is not below `value`.
[[nodiscard]] constexpr std::int64_t power_from(std::int64_t value) noexcept {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(value)));
}

class AxisList final {
 public:
  static constexpr int kMostOperands = 8;

  explicit AxisList(int operand_count) noexcept {
    axes_.operand_count = static_cast<std::size_t>(operand_count);
  }

  /// Appends a faster axis; merges it with the last one if the strides of all operands fit.
  void push(std::int64_t size, std::span<const std::int64_t> strides) noexcept;
  /// Appends axes of size 1 up to `rank`, so that lower ranks share a shader.
  void pad(int rank) noexcept { axes_.pad(rank, 0); }

  [[nodiscard]] int rank() const noexcept { return axes_.rank; }
  [[nodiscard]] int operand_count() const noexcept { return static_cast<int>(axes_.operand_count); }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t size(int axis) const noexcept {
    return axes_.size[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] std::int64_t stride(int axis, int operand) const noexcept {
    return axes_.stride[static_cast<std::size_t>(operand)][static_cast<std::size_t>(axis)];
  }
  /// Size of the last axis, and its stride; 1 and 0 without axes.
  [[nodiscard]] std::int64_t inner_size() const noexcept {
    return rank() > 0 ? axes_.inner_size() : 1;
  }
  [[nodiscard]] std::int64_t inner_stride(int operand) const noexcept {
    return rank() > 0 ? axes_.inner_stride(static_cast<std::size_t>(operand)) : 0;
  }
  /// Distance from the operand's lowest element to its highest.
  [[nodiscard]] std::int64_t reach(int operand) const noexcept {
    return axes_.reach(static_cast<std::size_t>(operand));
  }
  /// True if `pack` elements along the last axis are contiguous in this operand, and all other
  /// strides are multiples of `pack`.
  [[nodiscard]] bool has_packs(int operand, std::int64_t pack) const noexcept;
  /// True if all strides are multiples of `pack`.
  [[nodiscard]] bool steps_packs(int operand, std::int64_t pack) const noexcept;

  /// Adds the members of glsl_members(), in their order.
  void add_to(ParameterBlock& parameters, bool wide) const noexcept;
  /// "int NAME_n1; ..." for glsl_parameters().
  [[nodiscard]] std::string glsl_members(std::string_view name, bool wide) const;
  /// Declares `void NAME_places(INDEX i, out INDEX o0, ...)`, an offset for each operand. Needs
  /// glsl_divide().
  [[nodiscard]] std::string glsl_places(std::string_view name, bool wide) const;

 private:
  hearth::detail::MergedAxes<kMostOperands> axes_;
  std::int64_t count_ = 1;
};

/// Adds an index as the prelude's INDEX.
inline void add_index(ParameterBlock& parameters, bool wide, std::int64_t value) noexcept {
  if (wide) {
    parameters.add(value);
  } else {
    parameters.add(static_cast<std::int32_t>(value));
  }
}

}  // namespace hearth::gpu
