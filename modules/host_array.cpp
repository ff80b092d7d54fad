#include <hearth/modules/host_array.hpp>

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/device.hpp>

#include <fmt/format.h>

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

Tensor HostArray::to(const Device& device, SourceLoc loc) && {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes_));
  const std::span<const std::byte> view(*owner);
  return Tensor::from_owned_bytes(device, view, std::move(owner), dtype_, shape_, loc);
}

void HostArray::require_dtype(DType wanted, SourceLoc loc) const {
  if (dtype_ != wanted) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format(
                          "HostArray: the values are {}, asked for {}", name(dtype_), name(wanted)),
                      .op = "HostArray",
                      .location = loc});
  }
}

}  // namespace hearth
