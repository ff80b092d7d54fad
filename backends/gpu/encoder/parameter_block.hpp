// The parameters of a dispatch as bytes, in the order of the members that its shader declares
// (glsl_parameters). A value on the stack. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/assert.hpp>

namespace hearth::gpu {

/// A device address, as a number.
[[nodiscard]] inline std::uint64_t address_of(const std::byte* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data);  // NOLINT: a device address
}
/// Address of element [0, 0, ...].
[[nodiscard]] inline std::uint64_t address_of(const TensorView& view) noexcept {
  return address_of(view.data);
}

class ParameterBlock final {
 public:
  static constexpr std::size_t kMostBytes = 2048;

  /// Adds a value, aligned to its size, as scalar block layout requires.
  template <class T>
  requires std::is_arithmetic_v<T> ParameterBlock& add(T value) noexcept {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    size_ = (size_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    HEARTH_ASSERT(size_ + sizeof(T) <= kMostBytes, "a shader's parameters are too long");
    std::memcpy(bytes_.data() + size_, &value, sizeof(T));
    size_ += sizeof(T);
    return *this;
  }
  /// Adds the address of element [0, 0, ...], as a uint64_t.
  ParameterBlock& add(const TensorView& view) noexcept { return add(address_of(view)); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_; }

 private:
  std::array<std::byte, kMostBytes> bytes_;  // only added bytes have a value
  std::size_t size_ = 0;
};

}  // namespace hearth::gpu
