#include "running_norm.hpp"

#include <hearth/runtime/promotion.hpp>

#include <utility>
#include <vector>

namespace hearth::detail {

Tensor by_channel(const Tensor& values, int rank, DType dtype, SourceLoc loc) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rank) - 1, 1);
  shape.front() = values.element_count();
  Tensor column = reshape(Arg(values, loc), shape);
  return cast(Arg(std::move(column), loc), dtype);
}

Tensor normalised_by(const Arg& x,
                     const Buffer& mean,
                     const Buffer& variance,
                     const std::optional<Tensor>& weight,
                     const std::optional<Tensor>& bias,
                     double epsilon) {
  const SourceLoc loc = x.location();
  const DType dtype = x.tensor().dtype();
  const int rank = x.tensor().rank();
  const DType inside = accumulation_dtype(dtype);
  const auto column = [&](const Tensor& values) { return by_channel(values, rank, inside, loc); };
  const Tensor spread = column(variance);
  Tensor factor = rsqrt(Arg(add(Arg(spread, loc), Arg(epsilon, loc)), loc));
  if (weight) {
    factor = mul(Arg(std::move(factor), loc), Arg(column(*weight), loc));
  }
  Tensor shift = neg(Arg(mul(Arg(column(mean), loc), Arg(factor, loc)), loc));
  if (bias) {
    shift = add(Arg(std::move(shift), loc), Arg(column(*bias), loc));
  }
  Tensor result = mul(Arg(cast(x, inside), loc), Arg(std::move(factor), loc));
  result = add(Arg(std::move(result), loc), Arg(std::move(shift), loc));
  return cast(Arg(std::move(result), loc), dtype);
}

}  // namespace hearth::detail
