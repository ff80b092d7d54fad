#include <hearth/parallel/frozen.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

namespace hearth::detail {

void Freezing::take(const std::string& path, Tensor& tensor, SourceLoc loc) {
  if (!tensor.is_valid()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("freeze: {} is an empty tensor", path),
                      .op = "freeze",
                      .module_path = path,
                      .location = loc});
  }
  tensor.set_path(path);
  const Device device = tensor.device();
  if (!device_.is_valid()) {
    device_ = device;
  } else if (device != device_) {
    throw_error(Error{.code = ErrorCode::device_mismatch,
                      .text = fmt::format("freeze: {} is on {}, the weights before it on {}",
                                          path,
                                          device.name(),
                                          device_.name()),
                      .op = "freeze",
                      .module_path = path,
                      .location = loc});
  }
  tensor = tensor.detach();
  freeze_tensor(tensor);
  if (tensor.element_count() > 0) {
    Tensor corner = tensor;
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      corner = slice(Arg(corner, loc), axis, {.start = 0, .stop = 1});
    }
    corners_.push_back(corner.read_bytes(loc));
  }
}

Device Freezing::finish(SourceLoc loc) {
  if (!device_.is_valid()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "freeze: the model has no tensors",
                      .op = "freeze",
                      .location = loc});
  }
  for (Pending<std::vector<std::byte>>& corner : corners_) {
    corner.wait().value();
  }
  device_.catch_up_later(loc).get();
  return device_;
}

}  // namespace hearth::detail
