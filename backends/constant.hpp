// Constant: bytes of a device that do not change as long as they live, those of a frozen tensor.
// A kernel may keep what it makes of them, weights in the order in which it reads them say. Owned
// by the device, as are the kept bytes: they count in its budget, and go where memory runs short.
// Threads: owner only, never inside of a kernel's loops.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth {

/// Which part of a constant was brought into which form: whatever the kept bytes depend on.
struct ConstantForm {
  enum class Kind : std::uint8_t { matmul_columns, conv_weights, int_matmul_columns };
  Kind kind = Kind::matmul_columns;
  const std::byte* data = nullptr;  ///< Where the part begins.
  std::array<std::int64_t, 12> numbers = {};

  friend bool operator==(const ConstantForm&, const ConstantForm&) = default;
};

class Constant {
 public:
  Constant() = default;
  Constant(const Constant&) = delete;
  Constant& operator=(const Constant&) = delete;
  virtual ~Constant() = default;

  /// What is kept in this form, or nullptr. It stays until the kernel has run.
  [[nodiscard]] virtual const std::byte* find(const ConstantForm& form) const noexcept = 0;
  /// Room for a form that is not kept yet, to be filled before the kernel ends; or nullptr, where
  /// the device has none to spare. On a multiple of 64.
  [[nodiscard]] virtual std::byte* keep(const ConstantForm& form,
                                        std::int64_t size_bytes) noexcept = 0;
};

}  // namespace hearth
