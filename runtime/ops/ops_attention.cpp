#include <hearth/runtime/ops.hpp>

#include <hearth/runtime/base/float_environment.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "op_submit.hpp"
#include "runtime/tape/tape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr OpKind kAttentionOp = OpKind::attention;
constexpr double kNever = -std::numeric_limits<double>::infinity();

// Repeats heads of keys or values, so that each head of queries has one.
Tensor for_each_head(const Arg& x, std::int64_t heads) {
  const Shape& shape = x.tensor().shape();
  const int rank = shape.rank();
  if (rank < 3 || shape[rank - 3] == heads) {
    return x.tensor();
  }
  const SourceLoc loc = x.location();
  std::vector<std::int64_t> split(shape.dims().begin(), shape.dims().end() - 2);
  split.push_back(1);
  split.insert(split.end(), shape.dims().end() - 2, shape.dims().end());
  std::vector<std::int64_t> repeated = split;
  repeated[static_cast<std::size_t>(rank) - 2] = heads / shape[rank - 3];
  Shape whole = shape;
  whole.set(rank - 3, heads);
  Tensor rows = expand(Arg(reshape(x, split), loc), Shape(repeated));
  return reshape(Arg(std::move(rows), loc), whole.dims());
}

// True where query i of n attends to key j of m: j ≤ i + m - n.
Tensor causal_mask(const Device& device, std::int64_t queries, std::int64_t keys, SourceLoc loc) {
  const auto first = static_cast<double>(keys - queries);
  Tensor last = reshape(
      Arg(arange(device, first, static_cast<double>(keys), 1, DType::i64, loc), loc), {queries, 1});
  Tensor places = arange(device, 0, static_cast<double>(keys), 1, DType::i64, loc);
  return less_equal(Arg(std::move(places), loc), Arg(std::move(last), loc));
}

// Attention by plain ops: for a mask that needs a gradient, and for gradients of gradients. The
// kernel has neither. `mask` may be null.
Tensor from_plain_ops(
    const Arg& q, const Arg& k, const Arg& v, const Arg* mask, double scale, bool is_causal) {
  const SourceLoc loc = q.location();
  const DType dtype = q.tensor().dtype();
  const Device device = q.tensor().device();
  const Shape shape = q.tensor().shape();
  const int rank = shape.rank();
  const std::int64_t heads = rank > 2 ? shape[rank - 3] : 1;
  Tensor keys = transpose(Arg(for_each_head(Arg(detail::wide(k), loc), heads), loc));
  Tensor values = for_each_head(Arg(detail::wide(v), loc), heads);
  Tensor queries = mul(Arg(detail::wide(q), loc), Arg(scale, loc));
  Tensor scores = matmul(Arg(std::move(queries), loc), Arg(std::move(keys), loc));
  const bool is_bool = mask != nullptr && mask->tensor().dtype() == DType::boolean;
  if (is_bool) {
    scores = where(Arg(mask->tensor(), loc), Arg(std::move(scores), loc), Arg(kNever, loc));
  } else if (mask != nullptr) {
    scores = add(Arg(std::move(scores), loc), Arg(detail::wide(*mask), loc));
  }
  if (is_causal) {
    const Shape& both = scores.shape();
    Tensor seen = causal_mask(device, both[rank - 2], both[rank - 1], loc);
    scores = where(Arg(std::move(seen), loc), Arg(std::move(scores), loc), Arg(kNever, loc));
  }
  // A query without a key gives 0, as in the kernel.
  Tensor is_seen = not_equal(Arg(scores, loc), Arg(kNever, loc));
  const Tensor sees_any = any(Arg(std::move(is_seen), loc), -1, {.keep_dims = true});
  scores = where(Arg(sees_any, loc), Arg(std::move(scores), loc), Arg(0.0, loc));
  Tensor weights = softmax(Arg(std::move(scores), loc));
  weights = where(Arg(sees_any, loc), Arg(std::move(weights), loc), Arg(0.0, loc));
  return cast(Arg(matmul(Arg(std::move(weights), loc), Arg(std::move(values), loc)), loc), dtype);
}

Tensor attention_of(
    const Arg& q, const Arg& k, const Arg& v, const Arg* mask, const AttentionOptions& options) {
  const detail::FloatEnvironment environment;
  std::vector<Arg> inputs{q, k, v};
  if (mask != nullptr) {
    inputs.push_back(*mask);
  }
  std::vector<TensorSpec> specs;
  bool wants_statistics = false;
  for (const Arg& input : inputs) {
    static_cast<void>(detail::operand(kAttentionOp, input));
    specs.push_back(detail::spec_of(kAttentionOp, input));
    wants_statistics = wants_statistics || input.tensor().is_tracked();
  }
  static_cast<void>(detail::checked(
      rules::result_dtype(kAttentionOp, specs), kAttentionOp, std::span<const Arg>(inputs)));
  const TensorSpec result = detail::checked(
      rules::attention(
          kAttentionOp, specs[0], specs[1], specs[2], mask != nullptr ? &specs[3] : nullptr),
      kAttentionOp,
      std::span<const Arg>(inputs));
  const auto width = static_cast<double>(specs[0].shape[specs[0].shape.rank() - 1]);
  const double scale = options.scale.value_or(width == 0 ? 1 : 1 / std::sqrt(width));
  if (!std::isfinite(scale)) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kAttentionOp,
                           fmt::format("the scale {} is not finite", scale),
                           q.location(),
                           inputs);
  }
  const bool is_nested = std::ranges::any_of(
      inputs, [](const Arg& each) { return detail::has_nested_tape(each.tensor()); });
  if (is_nested || (mask != nullptr && mask->tensor().is_tracked())) {
    return detail::named_as("attention",
                            [&] { return from_plain_ops(q, k, v, mask, scale, options.causal); });
  }
  const AttentionAttributes attributes{.scale = scale, .causal = options.causal ? 1 : 0};
  // Only gradients need the statistics.
  const std::array outputs{result, rules::attention_statistics(specs[0])};
  const std::size_t count = wants_statistics ? 2 : 1;
  std::array<Tensor, 2> results;
  detail::submit({.kind = kAttentionOp,
                  .location = q.location(),
                  .inputs = inputs,
                  .attributes = detail::bytes_of(attributes)},
                 std::span(outputs).first(count),
                 std::span(results).first(count));
  return std::move(results[0]);
}

}  // namespace

Tensor attention(Arg query, Arg key, Arg value, AttentionOptions options) {
  return attention_of(query, key, value, nullptr, options);
}
Tensor attention(Arg query, Arg key, Arg value, Arg mask, AttentionOptions options) {
  return attention_of(query, key, value, &mask, options);
}

}  // namespace hearth
