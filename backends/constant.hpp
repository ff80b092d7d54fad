// Constant: device bytes that never change while they live, those of a frozen tensor. A kernel may
// cache a form derived from them, such as packed weights. The device owns the constant and the
// cached bytes, which count in its budget and are evicted when memory is short.
// Threads: owner only, never inside a kernel's loops.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth {

/// Key of a cached form: part of the constant, kind of form, and all numbers that the bytes depend
/// on.
struct ConstantForm {
  enum class Kind : std::uint8_t { matmul_columns, conv_weights, int_matmul_columns };
  Kind kind = Kind::matmul_columns;
  const std::byte* data = nullptr;  ///< First byte of the part.
  std::array<std::int64_t, 12> numbers = {};

  friend bool operator==(const ConstantForm&, const ConstantForm&) = default;
};

class Constant {
 public:
  Constant() = default;
  Constant(const Constant&) = delete;
  Constant& operator=(const Constant&) = delete;
  virtual ~Constant() = default;

  /// Returns the cached bytes of this form, or nullptr. They stay valid until the kernel has run.
  [[nodiscard]] virtual const std::byte* find(const ConstantForm& form) const noexcept = 0;
  /// Allocates room for a form that is not cached, aligned to 64; the kernel fills it before it
  /// ends. Returns nullptr if the device has no memory to spare.
  [[nodiscard]] virtual std::byte* keep(const ConstantForm& form,
                                        std::int64_t size_bytes) noexcept = 0;
};

}  // namespace hearth
