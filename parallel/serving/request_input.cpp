#include <hearth/parallel/request_input.hpp>

#include <hearth/runtime/device.hpp>

#include <fmt/format.h>

#include <cstdint>

namespace hearth {

void HostRows::require_dtype(DType wanted, SourceLoc loc) const {
  if (dtype != wanted) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format(
                          "values: the output is {}, not {}", describe(dtype, shape), name(wanted)),
                      .location = loc});
  }
}

RequestInput::RequestInput(Tensor rows) : tensor_(std::move(rows)) {
  if (tensor_.is_valid()) {
    dtype_ = tensor_.dtype();
    shape_ = tensor_.shape();
    tensor_ = tensor_.detach();
  }
}

RequestInput::RequestInput(std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner,
                           DType dtype,
                           const Shape& shape,
                           SourceLoc loc)
    : dtype_(dtype), shape_(shape), bytes_(bytes), owner_(std::move(owner)) {
  if (static_cast<std::int64_t>(bytes.size()) != shape.element_count() * size_bytes(dtype)) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format(
                  "RequestInput: {} bytes do not fill {}", bytes.size(), describe(dtype, shape)),
              .op = "RequestInput",
              .location = loc});
  }
}

RequestInput RequestInput::by_value(SourceLoc loc) && {
  if (!is_on_host()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("by_value: {} is on {}: give its values in host memory",
                                          describe(dtype_, shape_),
                                          tensor_.device().name()),
                      .op = "by_value",
                      .location = loc});
  }
  is_by_value_ = true;
  return std::move(*this);
}

namespace detail {
namespace {

[[noreturn]] void refuse(std::string text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "ModelServer::ask: " + std::move(text),
                    .op = "ModelServer::ask",
                    .location = loc});
}

template <class T>
void append(std::string& key, const T& value) {
  const std::size_t place = key.size();
  key.resize(place + sizeof(T));
  std::memcpy(key.data() + place, &value, sizeof(T));
}

}  // namespace

std::int64_t row_count(std::span<const RequestInput> inputs, SourceLoc loc) {
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const RequestInput& input = inputs[i];
    if (input.is_on_host() && input.owner() == nullptr) {
      refuse(fmt::format("input {} is an empty tensor", i), loc);
    }
    if (input.is_by_value()) {
      continue;
    }
    if (input.shape().rank() == 0) {
      refuse(fmt::format("input {} is a scalar: axis 0 counts the rows", i), loc);
    }
    if (input.shape()[0] < 1 || (rows >= 0 && input.shape()[0] != rows)) {
      refuse(fmt::format("input {} is {}: expected {} rows",
                         i,
                         describe(input.dtype(), input.shape()),
                         rows < 0 ? "one or more" : std::to_string(rows)),
             loc);
    }
    rows = input.shape()[0];
  }
  if (rows < 0) {
    refuse("no input has rows", loc);
  }
  return rows;
}

std::string signature_key(std::span<const RequestInput> inputs) {
  std::string key;
  for (const RequestInput& input : inputs) {
    key.push_back(static_cast<char>(input.dtype()));
    key.push_back(static_cast<char>((input.is_on_host() ? 1 : 0) + (input.is_by_value() ? 2 : 0)));
    key.push_back(static_cast<char>(input.shape().rank()));
    const auto dims = input.shape().dims();
    for (std::size_t axis = input.is_by_value() ? 0 : 1; axis < dims.size(); ++axis) {
      append(key, dims[axis]);
    }
    if (input.is_by_value()) {
      key.append(reinterpret_cast<const char*>(input.bytes().data()), input.bytes().size());
    }
  }
  return key;
}

std::string describe_signature(std::span<const RequestInput> inputs) {
  std::string text;
  for (const RequestInput& input : inputs) {
    text += text.empty() ? "" : ", ";
    if (input.is_by_value() || input.shape().rank() == 0) {
      text += describe(input.dtype(), input.shape()) + (input.is_by_value() ? " by value" : "");
      continue;
    }
    text += fmt::format("{}[*", name(input.dtype()));
    for (const std::int64_t size : input.shape().dims().subspan(1)) {
      text += fmt::format(", {}", size);
    }
    text += "]";
  }
  return text;
}

}  // namespace detail
}  // namespace hearth
