#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "op_submit.hpp"
#include "ops_index.hpp"
#include "runtime/tape/tape.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace hearth {
namespace {

Tensor along_axis(OpKind kind, const Arg& x, int axis) {
  const TensorImpl& impl = detail::accepted_operand(kind, x);
  const Shape& shape = impl.layout->shape;
  const AxisAttributes attributes{
      .axis = detail::checked(normalize_axis(name(kind), axis, shape.rank()), kind, x),
      .keep_dims = 0};
  return detail::submit({.kind = kind,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        impl.dtype,
                        shape);
}

Tensor scanned(OpKind kind, const Arg& x, int axis) {
  const TensorImpl& impl = detail::operand(kind, x);
  const Shape& shape = impl.layout->shape;
  const ScanAttributes attributes{
      .axis = detail::checked(normalize_axis(name(kind), axis, shape.rank()), kind, x),
      .reverse = 0};
  // Sums and products of integers and bools are i64, as in sum().
  const bool widens = op_info(kind).dtype_rule == DtypeRule::given && !is_float(impl.dtype);
  return detail::submit({.kind = kind,
                         .location = x.location(),
                         .inputs = {&x, 1},
                         .attributes = detail::bytes_of(attributes)},
                        widens ? DType::i64 : impl.dtype,
                        shape);
}

}  // namespace

Tensor softmax(Arg x, int axis) {
  return along_axis(OpKind::softmax, x, axis);
}
Tensor log_softmax(Arg x, int axis) {
  return along_axis(OpKind::log_softmax, x, axis);
}

Tensor cumsum(Arg x, int axis) {
  return scanned(OpKind::cumsum, x, axis);
}
Tensor cumprod(Arg x, int axis) {
  return scanned(OpKind::cumprod, x, axis);
}
Tensor cummax(Arg x, int axis) {
  return scanned(OpKind::cummax, x, axis);
}
Tensor cummin(Arg x, int axis) {
  return scanned(OpKind::cummin, x, axis);
}

TopK topk(Arg x, std::int64_t count, TopKOptions options) {
  constexpr OpKind kKind = OpKind::topk;
  const TensorImpl& impl = detail::accepted_operand(kKind, x);
  const Shape& shape = impl.layout->shape;
  const Shape result = detail::checked(rules::topk(shape, count, options.axis), kKind, x);
  const TopkAttributes attributes{
      .axis = options.axis < 0 ? options.axis + shape.rank() : options.axis,
      .smallest = options.descending ? 0 : 1};
  const std::array specs{TensorSpec{impl.dtype, result}, TensorSpec{DType::i64, result}};
  std::array<Tensor, 2> results;
  detail::submit({.kind = kKind,
                  .location = x.location(),
                  .inputs = {&x, 1},
                  .attributes = detail::bytes_of(attributes)},
                 specs,
                 results);
  return {std::move(results[0]), std::move(results[1])};
}

TopK sort(Arg x, SortOptions options) {
  return detail::named_as("sort", [&] {
    const Shape& shape = detail::accepted_operand(OpKind::topk, x).layout->shape;
    const int axis =
        detail::checked(normalize_axis("sort", options.axis, shape.rank()), OpKind::topk, x);
    return topk(x, shape[axis], {.axis = axis, .descending = options.descending});
  });
}

namespace {

// The backward kind has no gradient of its own, as probabilities are a second result.
Tensor loss_of_plain_ops(const Arg& logits, const Arg& targets) {
  const SourceLoc loc = logits.location();
  const DType dtype = logits.tensor().dtype();
  Tensor logs = log_softmax(Arg(detail::wide(detail::shared_operand(logits)), loc), 1);
  Tensor index = unsqueeze(detail::shared_operand(targets), 1);
  Tensor chosen = detail::gather_as(
      CalledAs::cross_entropy, Arg(std::move(logs), loc), 1, Arg(std::move(index), loc));
  Tensor losses = neg(Arg(squeeze(Arg(std::move(chosen), loc), 1), loc));
  return cast(Arg(std::move(losses), loc), dtype);
}

Tensor loss_of_rows(const Arg& logits, const Arg& targets) {
  constexpr OpKind kKind = OpKind::cross_entropy;
  static_cast<void>(detail::operand(kKind, logits));
  static_cast<void>(detail::operand(kKind, targets));
  const TensorSpec rows = detail::spec_of(kKind, logits);
  const std::array inputs{logits, targets};
  const TensorSpec losses =
      detail::checked(rules::cross_entropy(rows, detail::spec_of(kKind, targets)),
                      kKind,
                      std::span<const Arg>(inputs));
  if (detail::has_nested_tape(logits.tensor())) {
    return loss_of_plain_ops(logits, targets);
  }
  // Only the gradient needs the probabilities.
  const std::array specs{losses, rows};
  const std::size_t count = logits.tensor().is_tracked() ? 2 : 1;
  std::array<Tensor, 2> results;
  detail::submit({.kind = kKind, .location = logits.location(), .inputs = inputs},
                 std::span(specs).first(count),
                 std::span(results).first(count));
  return std::move(results[0]);
}

}  // namespace

Tensor cross_entropy_per_row(Arg logits, Arg targets) {
  return detail::named_as("cross_entropy_per_row", [&] { return loss_of_rows(logits, targets); });
}

void detail::require_classes(const Arg& logits, const Arg& targets) {
  constexpr OpKind kKind = OpKind::cross_entropy;
  const TensorImpl& given = operand(kKind, targets);
  const std::array inputs{logits, targets};
  if (given.dtype != DType::i32 && given.dtype != DType::i64) {
    throw_op_error(ErrorCode::dtype_mismatch,
                   kKind,
                   fmt::format("targets must be i32 or i64, the numbers of classes, are {}: of a "
                               "table, TableOptions::target_is_class makes them",
                               describe(given.dtype, given.layout->shape)),
                   logits.location(),
                   inputs);
  }
}

Tensor cross_entropy(Arg logits, Arg targets) {
  const SourceLoc location = logits.location();
  const TensorImpl& given = detail::accepted_operand(OpKind::cross_entropy, logits);
  if (given.layout->shape.rank() > 2) {
    return cross_entropy(logits, targets, CrossEntropyOptions{});
  }
  detail::require_classes(logits, targets);
  Tensor losses = loss_of_rows(logits, targets);
  return mean(Arg(std::move(losses), location));
}

}  // namespace hearth
