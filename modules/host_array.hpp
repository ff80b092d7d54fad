// HostArray: numbers in the program's own memory, with a type and a shape: what data sets give and
// files hold, on its way to a Tensor. A value, moved around; its holder owns the bytes.
// Threads: a value. Invariant: bytes() holds shape().element_count() elements in row-major order.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace hearth {

class HostArray final {
 public:
  HostArray() = default;
  /// All zero. Errors: OutOfMemory when the host has no room for it.
  HostArray(DType dtype, const Shape& shape, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The elements. Errors: DtypeError when T is not the array's type.
  template <class T>
  [[nodiscard]] std::span<T> values(SourceLoc loc = SourceLoc::current()) {
    require_dtype(dtype_of<T>, loc);
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> values(SourceLoc loc = SourceLoc::current()) const {
    require_dtype(dtype_of<T>, loc);
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  /// A tensor with these values; the bytes move along and are copied once, by the device.
  [[nodiscard]] Tensor to(const Device& device, SourceLoc loc = SourceLoc::current()) &&;

 private:
  void require_dtype(DType wanted, SourceLoc loc) const;

  DType dtype_ = DType::f32;
  Shape shape_ = {0};
  std::vector<std::byte> bytes_;
};

}  // namespace hearth
