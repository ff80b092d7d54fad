#include <hearth/modules/onnx_value.hpp>

#include <fmt/format.h>

#include <hearth/runtime/base/error.hpp>

namespace hearth {
namespace {

[[noreturn]] void throw_kind(const OnnxValue& value, std::string_view wanted, SourceLoc loc) {
  const std::string_view is = value.is_none()       ? "nothing"
                              : value.is_sequence() ? "a sequence"
                              : value.has_tensor()  ? "a tensor on a device"
                                                    : "elements on the host";
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("OnnxValue: it is {}, not {}", is, wanted),
                    .location = loc});
}

}  // namespace

OnnxValue::OnnxValue(Tensor tensor, OnnxType type)
    : type_(type == OnnxType::undefined && tensor.is_valid() ? onnx_type_of(tensor.dtype()) : type),
      tensor_(std::move(tensor)) {}

OnnxValue OnnxValue::sequence(std::vector<OnnxValue> values, OnnxType type) {
  OnnxValue result;
  result.type_ = type;
  result.sequence_ = std::make_shared<const std::vector<OnnxValue>>(std::move(values));
  return result;
}

const Shape& OnnxValue::shape(SourceLoc loc) const {
  if (tensor_.is_valid()) {
    return tensor_.shape(loc);
  }
  if (host_ == nullptr) {
    throw_kind(*this, "a tensor", loc);
  }
  return host_->shape;
}

const Tensor& OnnxValue::tensor(SourceLoc loc) const {
  if (!tensor_.is_valid()) {
    throw_kind(*this, "a tensor on a device", loc);
  }
  return tensor_;
}

const OnnxHostArray& OnnxValue::host(SourceLoc loc) const {
  if (host_ == nullptr) {
    throw_kind(*this, "elements on the host", loc);
  }
  return *host_;
}

const std::vector<OnnxValue>& OnnxValue::items(SourceLoc loc) const {
  if (sequence_ == nullptr) {
    throw_kind(*this, "a sequence", loc);
  }
  return *sequence_;
}

}  // namespace hearth
