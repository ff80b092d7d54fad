#include <hearth/runtime/promotion.hpp>

#include <utility>

namespace hearth {
namespace {

// Orders types by kind, then by width.
int order_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
      return 0;
    case DType::i8:
      return 1;
    case DType::u8:
      return 2;
    case DType::i32:
      return 3;
    case DType::i64:
      return 4;
    case DType::f16:
      return 5;
    case DType::bf16:
      return 6;
    case DType::f32:
      return 7;
    case DType::f64:
    default:
      return 8;
  }
}

}  // namespace

DType promote_types(DType a, DType b) noexcept {
  const DType wider = order_of(a) < order_of(b) ? b : a;
  const DType other = order_of(a) < order_of(b) ? a : b;
  // Neither 8-bit integer type holds the other one's values, and neither 16-bit float does.
  if (wider == DType::u8 && other == DType::i8) {
    return DType::i32;
  }
  return wider == DType::bf16 && other == DType::f16 ? DType::f32 : wider;
}

}  // namespace hearth
