#include <hearth/modules/activations.hpp>

#include <numbers>
#include <utility>

namespace hearth {

Tensor gelu(Arg x) {
  const SourceLoc loc = x.location();
  Tensor value = detail::taken(x, "gelu");
  Tensor scaled = mul(Arg(value, loc), Arg(1 / std::numbers::sqrt2, loc));
  Tensor doubled = add(Arg(erf(Arg(std::move(scaled), loc)), loc), Arg(1.0, loc));
  Tensor probability = mul(Arg(std::move(doubled), loc), Arg(0.5, loc));
  return mul(Arg(std::move(value), loc), Arg(std::move(probability), loc));
}

}  // namespace hearth
