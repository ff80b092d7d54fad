#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

// Both are floats of one type and shape: a target that broadcasts is mostly a mistake.
void check_alike(std::string_view what, const Arg& x, const Arg& target) {
  constexpr OpKind kKind = OpKind::reduce_mean;
  const TensorImpl& left = detail::accepted_operand(kKind, x);
  const TensorImpl& right = detail::accepted_operand(kKind, target);
  const bool has_type = left.dtype == right.dtype;
  if (has_type && left.layout->shape == right.layout->shape) {
    return;
  }
  const std::array inputs{x, target};
  detail::throw_op_error(has_type ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                         kKind,
                         fmt::format("{} differ: {} {}, target {}",
                                     has_type ? "shapes" : "element types",
                                     what,
                                     describe(left.dtype, left.layout->shape),
                                     describe(right.dtype, right.layout->shape)),
                         x.location(),
                         inputs);
}

Tensor mean_of(Tensor losses, DType dtype, SourceLoc loc) {
  return cast(Arg(mean(Arg(std::move(losses), loc)), loc), dtype);
}

}  // namespace

Tensor mse_loss(Arg prediction, Arg target) {
  return detail::named_as("mse_loss", [&] {
    check_alike("prediction", prediction, target);
    const SourceLoc loc = prediction.location();
    const DType dtype = prediction.tensor().dtype();
    Tensor wanted = detail::wide(detail::shared_operand(target));
    Tensor difference = sub(Arg(detail::wide(prediction), loc), Arg(std::move(wanted), loc));
    return mean_of(square(Arg(std::move(difference), loc)), dtype, loc);
  });
}

Tensor nll_loss(Arg log_probabilities, Arg targets) {
  return detail::named_as("nll_loss", [&] {
    constexpr OpKind kKind = OpKind::cross_entropy;
    static_cast<void>(detail::operand(kKind, log_probabilities));
    static_cast<void>(detail::operand(kKind, targets));
    const std::array inputs{log_probabilities, targets};
    static_cast<void>(
        detail::checked(rules::cross_entropy(detail::spec_of(kKind, log_probabilities),
                                             detail::spec_of(kKind, targets)),
                        kKind,
                        std::span<const Arg>(inputs)));
    const SourceLoc loc = log_probabilities.location();
    const DType dtype = log_probabilities.tensor().dtype();
    Tensor index = unsqueeze(detail::shared_operand(targets), 1);
    Tensor chosen =
        gather(Arg(detail::wide(log_probabilities), loc), 1, Arg(std::move(index), loc));
    return mean_of(neg(Arg(std::move(chosen), loc)), dtype, loc);
  });
}

// -t*log(p) - (1-t)*log(1-p) with p = sigmoid(x) is max(x, 0) - x*t + log(1 + exp(-|x|)), where no
// exponential overflows and no logarithm sees 0.
Tensor binary_cross_entropy_with_logits(Arg logits, Arg targets) {
  return detail::named_as("binary_cross_entropy_with_logits", [&] {
    check_alike("logits", logits, targets);
    const SourceLoc loc = logits.location();
    const DType dtype = logits.tensor().dtype();
    Tensor wanted = detail::wide(detail::shared_operand(targets));
    const Tensor x = detail::wide(logits);
    Tensor product = mul(Arg(x, loc), Arg(std::move(wanted), loc));
    Tensor above = maximum(Arg(x, loc), Arg(0.0, loc));
    Tensor straight = sub(Arg(std::move(above), loc), Arg(std::move(product), loc));
    Tensor distance = neg(Arg(abs(Arg(x, loc)), loc));
    Tensor bend = log1p(Arg(exp(Arg(std::move(distance), loc)), loc));
    return mean_of(add(Arg(std::move(straight), loc), Arg(std::move(bend), loc)), dtype, loc);
  });
}

}  // namespace hearth
