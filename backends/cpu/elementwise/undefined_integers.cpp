#include "undefined_integers.hpp"

namespace hearth::cpu {

namespace {

template <class T>
std::int64_t first_of(OpKind kind, IntegerOperand a, IntegerOperand b, std::int64_t count) {
  const auto* base = static_cast<const T*>(a.data);
  const auto* other = static_cast<const T*>(b.data);
  const std::int64_t step_a = a.is_one ? 0 : 1;
  const std::int64_t step_b = b.is_one ? 0 : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = base[i * step_a];
    const T y = other[i * step_b];
    if (kind == OpKind::div ? y == 0 : (x == 0 && y < 0)) {
      return i;
    }
  }
  return kNoElement;
}

}  // namespace

std::int64_t first_undefined(
    OpKind kind, DType type, IntegerOperand a, IntegerOperand b, std::int64_t count) noexcept {
  switch (type) {
    case DType::i32:
      return first_of<std::int32_t>(kind, a, b, count);
    case DType::i64:
      return first_of<std::int64_t>(kind, a, b, count);
    case DType::i8:
      return first_of<std::int8_t>(kind, a, b, count);
    default:
      return first_of<std::uint8_t>(kind, a, b, count);
  }
}

}  // namespace hearth::cpu
