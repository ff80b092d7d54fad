// ParameterGroup: an optimizer's settings for some of a model's parameters, chosen by their paths.
// Plain data; the optimizer compares it with the paths when it meets the model. Threads: values.
// Invariant: a group that chooses nothing is refused, so that a misspelt path does not go
// unnoticed.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

///   hearth::AdamW optimizer({.learning_rate = 1e-3,
///                            .weight_decay = 0.1,
///                            .groups = {{.match = "*.bias", .weight_decay = 0},
///                                       {.match = "head.*", .rate_factor = 10}}});
///
/// Groups count in their order: where two that set the same thing choose a parameter, the later one
/// does. A tied parameter has its first name alone; integer tensors and Buffers are no parameters.
struct ParameterGroup {
  /// A parameter's whole path, in which * stands for any characters, dots too, or none.
  std::string match;
  std::optional<double> weight_decay = std::nullopt;  ///< In place of the optimizer's.
  /// Times the optimizer's learning rate, whatever set_learning_rate() makes of that. With 0 the
  /// parameters stay as they are, but their gradients and state are computed, and running
  /// statistics move: freeze_weights() leaves all of that out.
  std::optional<double> rate_factor = std::nullopt;
};

namespace detail {

/// What the groups say of one parameter.
struct ParameterSettings {
  std::optional<double> weight_decay = std::nullopt;
  double rate_factor = 1;
};

/// Whether a pattern chooses a path. Cost: their lengths multiplied, at worst.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view path) noexcept;
/// Errors: ArgumentError for an empty pattern, a group that sets nothing, a setting below 0 or not
/// finite.
void require_sound(std::span<const ParameterGroup> groups,
                   std::string_view optimizer,
                   SourceLoc loc);
/// By path. Errors: ArgumentError, with the paths that there are, for a pattern that chooses none.
[[nodiscard]] std::vector<ParameterSettings> settings_for(std::span<const ParameterGroup> groups,
                                                          std::span<const std::string> paths,
                                                          std::string_view optimizer,
                                                          SourceLoc loc);

}  // namespace detail

}  // namespace hearth
