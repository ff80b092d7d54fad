// GradientClip: bounds on gradients, applied before an optimizer step.
// Plain data; clip() is stateless. Threads: as the gradients.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/gradients.hpp>

#include <optional>
#include <string_view>

namespace hearth {

/// Bounds on values and norm. If both are set, values are bounded first.
struct GradientClip {
  /// Each element of a gradient is clamped to [-max_value, max_value].
  std::optional<double> max_value = std::nullopt;
  /// All gradients are scaled together, so that their joint Euclidean norm is at most this.
  std::optional<double> max_norm = std::nullopt;
};

/// Bounds the gradients without waiting for them. Parameters without a gradient are skipped.
///
/// Dtypes: floats; integer tensors are skipped.
/// Errors: ArgumentError when a bound is not above 0 or not finite.
void clip(Gradients& gradients, const GradientClip& how, SourceLoc loc = SourceLoc::current());

namespace detail {
/// Validates the bounds.
///
/// Errors: ArgumentError, in the name of `op`, when a bound is not above 0 or not finite.
void require_sound(const GradientClip& how, std::string_view op, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
