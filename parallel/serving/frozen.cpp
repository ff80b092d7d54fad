#include <hearth/parallel/frozen.hpp>

#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace hearth::detail {

void Freezing::take(const std::string& path, Tensor& tensor, SourceLoc loc) {
  require_tensor("freeze", path, tensor, loc);
  require_untracked("freeze", path, tensor, loc);
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

void require_alike(const std::vector<NamedTensor>& served,
                   const std::vector<NamedTensor>& next,
                   SourceLoc loc) {
  const auto refuse = [loc](const std::string& path, const std::string& text) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("ServedModel::publish: tensor '{}' {}", path, text),
                      .op = "ServedModel::publish",
                      .module_path = path,
                      .location = loc});
  };
  const auto described = [](const Tensor& tensor) {
    return describe(tensor.dtype(), tensor.shape());
  };
  const auto find = [](const std::vector<NamedTensor>& all, const std::string& name) {
    return std::ranges::find(all, name, &NamedTensor::name);
  };
  for (std::size_t i = 0; i < served.size(); ++i) {
    const NamedTensor& wanted = served[i];
    const auto found = i < next.size() && next[i].name == wanted.name
                           ? next.begin() + static_cast<std::ptrdiff_t>(i)
                           : find(next, wanted.name);
    if (found == next.end()) {
      refuse(wanted.name, fmt::format("is missing: expected {}", described(wanted.tensor)));
    }
    if (described(found->tensor) != described(wanted.tensor)) {
      refuse(wanted.name,
             fmt::format("is {}: expected {}, as served until now",
                         described(found->tensor),
                         described(wanted.tensor)));
    }
  }
  for (const NamedTensor& given : next) {
    if (next.size() != served.size() && find(served, given.name) == served.end()) {
      refuse(given.name,
             fmt::format("({}) belongs to no parameter of the model that is served",
                         described(given.tensor)));
    }
  }
}

}  // namespace hearth::detail
