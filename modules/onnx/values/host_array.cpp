#include "host_array.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth::onnx {
namespace {

template <class T>
std::int64_t wrapped(std::int64_t value) {
  return static_cast<std::int64_t>(static_cast<T>(value));
}

// The saturating conversion of the device's cast.
std::int64_t truncated(double value) {
  constexpr double kEnd = 9223372036854775808.0;
  if (std::isnan(value)) {
    return 0;
  }
  if (value >= kEnd) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return value < -kEnd ? std::numeric_limits<std::int64_t>::min()
                       : static_cast<std::int64_t>(value);
}

[[noreturn]] void refuse(std::string text) {
  throw_error(Error{.code = ErrorCode::invalid_argument, .text = std::move(text)});
}

double parsed(const std::string& text) {
  const char* begin = text.data();
  const char* const end = begin + text.size();
  if (begin != end && *begin == '+') {
    ++begin;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || stop != end) {
    refuse(fmt::format("Cast: the string '{}' is no number", text));
  }
  return value;
}

// As NumPy prints: the shortest digits that give the value again, positional from 1e-4 to 1e16.
std::string printed(double value, OnnxType type) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-INF" : "INF";
  }
  const double size = std::abs(value);
  const bool is_positional = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> digits{};
  const std::chars_format format =
      is_positional ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result =
      type == OnnxType::f64
          ? std::to_chars(digits.data(), digits.data() + digits.size(), value, format)
          : std::to_chars(
                digits.data(), digits.data() + digits.size(), static_cast<float>(value), format);
  std::string text(digits.data(), result.ptr);
  if (is_positional && text.find('.') == std::string::npos) {
    text += ".0";
  }
  return text;
}

HostArray cast_strings(const HostArray& array, OnnxType type) {
  std::vector<double> values;
  for (const std::string& text : array.strings()) {
    values.push_back(parsed(text));
  }
  return cast_host(host_reals(std::move(values), array.shape, OnnxType::f64), type);
}

HostArray cast_to_strings(const HostArray& array) {
  std::vector<std::string> texts;
  if (has_reals(array)) {
    for (const double value : array.reals()) {
      texts.push_back(printed(value, array.type));
    }
  } else {
    for (const std::int64_t value : array.integers()) {
      texts.push_back(array.type == OnnxType::boolean ? (value != 0 ? "1" : "0")
                                                      : std::to_string(value));
    }
  }
  return host_strings(std::move(texts), array.shape);
}

template <class T, class Stored>
std::vector<Stored> elements_of(std::span<const std::byte> bytes) {
  std::vector<Stored> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      values[i] = static_cast<Stored>(static_cast<float>(value));
    } else {
      values[i] = static_cast<Stored>(value);
    }
  }
  return values;
}

template <class T, class Stored>
std::vector<T> narrowed(const std::vector<Stored>& values) {
  std::vector<T> result;
  result.reserve(values.size());
  for (const Stored value : values) {
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      result.push_back(T(static_cast<float>(value)));
    } else {
      result.push_back(static_cast<T>(value));
    }
  }
  return result;
}

}  // namespace

