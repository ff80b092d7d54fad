// The index space of a kernel that moves elements, and the GLSL that finds an operand's element.
// Neighbouring axes are merged where all operands allow it. Private to backends/gpu. Values.
// Threads: any. Invariants: those of MergedAxes, and a space of one element has one axis, of size
// and stride 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/merged_axes.hpp>
#include <hearth/runtime/base/shape.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"

namespace hearth::gpu {

struct MergedSpace : hearth::detail::MergedAxes<3> {
  std::int64_t element_count = 1;

  /// strides[i] are those of operand i over `shape`, which has elements.
  MergedSpace(const Shape& shape, std::initializer_list<Strides> strides) noexcept
      : MergedAxes(shape, std::span(strides.begin(), strides.size())),
        element_count(shape.element_count()) {}

  /// Merges neighbouring elements into ones of up to 16 bytes. The first `moved` operands have them
  /// next to one another, the others have one element for all. `bits` is the bitwise or of all
  /// other values that must be multiples of the new size, in bytes, above all addresses. Returns
  /// the bytes of the new element.
  [[nodiscard]] int widen(std::size_t moved, int element_bytes, std::uint64_t bits) noexcept;
};

/// True if indices and offsets up to `most` need 64 bits. The limit leaves room for the overhang of
/// a group.
[[nodiscard]] constexpr bool is_wide(std::int64_t most) noexcept {
  return most >= (std::int64_t{1} << 31) - (std::int64_t{1} << 20);
}

/// Adds an INDEX of the shader.
inline void add_index(ParameterBlock& block, std::int64_t value, bool wide) noexcept {
  if (wide) {
    block.add(value);
  } else {
    block.add(static_cast<std::int32_t>(value));
  }
}

/// Adds the parameters of walk(): the size of each axis behind the first, then the values of each
/// of the first `operands` operands. These are the offset of element [0, 0, ...] from the operand's
/// lowest element, and the strides.
void add_walk(ParameterBlock& block, const MergedSpace& space, std::size_t operands, bool wide);
/// Declares these parameters. Operands are named by a letter each: "xy".
[[nodiscard]] std::string glsl_walk_members(int rank, std::string_view operands);
/// void walk(INDEX i, out INDEX x, out INDEX y): the offsets of element i, none below 0. Needs
/// UINDEX.
[[nodiscard]] std::string glsl_walk(int rank, std::string_view operands);
/// The unsigned INDEX.
[[nodiscard]] constexpr std::string_view glsl_uindex(bool wide) noexcept {
  return wide ? "#define UINDEX uint64_t\n" : "#define UINDEX uint\n";
}
/// UNIT, LOAD_UNIT(address, i) and STORE_UNIT(address, i, value) of 1, 2, 4, 8 or 16 bytes, bit by
/// bit.
[[nodiscard]] std::string_view glsl_unit(int unit_bytes) noexcept;

/// The address of a view's lowest element, the origin of walk().
[[nodiscard]] inline std::uint64_t lowest_address(const TensorView& view,
                                                  std::int64_t reach_down,
                                                  int element_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(view.data);  // NOLINT: a device address
  return first - static_cast<std::uint64_t>(reach_down * element_bytes);
}

}  // namespace hearth::gpu
