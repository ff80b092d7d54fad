// OnnxValue: an input, a result or an inner value of an ONNX graph. It holds a tensor on a device,
// elements on the host (shapes, strings), or both. It may also be a sequence of values, or nothing.
// A value; copies share elements. Threads: like Tensor.
#pragma once

#include <hearth/modules/onnx_type.hpp>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hearth {

/// Elements on the host, row-major.
struct OnnxHostArray {
  OnnxType type = OnnxType::i64;
  Shape shape = {};
  /// Integers and bools; floats; strings: the alternative follows from `type`. f16, bf16 and f32
  /// hold rounded values.
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>> elements =
      {};

  [[nodiscard]] const std::vector<std::int64_t>& integers() const {
    return std::get<std::vector<std::int64_t>>(elements);
  }
  [[nodiscard]] const std::vector<double>& reals() const {
    return std::get<std::vector<double>>(elements);
  }
  [[nodiscard]] const std::vector<std::string>& strings() const {
    return std::get<std::vector<std::string>>(elements);
  }
};

class OnnxValue final {
 public:
  OnnxValue() = default;  ///< Nothing: an omitted input or an empty optional.
  // NOLINTBEGIN(google-explicit-constructor): an input is written as {"x", tensor} or {"sr", 16000}
  OnnxValue(Tensor tensor) : OnnxValue(std::move(tensor), OnnxType::undefined) {}
  /// A number on the host, which the graph's input converts to its type.
  template <class Number>
  requires std::is_arithmetic_v<Number> OnnxValue(Number value) : OnnxValue(array_of(value)) {}
  OnnxValue(OnnxHostArray array)
      : type_(array.type), host_(std::make_shared<const OnnxHostArray>(std::move(array))) {}
  // NOLINTEND(google-explicit-constructor)
  /// A tensor that holds elements of this type; undefined: the type of the tensor itself.
  OnnxValue(Tensor tensor, OnnxType type);
  /// Elements on the host that other values share.
  [[nodiscard]] static OnnxValue on_host(std::shared_ptr<const OnnxHostArray> host) {
    OnnxValue value;
    value.type_ = host->type;
    value.host_ = std::move(host);
    return value;
  }
  /// A sequence of tensors with elements of this type.
  [[nodiscard]] static OnnxValue sequence(std::vector<OnnxValue> values, OnnxType type);

  [[nodiscard]] bool is_none() const noexcept {
    return !tensor_.is_valid() && host_ == nullptr && sequence_ == nullptr;
  }
  [[nodiscard]] bool has_tensor() const noexcept { return tensor_.is_valid(); }
  [[nodiscard]] bool has_host() const noexcept { return host_ != nullptr; }
  [[nodiscard]] bool is_sequence() const noexcept { return sequence_ != nullptr; }
  /// Type of the elements; of a sequence, of its tensors' elements.
  [[nodiscard]] OnnxType type() const noexcept { return type_; }
  /// Errors: ArgumentError for a sequence and for nothing.
  [[nodiscard]] const Shape& shape(SourceLoc loc = SourceLoc::current()) const;
  /// The tensor on the device. Errors: ArgumentError if has_tensor() is false.
  [[nodiscard]] const Tensor& tensor(SourceLoc loc = SourceLoc::current()) const;
  /// The elements on the host. Errors: ArgumentError if has_host() is false.
  [[nodiscard]] const OnnxHostArray& host(SourceLoc loc = SourceLoc::current()) const;
  /// The values of a sequence. Errors: ArgumentError if is_sequence() is false.
  [[nodiscard]] const std::vector<OnnxValue>& items(SourceLoc loc = SourceLoc::current()) const;

  /// Elements that also lie on the host.
  void set_host(std::shared_ptr<const OnnxHostArray> host) noexcept { host_ = std::move(host); }
  /// Moves the tensor out; the value is then empty or on the host alone.
  [[nodiscard]] Tensor take_tensor() noexcept { return std::move(tensor_); }

 private:
  template <class Number>
  static OnnxHostArray array_of(Number value) {
    if constexpr (std::floating_point<Number>) {
      return {.type = OnnxType::f32, .elements = std::vector<double>{static_cast<double>(value)}};
    } else if constexpr (std::same_as<Number, bool>) {
      return {.type = OnnxType::boolean, .elements = std::vector<std::int64_t>{value ? 1 : 0}};
    } else {
      return {.type = OnnxType::i64,
              .elements = std::vector<std::int64_t>{static_cast<std::int64_t>(value)}};
    }
  }

  OnnxType type_ = OnnxType::undefined;
  Tensor tensor_;
  std::shared_ptr<const OnnxHostArray> host_;
  std::shared_ptr<const std::vector<OnnxValue>> sequence_;
};

}  // namespace hearth
