#include <hearth/runtime/loss_sum.hpp>
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "ops_index.hpp"
#include "runtime/tape/tape.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr OpKind kCrossEntropyKind = OpKind::cross_entropy;

// Logits as [rows, classes] and targets as [rows].
struct Rows {
  Tensor logits;
  Tensor targets;
};

Rows rows_of(const Arg& logits, const Arg& targets, int class_axis) {
  const TensorImpl& impl = detail::accepted_operand(kCrossEntropyKind, logits);
  const Shape shape = impl.layout->shape;
  const Shape given = detail::operand(kCrossEntropyKind, targets).layout->shape;
  const int axis = detail::checked(
      normalize_axis("cross_entropy", class_axis, shape.rank()), kCrossEntropyKind, logits);
  std::vector<int> order;
  Shape wanted;
  std::int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) {
      order.push_back(i);
      wanted.push_back(shape[i]);
      count *= shape[i];
    }
  }
  detail::require_classes(logits, targets);
  if (given != wanted) {
    const std::array inputs{logits, targets};
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           kCrossEntropyKind,
                           fmt::format("targets must be {}, are {}: logits {}, classes on axis {}",
                                       wanted.to_string(),
                                       describe(targets.tensor().dtype(), given),
                                       describe(impl.dtype, shape),
                                       axis),
                           logits.location(),
                           inputs);
  }
  order.push_back(axis);
  const SourceLoc loc = logits.location();
  Tensor last = permute(logits, order);
  return {reshape(Arg(std::move(last), loc), {count, shape[axis]}), reshape(targets, {count})};
}

void check(const Arg& logits, const CrossEntropyOptions& options, std::int64_t class_count) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    detail::throw_op_error(
        ErrorCode::invalid_argument,
        kCrossEntropyKind,
        fmt::format("the label smoothing {} is not in 0 to 1", options.label_smoothing),
        logits);
  }
  if (options.class_weights.is_valid() && options.class_weights.shape() != Shape{class_count}) {
    detail::throw_op_error(
        ErrorCode::shape_mismatch,
        kCrossEntropyKind,
        fmt::format("class_weights must be [{}], are {}",
                    class_count,
                    describe(options.class_weights.dtype(), options.class_weights.shape())),
        logits);
  }
}

// The term of label smoothing for each row: minus the weighted sum of the log probabilities.
Tensor spread_over_classes(const Tensor& logits, const Tensor& weights, SourceLoc loc) {
  Tensor logs = log_softmax(Arg(logits, loc));
  if (weights.is_valid()) {
    logs = mul(Arg(std::move(logs), loc), Arg(weights, loc));
  }
  return neg(Arg(sum(Arg(std::move(logs), loc), -1), loc));
}

// The losses of the rows and their weights; empty weights: all 1.
struct RowLosses {
  Tensor losses;
  Tensor weights;
};

// Phases: reshape to rows; replace ignored targets; compute each row's weighted loss.
RowLosses row_losses(const Arg& logits, const Arg& targets, const CrossEntropyOptions& options) {
  const SourceLoc loc = logits.location();
  Rows rows = rows_of(logits, targets, options.class_axis);
  const std::int64_t class_count = rows.logits.shape()[1];
  check(logits, options, class_count);

  Tensor counts;  // bool: the rows that count; empty: all
  if (options.ignore_index.has_value()) {
    counts = not_equal(Arg(rows.targets, loc), Arg(*options.ignore_index, loc));
    rows.targets = where(Arg(counts, loc), Arg(rows.targets, loc), Arg(0, loc));
    // The gradient of the loss itself is 0 where the loss does not count; that of log_softmax would
    // be 0 · NaN in a row with a NaN.
    if (rows.logits.is_tracked() &&
        (options.label_smoothing > 0 || detail::has_nested_tape(rows.logits))) {
      const Tensor row_counts = reshape(Arg(counts, loc), {counts.shape()[0], 1});
      rows.logits = where(Arg(row_counts, loc), Arg(std::move(rows.logits), loc), Arg(0.0, loc));
    }
  }
  const auto without_ignored = [&](Tensor values) {
    return !counts.is_valid() ? values
                              : where(Arg(counts, loc), Arg(std::move(values), loc), Arg(0.0, loc));
  };

  Tensor losses =
      detail::wide(cross_entropy_per_row(Arg(rows.logits, loc), Arg(rows.targets, loc)));
  const DType inside = losses.dtype();
  Tensor weights;
  Tensor row_weights;
  if (options.class_weights.is_valid()) {
    weights = cast(Arg(options.class_weights, loc), inside);
    row_weights = without_ignored(detail::index_select_as(
        CalledAs::cross_entropy, Arg(weights, loc), 0, Arg(rows.targets, loc)));
    losses = mul(Arg(std::move(losses), loc), Arg(row_weights, loc));
  }
  if (options.label_smoothing > 0) {
    const double part = options.label_smoothing / static_cast<double>(class_count);
    const Tensor logits_inside = cast(Arg(rows.logits, loc), inside);
    Tensor all = spread_over_classes(logits_inside, weights, loc);
    losses = mul(Arg(std::move(losses), loc), Arg(1 - options.label_smoothing, loc));
    losses =
        add(Arg(std::move(losses), loc), Arg(mul(Arg(std::move(all), loc), Arg(part, loc)), loc));
  }
  if (!row_weights.is_valid() && counts.is_valid()) {
    row_weights = cast(Arg(counts, loc), inside);
  }
  return {without_ignored(std::move(losses)), std::move(row_weights)};
}

LossSum sum_of(RowLosses rows, SourceLoc loc) {
  return {.sum = sum(Arg(std::move(rows.losses), loc)),
          .weight = sum(Arg(std::move(rows.weights), loc))};
}

Tensor mean_of(RowLosses rows, DType dtype, SourceLoc loc) {
  if (!rows.weights.is_valid()) {
    return cast(Arg(mean(Arg(std::move(rows.losses), loc)), loc), dtype);
  }
  LossSum parts = sum_of(std::move(rows), loc);
  return cast(Arg(div(Arg(std::move(parts.sum), loc), Arg(std::move(parts.weight), loc)), loc),
              dtype);
}

}  // namespace

Tensor cross_entropy(Arg logits, Arg targets, const CrossEntropyOptions& options) {
  return detail::named_as("cross_entropy", [&] {
    const DType dtype = detail::accepted_operand(kCrossEntropyKind, logits).dtype;
    return mean_of(row_losses(logits, targets, options), dtype, logits.location());
  });
}

Tensor LossSum::mean(SourceLoc loc) const {
  const Tensor total = detail::wide(Arg(sum, loc));  // 16 bits do not hold the number of rows
  Tensor share = div(Arg(total, loc), Arg(cast(Arg(weight.detach(), loc), total.dtype()), loc));
  return cast(Arg(std::move(share), loc), sum.dtype());
}

LossSum cross_entropy_sum(Arg logits, Arg targets, const CrossEntropyOptions& options) {
  return detail::named_as("cross_entropy_sum", [&] {
    RowLosses rows = row_losses(logits, targets, options);
    if (!rows.weights.is_valid()) {
      rows.weights = ones_like(rows.losses, logits.location());
    }
    return sum_of(std::move(rows), logits.location());
  });
}

}  // namespace hearth
