#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

using detail::At;

// The factor of gelu(x) = x·factor, between 0 and 1, in its erf form; the tanh form follows.
Tensor gelu_share_by_erf(const Tensor& x, SourceLoc loc) {
  Tensor scaled = mul(Arg(x, loc), Arg(1 / std::numbers::sqrt2, loc));
  Tensor doubled = add(Arg(erf(Arg(std::move(scaled), loc)), loc), Arg(1.0, loc));
  return mul(Arg(std::move(doubled), loc), Arg(0.5, loc));
}

// The argument of the tanh is sqrt(2/pi) * (x + 0.044715 * x^3).
Tensor gelu_share_by_tanh(const Tensor& x, SourceLoc loc) {
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Tensor cubic = mul(Arg(square(Arg(x, loc)), loc), Arg(0.044715 * kScale, loc));
  Tensor slope = add(Arg(std::move(cubic), loc), Arg(kScale, loc));
  Tensor inner = mul(Arg(x, loc), Arg(std::move(slope), loc));
  Tensor doubled = add(Arg(tanh(Arg(std::move(inner), loc)), loc), Arg(1.0, loc));
  return mul(Arg(std::move(doubled), loc), Arg(0.5, loc));
}

// Computes x·share(x), in the type of x.
template <class Share>
Tensor gated(const Arg& x, const Share& share) {
  return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
    return mul(at(value), at(share(value, at.location())));
  });
}

void check_option(const Arg& x, bool is_right, std::string_view option, double value) {
  static_cast<void>(detail::accepted_operand(OpKind::sigmoid, x));
  if (!is_right) {
    detail::throw_op_error(
        ErrorCode::invalid_argument, OpKind::sigmoid, fmt::format("{} is {}", option, value), x);
  }
}

// x above 0, else alpha·(exp(x / width) - 1). Values above 0 are 0 in the curve, so that neither it
// nor its gradient overflows.
Tensor exponential_below(const Tensor& x, double alpha, double width, const At& at) {
  const Tensor is_above = greater(at(x), at(0.0));
  Tensor below = where(at(is_above), at(0.0), at(x));
  if (width != 1) {
    below = div(at(std::move(below)), at(width));
  }
  Tensor curve = expm1(at(std::move(below)));
  if (alpha != 1) {
    curve = mul(at(std::move(curve)), at(alpha));
  }
  return where(at(is_above), at(x), at(std::move(curve)));
}

// max(x, 0) + log1p(exp(-|x|)) is log(1 + exp(x)).
Tensor smooth_relu(const Tensor& x, const At& at) {
  Tensor distance = neg(at(abs(at(x))));
  Tensor rest = log1p(at(exp(at(std::move(distance)))));
  return add(at(maximum(at(x), at(0.0))), at(std::move(rest)));
}

// x + 3 limited to [0, 6].
Tensor limited_shift(const Tensor& x, const At& at) {
  return clamp(at(add(at(x), at(3.0))), at(0.0), at(6.0));
}

}  // namespace

Tensor leaky_relu(Arg x, double slope) {
  return detail::named_as("leaky_relu", [&] {
    static_cast<void>(detail::accepted_operand(OpKind::sigmoid, x));
    const SourceLoc loc = x.location();
    const Tensor value = detail::take(x);
    Tensor is_above = greater(Arg(value, loc), Arg(0.0, loc));
    Tensor below = mul(Arg(value, loc), Arg(slope, loc));
    return where(Arg(std::move(is_above), loc), Arg(value, loc), Arg(std::move(below), loc));
  });
}

Tensor silu(Arg x) {
  return detail::named_as("silu", [&] {
    return gated(x, [](const Tensor& value, SourceLoc loc) { return sigmoid(Arg(value, loc)); });
  });
}

Tensor gelu(Arg x, GeluForm form) {
  return detail::named_as("gelu", [&] {
    return gated(x, form == GeluForm::erf ? gelu_share_by_erf : gelu_share_by_tanh);
  });
}

Tensor elu(Arg x, double alpha) {
  return detail::named_as("elu", [&] {
    check_option(x, std::isfinite(alpha), "alpha", alpha);
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      return exponential_below(value, alpha, 1, at);
    });
  });
}

Tensor selu(Arg x) {
  return detail::named_as("selu", [&] {
    constexpr double kAlpha = 1.6732632423543772848170429916717;
    constexpr double kScale = 1.0507009873554804934193349852946;
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      return mul(at(exponential_below(value, kAlpha, 1, at)), at(kScale));
    });
  });
}

Tensor celu(Arg x, double alpha) {
  return detail::named_as("celu", [&] {
    check_option(x, std::isfinite(alpha) && alpha != 0, "alpha", alpha);
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      return exponential_below(value, alpha, alpha, at);
    });
  });
}

Tensor softplus(Arg x, SoftplusOptions options) {
  return detail::named_as("softplus", [&] {
    const double beta = options.beta;
    check_option(x, std::isfinite(beta) && beta != 0, "beta", beta);
    check_option(x, !std::isnan(options.threshold), "threshold", options.threshold);
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      const Tensor scaled = beta == 1 ? value : mul(at(value), at(beta));
      Tensor curve = smooth_relu(scaled, at);
      if (beta != 1) {
        curve = div(at(std::move(curve)), at(beta));
      }
      Tensor is_straight = greater(at(scaled), at(options.threshold));
      return where(at(std::move(is_straight)), at(value), at(std::move(curve)));
    });
  });
}

Tensor mish(Arg x) {
  return detail::named_as("mish", [&] {
    return gated(x, [](const Tensor& value, SourceLoc loc) {
      const At at(loc);
      return tanh(at(smooth_relu(value, at)));
    });
  });
}

Tensor hardsigmoid(Arg x) {
  return detail::named_as("hardsigmoid", [&] {
    return detail::computed_wide(x, [](const Tensor& value, const At& at) {
      return div(at(limited_shift(value, at)), at(6.0));
    });
  });
}

Tensor hardswish(Arg x) {
  return detail::named_as("hardswish", [&] {
    return detail::computed_wide(x, [](const Tensor& value, const At& at) {
      Tensor product = mul(at(value), at(limited_shift(value, at)));
      return div(at(std::move(product)), at(6.0));
    });
  });
}

Tensor softsign(Arg x) {
  return detail::named_as("softsign", [&] {
    return detail::computed_wide(x, [](const Tensor& value, const At& at) {
      return div(at(value), at(add(at(abs(at(value))), at(1.0))));
    });
  });
}

}  // namespace hearth
