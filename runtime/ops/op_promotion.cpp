#include "op_promotion.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace hearth::detail {
namespace {

using MaybeType = std::optional<DType>;

MaybeType joined(MaybeType a, DType b) noexcept {
  return a.has_value() ? promote_types(*a, b) : b;
}

// A lower type changes only the kind (bool to integer to float), never the width within it.
MaybeType joined_with_lower(MaybeType higher, MaybeType lower) noexcept {
  if (!higher.has_value() || !lower.has_value()) {
    return higher.has_value() ? higher : lower;
  }
  const bool is_kind_kept =
      is_float(*higher) || (is_integer(*higher) && !is_float(*lower)) || *lower == DType::boolean;
  return is_kind_kept ? *higher : promote_types(*higher, *lower);
}

// mask == 1 and where(mask, other, 0) stay bool.
bool are_bools(OpKind kind, std::span<const Arg> operands) noexcept {
  return accepts(kind, DType::boolean) && std::ranges::all_of(operands, [](const Arg& operand) {
           return operand.is_scalar()
                      ? operand.is_integer() && !operand.is_beyond_i64() &&
                            fits(operand.integer(), DType::boolean)
                      : detail::TensorAccess::impl(operand.tensor())->dtype == DType::boolean;
         });
}

}  // namespace

DType common_type(OpKind kind, std::span<const Arg> operands) noexcept {
  if (are_bools(kind, operands)) {
    return DType::boolean;
  }
  MaybeType of_axes;
  MaybeType of_rank_0;
  MaybeType of_numbers;
  for (const Arg& operand : operands) {
    if (operand.is_scalar()) {
      of_numbers = joined(of_numbers, operand.is_integer() ? DType::i64 : DType::f32);
      continue;
    }
    const TensorImpl& impl = *detail::TensorAccess::impl(operand.tensor());
    MaybeType& level = impl.layout->shape.rank() == 0 ? of_rank_0 : of_axes;
    level = joined(level, impl.dtype);
  }
  return joined_with_lower(joined_with_lower(of_axes, of_rank_0), of_numbers).value();
}

}  // namespace hearth::detail
