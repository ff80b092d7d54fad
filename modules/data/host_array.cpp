#include <hearth/modules/host_array.hpp>

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace hearth {

HostArray::HostArray(DType dtype, const Shape& shape, SourceLoc loc)
    : dtype_(dtype),
      shape_(shape),
      bytes_(
          host_vector<std::byte>(
              static_cast<std::size_t>(shape.element_count() * size_bytes(dtype)), "HostArray", loc)
              .value()) {}

HostArray::HostArray(std::span<const std::byte> bytes,
                     DType dtype,
                     const Shape& shape,
                     SourceLoc loc)
    : dtype_(dtype), shape_(shape) {
  const auto count = static_cast<std::int64_t>(bytes.size()) / size_bytes(dtype);
  if (count != shape.element_count()) {
    throw_error(Error{
        .code = ErrorCode::shape_mismatch,
        .text = fmt::format("HostArray: {} values do not fill {}", count, describe(dtype, shape)),
        .op = "HostArray",
        .location = loc});
  }
  bytes_ = host_copy(bytes, "HostArray", loc).value();
}

void HostArray::throw_uneven_row(std::size_t row,
                                 std::size_t got,
                                 std::size_t wanted,
                                 SourceLoc loc) {
  throw_error(Error{
      .code = ErrorCode::shape_mismatch,
      .text = fmt::format("HostArray: row {} has {} values, those before {}", row, got, wanted),
      .op = "HostArray",
      .location = loc});
}

HostArray HostArray::rows(std::span<const std::int64_t> numbers, SourceLoc loc) const {
  if (shape_.rank() == 0) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = "HostArray: one number has no rows",
                      .op = "HostArray",
                      .location = loc});
  }
  Shape shape = shape_;
  shape.set(0, static_cast<std::int64_t>(numbers.size()));
  HostArray result(dtype_, shape, loc);
  const std::size_t row_bytes =
      shape_[0] == 0 ? 0 : bytes_.size() / static_cast<std::size_t>(shape_[0]);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= shape_[0]) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format(
                    "HostArray: there is no row {} in {}", numbers[i], describe(dtype_, shape_)),
                .op = "HostArray",
                .location = loc});
    }
    const auto from = bytes().subspan(static_cast<std::size_t>(numbers[i]) * row_bytes, row_bytes);
    std::ranges::copy(from, result.bytes_.begin() + static_cast<std::ptrdiff_t>(i * row_bytes));
  }
  return result;
}

Tensor HostArray::to(const Device& device, SourceLoc loc) const& {
  return Tensor::from_bytes(device, bytes_, dtype_, shape_, loc);
}

Tensor HostArray::to(const Device& device, SourceLoc loc) && {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes_));
  const std::span<const std::byte> view(*owner);
  return Tensor::from_owned_bytes(device, view, std::move(owner), dtype_, shape_, loc);
}

void HostArray::require_dtype(DType wanted, SourceLoc loc) const {
  if (dtype_ != wanted) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format(
                          "HostArray: the values are {}, requested {}", name(dtype_), name(wanted)),
                      .op = "HostArray",
                      .location = loc});
  }
}

}  // namespace hearth
