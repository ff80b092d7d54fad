#include <hearth/modules/gradient_clip.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

namespace hearth {

void detail::require_sound(const GradientClip& how, std::string_view op, SourceLoc loc) {
  const auto check = [&](std::string_view name, const std::optional<double>& bound) {
    if (bound && !(*bound > 0 && std::isfinite(*bound))) {
      throw_error(Error{
          .code = ErrorCode::invalid_argument,
          .text = fmt::format("{}: {} is {}, but must be above 0 and finite", op, name, *bound),
          .op = std::string(op),
          .location = loc});
    }
  };
  check("max_value", how.max_value);
  check("max_norm", how.max_norm);
}

void clip(Gradients& gradients, const GradientClip& how, SourceLoc loc) {
  detail::require_sound(how, "clip", loc);
  gradients.require_unused("clip()", loc);
  if (how.max_value) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Tensor& gradient = gradients[i];
      if (gradients.has_gradient(i) && is_float(gradient.dtype())) {
        gradient = clamp(
            Arg(std::move(gradient), loc), Arg(-*how.max_value, loc), Arg(*how.max_value, loc));
      }
    }
  }
  if (how.max_norm && !gradients.empty()) {
    static_cast<void>(gradients.clip_by_norm(*how.max_norm, loc));
  }
}

}  // namespace hearth
