// Losses of distances between embeddings.
#include <hearth/runtime/distance_ops.hpp>
#include <hearth/runtime/metric_losses.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/composed/distances.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

using detail::At;

constexpr OpKind kMetricKind = OpKind::reduce_mean;

[[noreturn]] void refuse_metric(ErrorCode code,
                                std::string_view what,
                                std::span<const Arg> inputs) {
  std::string text(what);
  for (const Arg& input : inputs) {
    const TensorSpec spec = detail::spec_of(kMetricKind, input);
    text += (&input == inputs.data() ? ": " : ", ") + describe(spec.dtype, spec.shape);
  }
  detail::throw_op_error(code, kMetricKind, text, inputs[0].location(), inputs);
}

// Checks that all are floats of one type and shape.
void check_embeddings(std::span<const Arg> inputs, int least_rank) {
  const TensorImpl& first = detail::accepted_operand(kMetricKind, inputs[0]);
  for (const Arg& input : inputs) {
    const TensorImpl& other = detail::accepted_operand(kMetricKind, input);
    if (other.dtype != first.dtype) {
      refuse_metric(ErrorCode::dtype_mismatch, "element types differ", inputs);
    }
    if (other.layout->shape != first.layout->shape) {
      refuse_metric(ErrorCode::shape_mismatch, "shapes differ", inputs);
    }
  }
  if (first.layout->shape.rank() < least_rank) {
    refuse_metric(ErrorCode::shape_mismatch, "needs rows of elements", inputs);
  }
}

}  // namespace

Tensor triplet_margin_loss(Arg anchor,
                           Arg positive,
                           Arg negative,
                           const TripletMarginOptions& options) {
  return detail::named_as("triplet_margin_loss", [&] {
    const std::array inputs{anchor, positive, negative};
    check_embeddings(inputs, 1);
    detail::require_power(options.p, anchor);
    const At at(anchor.location());
    const DType dtype = anchor.tensor().dtype();
    const auto wide = [&](const Arg& x) { return cast(at(x.tensor()), compute_type(dtype)); };
    const auto distance = [&](const Tensor& x, const Tensor& y) {
      const Tensor apart = add(at(sub(at(x), at(y))), at(options.epsilon));
      return detail::norm_of(apart, options.p, -1, {}, at);
    };
    const Tensor from = wide(anchor);
    const Tensor near = wide(positive);
    const Tensor far = wide(negative);
    Tensor to_far = distance(from, far);
    if (options.swap) {
      to_far = minimum(at(to_far), at(distance(near, far)));
    }
    const Tensor excess = sub(at(distance(from, near)), at(to_far));
    Tensor losses = relu(at(add(at(excess), at(options.margin))));
    return cast(at(mean(at(std::move(losses)))), dtype);
  });
}

Tensor cosine_embedding_loss(Arg a, Arg b, Arg targets, double margin) {
  return detail::named_as("cosine_embedding_loss", [&] {
    const std::array pair{a, b};
    check_embeddings(pair, 1);
    const std::array inputs{a, b, targets};
    const TensorImpl& wanted = detail::operand(kMetricKind, targets);
    const Shape shape = a.tensor().shape();
    const Shape rows(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)));
    if (wanted.dtype == DType::boolean) {
      refuse_metric(ErrorCode::dtype_mismatch, "targets are the numbers 1 and -1", inputs);
    }
    if (wanted.layout->shape != rows) {
      refuse_metric(ErrorCode::shape_mismatch, "needs one target for each row", inputs);
    }
    const At at(a.location());
    const DType dtype = a.tensor().dtype();
    const auto wide = [&](const Arg& x) { return cast(at(x.tensor()), compute_type(dtype)); };
    const Tensor cosine = cosine_similarity(at(wide(a)), at(wide(b)), {.axis = -1});
    const Tensor target = targets.tensor();
    const Tensor apart = relu(at(sub(at(cosine), at(margin))));
    Tensor losses = where(at(equal(at(target), at(-1))), at(apart), at(0.0));
    losses =
        where(at(equal(at(target), at(1))), at(sub(at(1.0), at(cosine))), at(std::move(losses)));
    return cast(at(mean(at(std::move(losses)))), dtype);
  });
}

}  // namespace hearth
