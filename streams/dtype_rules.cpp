#include <hearth/streams/shape_rules.hpp>

#include "rule_error.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace hearth::rules {
namespace {

using detail::broken;
using Specs = std::span<const TensorSpec>;

std::string input_list(Specs inputs) {
  std::string out;
  for (const TensorSpec& input : inputs) {
    out += out.empty() ? "" : ", ";
    out += describe(input.dtype, input.shape);
  }
  return out;
}

std::string operands_text(const OpInfo& info, Specs inputs) {
  const bool has_sides = info.op_class == OpClass::binary || info.kind == OpKind::matmul;
  if (has_sides && inputs.size() == 2) {
    return detail::operand_list({{"lhs", &inputs[0]}, {"rhs", &inputs[1]}});
  }
  return input_list(inputs);
}

Status check_count(const OpInfo& info, Specs inputs) {
  if (inputs.size() >= info.min_inputs &&
      (info.max_inputs == kAnyNumber || inputs.size() <= info.max_inputs)) {
    return {};
  }
  std::string wanted = fmt::format("{}", info.min_inputs);
  if (info.max_inputs == kAnyNumber) {
    wanted += " or more";
  } else if (info.max_inputs != info.min_inputs) {
    wanted += fmt::format(" to {}", info.max_inputs);
  }
  return broken(ErrorCode::invalid_argument,
                info.kind,
                fmt::format("takes {} inputs, was given {}", wanted, inputs.size()));
}

Status check_accepted(const OpInfo& info, DType dtype, Specs inputs) {
  if ((info.dtypes & dtype_bit(dtype)) != 0) {
    return {};
  }
  return broken(ErrorCode::dtype_mismatch,
                info.kind,
                fmt::format("does not take {}, only {}: {}",
                            name(dtype),
                            describe(info.dtypes),
                            operands_text(info, inputs)));
}

// Requires that inputs first … last - 1 have one element type, which the row accepts.
Result<DType> common_dtype(const OpInfo& info, Specs inputs, std::size_t first, std::size_t last) {
  const DType dtype = inputs[first].dtype;
  for (std::size_t i = first + 1; i < last; ++i) {
    if (inputs[i].dtype != dtype) {
      return broken(ErrorCode::dtype_mismatch,
                    info.kind,
                    "element types differ: " + operands_text(info, inputs));
    }
  }
  HEARTH_TRY_STATUS(check_accepted(info, dtype, inputs));
  return dtype;
}

// (a, b[, bias]). Sums of i8 are i32, and a bias would need that type.
Result<DType> product_dtype(const OpInfo& info, Specs inputs) {
  const auto is_small = [](const TensorSpec& input) { return input.dtype == DType::i8; };
  if (std::ranges::none_of(inputs, is_small)) {
    return common_dtype(info, inputs, 0, inputs.size());
  }
  if (!is_small(inputs[0]) || !is_small(inputs[1])) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "element types differ: cast both sides to i8, or to a float type: " +
                      operands_text(info, inputs));
  }
  if (inputs.size() > 2) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "a product of i8 takes no bias: add it to the result, which is i32: " +
                      operands_text(info, inputs));
  }
  return DType::i32;
}

Result<DType> where_dtype(const OpInfo& info, Specs inputs) {
  if (inputs[0].dtype != DType::boolean) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "the condition is not bool: " + operands_text(info, inputs));
  }
  return common_dtype(info, inputs, 1, inputs.size());
}

Result<DType> class_loss_dtype(const OpInfo& info, Specs inputs) {
  const DType targets = inputs.back().dtype;
  if (targets != DType::i32 && targets != DType::i64) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "targets must be i32 or i64: " + operands_text(info, inputs));
  }
  return common_dtype(info, inputs, 0, inputs.size() - 1);
}

Result<DType> pool_dtype(const OpInfo& info, Specs inputs) {
  if (inputs.size() > 1 && inputs[1].dtype != DType::i32) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "positions must be i32: " + operands_text(info, inputs));
  }
  return common_dtype(info, inputs, 0, 1);
}

Result<DType> indexed_dtype(const OpInfo& info, Specs inputs) {
  if (inputs[1].dtype != DType::i32 && inputs[1].dtype != DType::i64) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "the index must be i32 or i64: " + operands_text(info, inputs));
  }
  if (inputs.size() > 2 && inputs[2].dtype != inputs[0].dtype) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  "element types differ: " + operands_text(info, inputs));
  }
  return common_dtype(info, inputs, 0, 1);
}

// (q, k, v[, mask]), or (grad, q, k, v, y, statistics[, mask]).
Result<DType> attention_dtype(const OpInfo& info, Specs inputs) {
  const bool is_backward = info.kind == OpKind::attention_backward;
  const std::size_t values = is_backward ? 5 : 3;
  HEARTH_TRY(const DType dtype, common_dtype(info, inputs, 0, values));
  const DType statistics = dtype == DType::f64 ? DType::f64 : DType::f32;
  if (is_backward && inputs[values].dtype != statistics) {
    return broken(ErrorCode::dtype_mismatch,
                  info.kind,
                  fmt::format("the statistics of rows must be {}: ", name(statistics)) +
                      operands_text(info, inputs));
  }
  const bool has_mask = inputs.size() == info.max_inputs;
  if (has_mask && inputs.back().dtype != DType::boolean && inputs.back().dtype != dtype) {
    return broken(
        ErrorCode::dtype_mismatch,
        info.kind,
        fmt::format("the mask must be bool or {}: ", name(dtype)) + operands_text(info, inputs));
  }
  return dtype;
}

}  // namespace

Result<DType> result_dtype(OpKind kind, Specs inputs) {
  const OpInfo& info = op_info(kind);
  HEARTH_TRY_STATUS(check_count(info, inputs));
  if (inputs.empty()) {
    return DType::f32;
  }
  switch (info.dtype_rule) {
    case DtypeRule::comparison: {
      HEARTH_TRY_STATUS(common_dtype(info, inputs, 0, inputs.size()).status());
      return DType::boolean;
    }
    case DtypeRule::position: {
      HEARTH_TRY_STATUS(common_dtype(info, inputs, 0, inputs.size()).status());
      return DType::i64;
    }
    case DtypeRule::product:
      return product_dtype(info, inputs);
    case DtypeRule::where:
      return where_dtype(info, inputs);
    case DtypeRule::class_loss:
      return class_loss_dtype(info, inputs);
    case DtypeRule::pool_positions:
      return pool_dtype(info, inputs);
    case DtypeRule::indexed:
      return indexed_dtype(info, inputs);
    case DtypeRule::attention:
      return attention_dtype(info, inputs);
    case DtypeRule::expression:
    case DtypeRule::custom:
    case DtypeRule::none:
      return inputs[0].dtype;
    case DtypeRule::given:
    case DtypeRule::same:
    case DtypeRule::same_float:
    default:
      return common_dtype(info, inputs, 0, inputs.size());
  }
}

}  // namespace hearth::rules
