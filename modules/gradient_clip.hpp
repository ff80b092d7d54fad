// GradientClip: how gradients are bounded before an optimizer gets them.
// Plain data; clip() is stateless. Threads: as the gradients.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/gradients.hpp>

#include <optional>
#include <string_view>

namespace hearth {

/// Both may be set: values are bounded first, then the norm.
struct GradientClip {
  /// Each number of a gradient comes into [-max_value, max_value].
  std::optional<double> max_value = std::nullopt;
  /// All gradients together are scaled so that their Euclidean norm is this at most.
  std::optional<double> max_norm = std::nullopt;
};

/// Bounds the gradients; nothing is waited for. Parameters without a gradient stay without.
///
/// Dtypes: floats; integer tensors are left alone.
/// Errors: ArgumentError when a bound is not above 0 or not finite.
void clip(Gradients& gradients, const GradientClip& how, SourceLoc loc = SourceLoc::current());

namespace detail {
/// Errors: ArgumentError, in the name of `op`, when a bound is not above 0 or not finite.
void require_sound(const GradientClip& how, std::string_view op, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
