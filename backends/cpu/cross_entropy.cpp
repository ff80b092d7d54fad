#include "row_loops.hpp"
#include "row_operands.hpp"
#include "softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 16;  // elements worth a fork

std::int64_t class_of(const TensorView& targets, std::int64_t row) noexcept {
  const std::int64_t at = row * targets.strides()[0];
  return targets.dtype == DType::i64 ? targets.as<std::int64_t>()[at]
                                     : targets.as<std::int32_t>()[at];
}

Status check_classes(const char* op, const TensorView& targets, std::int64_t class_count) {
  for (std::int64_t row = 0; row < targets.shape()[0]; ++row) {
    const std::int64_t target = class_of(targets, row);
    if (target < 0 || target >= class_count) {
      return Error{
          .code = ErrorCode::out_of_range,
          .text = fmt::format(
              "{}: class {} in row {} is outside the {} classes", op, target, row, class_count),
          .op = op};
    }
  }
  return {};
}

template <class Body>
void for_rows(const Shape& shape, KernelContext& context, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / shape[1]);
  context.arena.parallel_for(shape[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      body(row);
    }
  });
}

void store_real(const TensorView& view, std::int64_t at, double value) noexcept {
  visit_dtype(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
      view.as<T>()[at] = static_cast<T>(value);
    } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      view.as<T>()[at] = T(static_cast<float>(value));
    }
  });
}

double load_real(const TensorView& view, std::int64_t at) noexcept {
  return visit_dtype(view.dtype, [&](auto zero) -> double {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      return static_cast<double>(static_cast<float>(view.as<T>()[at]));
    } else {
      return static_cast<double>(view.as<T>()[at]);
    }
  });
}

template <class T>
void forward(const KernelCall& call, const RowOperands& operands, KernelContext& context) {
  const RowLoops<T>& loops = row_loops(context.isa).of<T>();
  const Shape& shape = call.inputs[0].shape();
  const bool keeps_probabilities = call.outputs.size() > 1;
  for_rows(shape, context, [&](std::int64_t row) {
    const std::int64_t at = row * shape[1];
    const T* const logits = operands.input<T>(0) + at;
    const auto chosen = static_cast<double>(logits[class_of(call.inputs[1], row)]);
    const RowStatistics stats = keeps_probabilities
                                    ? loops.softmax(operands.output<T>() + at, logits, shape[1])
                                    : loops.statistics(logits, shape[1]);
    store_real(call.outputs[0], row, std::log(stats.sum) + stats.top - chosen);
  });
}

template <class T>
void backward(const KernelCall& call, const RowOperands& operands, KernelContext& context) {
  const auto loop = row_loops(context.isa).of<T>().cross_entropy_backward;
  const TensorView& grad = call.inputs[0];
  const Shape& shape = call.inputs[1].shape();
  for_rows(shape, context, [&](std::int64_t row) {
    const std::int64_t at = row * shape[1];
    loop(operands.output<T>() + at,
         operands.input<T>(0) + at,
         static_cast<T>(load_real(grad, row * grad.strides()[0])),
         class_of(call.inputs[2], row),
         shape[1]);
  });
}

}  // namespace

Status run_cross_entropy(const KernelCall& call, KernelContext& context) {
  const Shape& shape = call.inputs[0].shape();
  HEARTH_TRY_STATUS(check_classes("cross_entropy", call.inputs[1], shape[1]));
  if (shape[0] == 0) {
    return {};
  }
  // Without a second output, the losses' view only says which type to compute in.
  const TensorView& out = call.outputs.size() > 1 ? call.outputs[1] : call.outputs[0];
  RowOperands operands;
  HEARTH_TRY_STATUS(operands.prepare(call, 0, 1, out, context));
  if (operands.type() == DType::f64) {
    forward<double>(call, operands, context);
  } else {
    forward<float>(call, operands, context);
  }
  if (call.outputs.size() > 1) {
    operands.finish(context);
  }
  return {};
}

Status run_cross_entropy_backward(const KernelCall& call, KernelContext& context) {
  const Shape& shape = call.inputs[1].shape();
  HEARTH_TRY_STATUS(check_classes("cross_entropy_backward", call.inputs[2], shape[1]));
  if (shape[0] == 0) {
    return {};
  }
  RowOperands operands;
  HEARTH_TRY_STATUS(operands.prepare(call, 1, 1, call.outputs[0], context));
  if (operands.type() == DType::f64) {
    backward<double>(call, operands, context);
  } else {
    backward<float>(call, operands, context);
  }
  operands.finish(context);
  return {};
}

}  // namespace hearth::cpu
