#include <hearth/modules/onnx_type.hpp>

#include <array>
#include <ostream>

namespace hearth {
namespace {

struct TypeRow {
  std::string_view name;
  std::optional<DType> device;
  int bits;
};

// In the order of the numbers.
constexpr std::array<TypeRow, 24> kTypes{{
    {"undefined", {}, 0},        {"f32", DType::f32, 32},   {"u8", DType::u8, 8},
    {"i8", DType::i8, 8},        {"u16", DType::i32, 16},   {"i16", DType::i32, 16},
    {"i32", DType::i32, 32},     {"i64", DType::i64, 64},   {"string", {}, 0},
    {"bool", DType::boolean, 8}, {"f16", DType::f16, 16},   {"f64", DType::f64, 64},
    {"u32", DType::i64, 32},     {"u64", DType::i64, 64},   {"c64", {}, 64},
    {"c128", {}, 128},           {"bf16", DType::bf16, 16}, {"f8e4m3fn", {}, 8},
    {"f8e4m3fnuz", {}, 8},       {"f8e5m2", {}, 8},         {"f8e5m2fnuz", {}, 8},
    {"u4", DType::u8, 4},        {"i4", DType::i8, 4},      {"f4e2m1", {}, 4},
}};

const TypeRow& row_of(OnnxType type) noexcept {
  const auto number = static_cast<std::size_t>(type);
  return kTypes[number < kTypes.size() ? number : 0];
}

}  // namespace

std::string_view name(OnnxType type) noexcept {
  return row_of(type).name;
}

std::ostream& operator<<(std::ostream& out, OnnxType type) {
  return out << name(type);
}

OnnxType onnx_type_of(std::int64_t number) noexcept {
  const bool is_known = number > 0 && number < static_cast<std::int64_t>(kTypes.size());
  return is_known ? static_cast<OnnxType>(number) : OnnxType::undefined;
}

OnnxType onnx_type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return OnnxType::f64;
    case DType::f16:
      return OnnxType::f16;
    case DType::bf16:
      return OnnxType::bf16;
    case DType::i32:
      return OnnxType::i32;
    case DType::i64:
      return OnnxType::i64;
    case DType::u8:
      return OnnxType::u8;
    case DType::boolean:
      return OnnxType::boolean;
    case DType::i8:
      return OnnxType::i8;
    case DType::f32:
    default:
      return OnnxType::f32;
  }
}

std::optional<DType> device_type(OnnxType type) noexcept {
  return row_of(type).device;
}

bool is_widened(OnnxType type) noexcept {
  switch (type) {
    case OnnxType::u16:
    case OnnxType::i16:
    case OnnxType::u32:
    case OnnxType::u64:
    case OnnxType::u4:
    case OnnxType::i4:
      return true;
    default:
      return false;
  }
}

bool is_float(OnnxType type) noexcept {
  return type == OnnxType::f32 || type == OnnxType::f64 || type == OnnxType::f16 ||
         type == OnnxType::bf16;
}

bool is_integer(OnnxType type) noexcept {
  const std::optional<DType> dtype = device_type(type);
  return dtype.has_value() && is_integer(*dtype);
}

int stored_bits(OnnxType type) noexcept {
  return row_of(type).bits;
}

}  // namespace hearth
