// HostArray: numbers in host memory with a dtype and a shape, between data sets or files and a
// Tensor. A value, usually moved; its holder owns the bytes.
// Threads: a value. Invariant: bytes() holds shape().element_count() elements in row-major order.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace hearth {

class HostArray final {
 public:
  HostArray() = default;
  /// Whether the array is absent. Examples may lack inputs or targets if they have other arrays.
  [[nodiscard]] bool is_left_out() const noexcept { return shape() == Shape{0}; }
  /// Creates an array of zeros.
  ///
  /// Errors: OutOfMemory when the host lacks memory for it.
  HostArray(DType dtype, const Shape& shape, SourceLoc loc = SourceLoc::current());

  /// Copies these elements, in row-major order. Without a shape the array has one axis.
  ///
  /// Errors: ShapeError when the shape has another number of elements; OutOfMemory.
  template <class T>
  [[nodiscard]] static HostArray from(std::span<const T> values,
                                      const Shape& shape,
                                      SourceLoc loc = SourceLoc::current()) {
    return HostArray(std::as_bytes(values), dtype_of<T>, shape, loc);
  }
  template <class T>
  [[nodiscard]] static HostArray from(const std::vector<T>& values,
                                      const Shape& shape,
                                      SourceLoc loc = SourceLoc::current()) {
    static_assert(!std::is_same_v<T, bool>, "a std::vector<bool> has no elements in memory");
    return from(std::span<const T>(values), shape, loc);
  }
  template <class T>
  [[nodiscard]] static HostArray from(const std::vector<T>& values,
                                      SourceLoc loc = SourceLoc::current()) {
    return from(values, Shape{static_cast<std::int64_t>(values.size())}, loc);
  }
  /// Copies rows of equal length to an array [rows, length].
  ///
  /// Errors: ShapeError naming the first row of another length.
  template <class T>
  [[nodiscard]] static HostArray from_rows(const std::vector<std::vector<T>>& rows,
                                           SourceLoc loc = SourceLoc::current()) {
    const std::size_t length = rows.empty() ? 0 : rows.front().size();
    std::vector<T> values;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].size() != length) {
        throw_uneven_row(row, rows[row].size(), length, loc);
      }
      values.insert(values.end(), rows[row].begin(), rows[row].end());
    }
    return from(
        values, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(length)}, loc);
  }

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The elements.
  ///
  /// Errors: DtypeError when T is not the array's type.
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

  /// Gathers entries of the first axis by index, in the given order: rows of a table, or examples.
  ///
  /// Errors: ShapeError for rank 0; ArgumentError for an index out of range; OutOfMemory.
  [[nodiscard]] HostArray rows(std::span<const std::int64_t> numbers,
                               SourceLoc loc = SourceLoc::current()) const;

  /// Copies the values to a tensor.
  ///
  /// Errors: OutOfMemory when memory for the copy is lacking.
  [[nodiscard]] Tensor to(const Device& device, SourceLoc loc = SourceLoc::current()) const&;
  /// Moves the bytes into the upload, so that the device alone copies them, once.
  [[nodiscard]] Tensor to(const Device& device, SourceLoc loc = SourceLoc::current()) &&;

 private:
  HostArray(std::span<const std::byte> bytes, DType dtype, const Shape& shape, SourceLoc loc);
  [[noreturn]] static void throw_uneven_row(std::size_t row,
                                            std::size_t got,
                                            std::size_t wanted,
                                            SourceLoc loc);
  void require_dtype(DType wanted, SourceLoc loc) const;

  DType dtype_ = DType::f32;
  Shape shape_ = {0};
  std::vector<std::byte> bytes_;
};

}  // namespace hearth
