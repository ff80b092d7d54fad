// RequestInput: one input of a request to a ModelServer, and HostRows: one output of its answer.
// Axis 0 of an input counts the request's rows. An input given by value belongs to the whole batch
// instead: requests with equal values share a batch.
// Values. Threads: one at a time; bytes and tensors are shared and must not change.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// Elements in host memory, in row-major order.
struct HostRows {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  /// Returns the elements.
  ///
  /// Errors: DtypeError if T is not the type of the elements.
  template <class T>
  [[nodiscard]] std::vector<T> values(SourceLoc loc = SourceLoc::current()) const {
    require_dtype(dtype_of<T>, loc);
    std::vector<T> all(bytes.size() / sizeof(T));
    if (!all.empty()) {
      std::memcpy(all.data(), bytes.data(), bytes.size());
    }
    return all;
  }

 private:
  void require_dtype(DType wanted, SourceLoc loc) const;
};

class RequestInput {
 public:
  /// Rows on a device. A server copies them to the device that runs the request.
  RequestInput(Tensor rows);  // NOLINT(google-explicit-constructor): an input is written as it is
  /// Rows in host memory: `{pixels, {1, 784}}`.
  ///
  /// Errors: ShapeError if the number of values is not that of the shape.
  template <Element T>
  requires(!std::is_same_v<T, bool>)
      RequestInput(std::vector<T> values, const Shape& shape, SourceLoc loc = SourceLoc::current())
      : RequestInput(std::make_shared<const std::vector<T>>(std::move(values)), shape, loc) {}
  /// Rows of bytes that `owner` keeps alive.
  ///
  /// Errors: ShapeError if the number of bytes is not that of the shape.
  RequestInput(std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner,
               DType dtype,
               const Shape& shape,
               SourceLoc loc = SourceLoc::current());

  /// Returns this input as one that the batch shares: its values are part of the signature. For
  /// inputs that decide shapes. Axis 0 need not count rows.
  ///
  /// Errors: ArgumentError for an input on a device.
  [[nodiscard]] RequestInput by_value(SourceLoc loc = SourceLoc::current()) &&;

  [[nodiscard]] bool is_by_value() const noexcept { return is_by_value_; }
  [[nodiscard]] bool is_on_host() const noexcept { return !tensor_.is_valid(); }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }

 private:
  template <class T>
  RequestInput(std::shared_ptr<const std::vector<T>> values, const Shape& shape, SourceLoc loc)
      : RequestInput(std::as_bytes(std::span<const T>(*values)), values, dtype_of<T>, shape, loc) {}

  DType dtype_ = DType::f32;
  bool is_by_value_ = false;
  Shape shape_;
  std::span<const std::byte> bytes_;  // into owner_
  std::shared_ptr<const void> owner_;
  Tensor tensor_;
};

namespace detail {

/// Returns the number of rows that all inputs have.
///
/// Errors: ArgumentError for no input, an input without axis 0, no row, or different numbers.
[[nodiscard]] std::int64_t row_count(std::span<const RequestInput> inputs, SourceLoc loc);
/// Returns a text that is equal for requests which may share a batch: shapes without axis 0, types,
/// places and shared values.
[[nodiscard]] std::string signature_key(std::span<const RequestInput> inputs);
/// Returns the inputs without their rows, for people: "f32[*, 784]".
[[nodiscard]] std::string describe_signature(std::span<const RequestInput> inputs);

}  // namespace detail
}  // namespace hearth