double stored(double value, OnnxType type) noexcept {
  switch (type) {
    case OnnxType::f16:
      return static_cast<float>(f16(static_cast<float>(value)));
    case OnnxType::bf16:
      return static_cast<float>(bf16(static_cast<float>(value)));
    case OnnxType::f32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

std::int64_t stored(std::int64_t value, OnnxType type) noexcept {
  switch (type) {
    case OnnxType::boolean:
      return value != 0 ? 1 : 0;
    case OnnxType::u8:
      return wrapped<std::uint8_t>(value);
    case OnnxType::i8:
      return wrapped<std::int8_t>(value);
    case OnnxType::u16:
      return wrapped<std::uint16_t>(value);
    case OnnxType::i16:
      return wrapped<std::int16_t>(value);
    case OnnxType::i32:
      return wrapped<std::int32_t>(value);
    case OnnxType::u32:
      return wrapped<std::uint32_t>(value);
    case OnnxType::u4:
      return value & 15;
    case OnnxType::i4:
      return ((value + 8) & 15) - 8;
    default:
      return value;
  }
}

HostArray host_integers(std::vector<std::int64_t> values, OnnxType type) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return host_integers(std::move(values), shape, type);
}

HostArray host_integers(std::vector<std::int64_t> values, const Shape& shape, OnnxType type) {
  return {.type = type, .shape = shape, .elements = std::move(values)};
}

HostArray host_reals(std::vector<double> values, const Shape& shape, OnnxType type) {
  return {.type = type, .shape = shape, .elements = std::move(values)};
}

HostArray host_strings(std::vector<std::string> values, const Shape& shape) {
  return {.type = OnnxType::string, .shape = shape, .elements = std::move(values)};
}

double real_at(const HostArray& array, std::size_t i) {
  return has_reals(array) ? array.reals()[i] : static_cast<double>(array.integers()[i]);
}

std::vector<std::int64_t> integers_of(const HostArray& array) {
  if (!has_reals(array)) {
    return array.integers();
  }
  std::vector<std::int64_t> values;
  for (const double value : array.reals()) {
    values.push_back(truncated(value));
  }
  return values;
}

std::vector<double> reals_of(const HostArray& array) {
  if (has_reals(array)) {
    return array.reals();
  }
  return {array.integers().begin(), array.integers().end()};
}

HostArray cast_host(const HostArray& array, OnnxType type) {
  if (type == OnnxType::string) {
    return has_strings(array) ? array : cast_to_strings(array);
  }
  if (!device_type(type)) {
    refuse(fmt::format("Cast: element type {} is not supported", name(type)));
  }
  if (has_strings(array)) {
    return cast_strings(array, type);
  }
  if (is_float(type)) {
    std::vector<double> values = reals_of(array);
    for (double& value : values) {
      value = stored(value, type);
    }
    return host_reals(std::move(values), array.shape, type);
  }
  if (type == OnnxType::boolean && has_reals(array)) {
    std::vector<std::int64_t> values;
    for (const double value : array.reals()) {
      values.push_back(value != 0 ? 1 : 0);
    }
    return host_integers(std::move(values), array.shape, type);
  }
  std::vector<std::int64_t> values = integers_of(array);
  for (std::int64_t& value : values) {
    value = stored(value, type);
  }
  return host_integers(std::move(values), array.shape, type);
}

HostArray host_array_of(const TensorBytes& bytes, OnnxType type) {
  return visit_dtype(bytes.dtype, [&](auto zero) {
    using T = decltype(zero);
    HostArray array{.type = type, .shape = bytes.shape};
    if constexpr (std::is_integral_v<T>) {
      using Element = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      array.elements = elements_of<Element, std::int64_t>(bytes.bytes);
    } else {
      array.elements = elements_of<T, double>(bytes.bytes);
    }
    return array;
  });
}

Tensor upload(const HostArray& array, const Device& device, SourceLoc loc) {
  const std::optional<DType> dtype = device_type(array.type);
  if (!dtype) {
    refuse(fmt::format("a tensor of {} cannot lie on device {}", name(array.type), device.name()));
  }
  return visit_dtype(*dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<std::uint8_t> bytes = narrowed<std::uint8_t>(array.integers());
      return Tensor::from_bytes(
          device, std::as_bytes(std::span(bytes)), DType::boolean, array.shape, loc);
    } else if constexpr (std::is_integral_v<T>) {
      return Tensor::from(device, narrowed<T>(array.integers()), array.shape, loc);
    } else {
      return Tensor::from(device, narrowed<T>(array.reals()), array.shape, loc);
    }
  });
}

HostArray download(const Tensor& tensor, OnnxType type, const WaitOptions& wait, SourceLoc loc) {
  const std::vector<std::byte> bytes = tensor.read_bytes(loc).get(wait);
  return host_array_of(
      TensorBytes{.dtype = tensor.dtype(loc), .shape = tensor.shape(loc), .bytes = bytes}, type);
}

}  // namespace hearth::onnx
