#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

namespace hearth {
namespace {

// The truth value of an operand: a bool tensor, or a number 0 or 1.
struct Truth {
  Tensor tensor;
  Arg number;

  explicit Truth(const Arg& x)
      : tensor(x.is_scalar() ? Tensor() : cast(x, DType::boolean)),
        number(x.is_scalar() && x.real() != 0 ? 1 : 0, x.location()) {}
  [[nodiscard]] Arg operand() {
    return detail::TensorAccess::impl(tensor) == nullptr
               ? number
               : Arg(std::move(tensor), number.location());
  }
};

void check_pair(OpKind kind, const Arg& a, const Arg& b) {
  const std::array inputs{a, b};
  for (const Arg& input : inputs) {
    if (!input.is_scalar()) {
      static_cast<void>(detail::operand(kind, input));
    }
  }
  if (a.is_scalar() || b.is_scalar()) {
    return;
  }
  const TensorSpec left = detail::spec_of(kind, a);
  const TensorSpec right = detail::spec_of(kind, b);
  if (!broadcast(left.shape, right.shape).has_value()) {
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           kind,
                           fmt::format("shapes do not broadcast: lhs {}, rhs {}",
                                       describe(left.dtype, left.shape),
                                       describe(right.dtype, right.shape)),
                           a.location(),
                           inputs);
  }
}

// Joins two truth values: "and" is their minimum, "or" their maximum, "xor" whether they differ.
Tensor joined_truth(OpKind kind, const Arg& a, const Arg& b) {
  check_pair(kind, a, b);
  if (a.is_scalar() && b.is_scalar()) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kind,
                           fmt::format("both operands are numbers: {} and {}", a.real(), b.real()),
                           a.location());
  }
  Truth left(a);
  Truth right(b);
  switch (kind) {
    case OpKind::min:
      return minimum(left.operand(), right.operand());
    case OpKind::max:
      return maximum(left.operand(), right.operand());
    default:
      return not_equal(left.operand(), right.operand());
  }
}

// any and all: the maximum or minimum truth value; `of_none` if there are no elements.
Tensor reduced_truth(OpKind kind, const Arg& x, const Axes& axes, bool keep_dims, bool of_none) {
  constexpr OpKind kRule = OpKind::reduce_sum;  // its rule accepts any axes, also without elements
  const Shape& from = detail::operand(kRule, x).layout->shape;
  ReduceAttributes attributes;
  const Shape shape =
      detail::checked(rules::reduce(kRule, from, axes.list(), keep_dims, &attributes), kRule, x);
  const SourceLoc loc = x.location();
  if (from.element_count() == 0) {
    return detail::full_integer(x.tensor().device(), shape, of_none ? 1 : 0, DType::boolean, loc);
  }
  Tensor truth = cast(x, DType::boolean);
  const Arg operand(std::move(truth), loc);
  return kind == OpKind::reduce_max ? max(operand, axes, {.keep_dims = keep_dims})
                                    : min(operand, axes, {.keep_dims = keep_dims});
}

bool is_bool(OpKind kind, const Arg& operand) {
  return operand.is_scalar() ? operand.is_integer() && fits(operand.integer(), DType::boolean)
                             : detail::operand(kind, operand).dtype == DType::boolean;
}
bool has_bits(OpKind kind, const Arg& operand) {
  return is_bool(kind, operand) ||
         (operand.is_scalar() ? operand.is_integer()
                              : is_integer(detail::operand(kind, operand).dtype));
}

void require(bool is_accepted, OpKind kind, std::string_view accepted, const Arg& operand) {
  if (!is_accepted) {
    const std::string what = operand.is_scalar()
                                 ? fmt::format("the number {}", operand.real())
                                 : describe(operand.tensor().dtype(), operand.tensor().shape());
    detail::throw_op_error(
        ErrorCode::dtype_mismatch,
        kind,
        fmt::format("takes {}, not {}: compare first, or call logical_and and its kin, for which "
                    "all but 0 is true",
                    accepted,
                    what),
        operand);
  }
}

// The logical op for bools, else the one of bits.
Tensor joined_bits(OpKind logical, Tensor (*of_bits)(Arg, Arg), const Arg& a, const Arg& b) {
  for (const Arg& operand : {a, b}) {
    require(has_bits(logical, operand), logical, "bools and integers", operand);
  }
  return is_bool(logical, a) && is_bool(logical, b) ? joined_truth(logical, a, b) : of_bits(a, b);
}

}  // namespace

Tensor operator&(Arg a, Arg b) {
  return detail::named_as("operator&", [&] { return joined_bits(OpKind::min, bitwise_and, a, b); });
}
Tensor operator|(Arg a, Arg b) {
  return detail::named_as("operator|", [&] { return joined_bits(OpKind::max, bitwise_or, a, b); });
}
Tensor operator^(Arg a, Arg b) {
  return detail::named_as("operator^",
                          [&] { return joined_bits(OpKind::not_equal, bitwise_xor, a, b); });
}
Tensor operator~(Arg x) {
  return detail::named_as("operator~", [&] {
    require(has_bits(OpKind::bitwise_xor, x), OpKind::bitwise_xor, "bools and integers", x);
    return bitwise_not(x);
  });
}
Tensor operator!(Arg x) {
  return detail::named_as("operator!", [&] {
    require(is_bool(OpKind::equal, x), OpKind::equal, "bools", x);
    return equal(x, Arg(0, x.location()));
  });
}

// All bits differ from those of -1.
Tensor bitwise_not(Arg x) {
  return detail::named_as("bitwise_not", [&] {
    const DType dtype = detail::accepted_operand(OpKind::bitwise_xor, x).dtype;
    if (dtype == DType::boolean) {
      return equal(x, Arg(0, x.location()));
    }
    return bitwise_xor(x, Arg(dtype == DType::u8 ? 255 : -1, x.location()));
  });
}

Tensor logical_and(Arg a, Arg b) {
  return detail::named_as("logical_and", [&] { return joined_truth(OpKind::min, a, b); });
}
Tensor logical_or(Arg a, Arg b) {
  return detail::named_as("logical_or", [&] { return joined_truth(OpKind::max, a, b); });
}
Tensor logical_xor(Arg a, Arg b) {
  return detail::named_as("logical_xor", [&] { return joined_truth(OpKind::not_equal, a, b); });
}
Tensor logical_not(Arg x) {
  return detail::named_as("logical_not", [&] { return equal(x, Arg(0, x.location())); });
}

Tensor any(Arg x, Axes axes, ReduceOptions options) {
  return detail::named_as(
      "any", [&] { return reduced_truth(OpKind::reduce_max, x, axes, options.keep_dims, false); });
}
Tensor all(Arg x, Axes axes, ReduceOptions options) {
  return detail::named_as(
      "all", [&] { return reduced_truth(OpKind::reduce_min, x, axes, options.keep_dims, true); });
}

}  // namespace hearth
