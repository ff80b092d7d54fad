#include "backends/cpu/fused/row_loops.hpp"
#include "class_losses.hpp"
#include "row_operands.hpp"
#include "softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kLossGrain = std::int64_t{1} << 16;  // elements worth a fork

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
  const std::int64_t grain = std::max<std::int64_t>(1, kLossGrain / shape[1]);
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

double loss_of(const RowStatistics& stats, double chosen) noexcept {
  return std::log(stats.sum) + (stats.top - chosen);  // a large top would absorb the logarithm
}

// Stores the losses, and the probabilities for the gradient.
template <class T>
void loss_forward(const KernelCall& call, const RowOperands& operands, KernelContext& context) {
  const RowLoops<T>& loops = row_loops(context.isa).of<T>();
  const Shape& shape = call.inputs[0].shape();
  for_rows(shape, context, [&](std::int64_t row) {
    const std::int64_t at = row * shape[1];
    const T* const logits = operands.input<T>(0) + at;
    const auto chosen = static_cast<double>(logits[class_of(call.inputs[1], row)]);
    const RowStatistics stats = loops.softmax(operands.output<T>() + at, logits, shape[1]);
    store_real(call.outputs[0], row, loss_of(stats, chosen));
  });
}

Status run_with_probabilities(const KernelCall& call, KernelContext& context) {
  HEARTH_TRY_STATUS(check_classes("cross_entropy", call.inputs[1], call.inputs[0].shape()[1]));
  RowOperands operands;
  HEARTH_TRY_STATUS(operands.prepare(call, 0, 1, call.outputs[1], context));
  if (operands.type() == DType::f64) {
    loss_forward<double>(call, operands, context);
  } else {
    loss_forward<float>(call, operands, context);
  }
  operands.finish(context);
  return {};
}

template <class T>
void loss_backward(const KernelCall& call, const RowOperands& operands, KernelContext& context) {
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

bool ClassLosses::reads_in_place(const KernelCall& call) noexcept {
  const TensorView& logits = call.inputs[0];
  return logits.layout->contiguous && logits.dtype == compute_dtype(logits.dtype);
}

// Uses the view of the result for the computing type alone.
Status ClassLosses::start(const KernelCall& call, KernelContext& context) {
  call_ = &call;
  isa_ = context.isa;
  HEARTH_TRY_STATUS(check_classes("cross_entropy", call.inputs[1], call.inputs[0].shape()[1]));
  const TensorView losses{.layout = call.outputs[0].layout, .dtype = call.inputs[0].dtype};
  HEARTH_TRY_STATUS(operands_.prepare(call, 0, 1, losses, context));
  return epilogue_.start(call, context);
}

std::int64_t ClassLosses::grain() const noexcept {
  return std::max<std::int64_t>(1, kLossGrain / call_->inputs[0].shape()[1]);
}

ClassLosses::Part::Part(const ClassLosses& of) : of_(of) {
  if (of.epilogue_.is_there()) {
    epilogue_.emplace(of.epilogue_);
  }
}

void ClassLosses::Part::make(std::byte* to, std::int64_t begin, std::int64_t end) {
  const TensorView& out = of_.call_->outputs[0];
  if (!epilogue_.has_value()) {
    make_losses(out.data == nullptr ? to : out.data + begin * size_bytes(out.dtype), begin, end);
    return;
  }
  constexpr std::int64_t kMost = EpilogueRows::kPieceBytes / std::int64_t{sizeof(double)};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): filled before it is read
  alignas(64) std::array<std::byte, EpilogueRows::kPieceBytes> piece;
  for (std::int64_t first = begin; first < end; first += kMost) {
    const std::int64_t last = std::min(end, first + kMost);
    make_losses(piece.data(), first, last);
    if (out.data == nullptr) {
      epilogue_->run(piece.data(), to + (first - begin) * size_bytes(out.dtype), first, last);
    } else {
      epilogue_->run(piece.data(), first, last);
    }
  }
}

void ClassLosses::Part::make_losses(std::byte* to, std::int64_t begin, std::int64_t end) const {
  const TensorView& logits = of_.call_->inputs[0];
  const std::int64_t classes = logits.shape()[1];
  const TensorView losses{.data = to, .dtype = logits.dtype};
  const auto make = [&](auto zero) {
    using T = decltype(zero);
    const auto statistics = row_loops(of_.isa_).of<T>().statistics;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const at = of_.operands_.input<T>(0) + row * classes;
      const auto chosen = static_cast<double>(at[class_of(of_.call_->inputs[1], row)]);
      store_real(losses, row - begin, loss_of(statistics(at, classes), chosen));
    }
  };
  if (of_.operands_.type() == DType::f64) {
    make(double{});
  } else {
    make(float{});
  }
}

Status run_cross_entropy(const KernelCall& call, KernelContext& context) {
  const std::int64_t rows = call.inputs[0].shape()[0];
  if (rows == 0) {
    return {};
  }
  if (call.op.record().output_count > 1) {
    return run_with_probabilities(call, context);
  }
  ClassLosses losses;
  HEARTH_TRY_STATUS(losses.start(call, context));
  context.arena.parallel_for(rows, losses.grain(), [&](std::int64_t begin, std::int64_t end) {
    ClassLosses::Part(losses).make(nullptr, begin, end);
  });
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
    loss_backward<double>(call, operands, context);
  } else {
    loss_backward<float>(call, operands, context);
  }
  operands.finish(context);
  return {};
}

}  // namespace hearth::cpu
