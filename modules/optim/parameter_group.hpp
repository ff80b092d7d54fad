// ParameterGroup: optimizer settings for the parameters whose paths match a pattern. Plain data;
// the optimizer matches it against the paths at its first step. Threads: values.
// Invariant: a pattern that matches nothing is an error, so a misspelt path is noticed.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Settings for some parameters of an optimizer:
///
///   hearth::AdamW optimizer({.learning_rate = 1e-3,
///                            .weight_decay = 0.1,
///                            .groups = {{.match = "*.bias", .weight_decay = 0},
///                                       {.match = "head.*", .rate_factor = 10}}});
///
/// If two groups set the same setting of a parameter, the later one wins. A tied parameter matches
/// by its first name only. Integer tensors and Buffers are not parameters.
struct ParameterGroup {
  /// Pattern for the whole path of a parameter. `*` matches any characters, also dots or none.
  std::string match;
  std::optional<double> weight_decay = std::nullopt;  ///< Replaces the optimizer's weight decay.
  /// Multiplies the optimizer's learning rate, also after set_learning_rate(). With 0 the
  /// parameters keep their values, but gradients, state and running statistics are still computed;
  /// freeze_weights() avoids that work.
  std::optional<double> rate_factor = std::nullopt;
};

namespace detail {

/// The settings that the groups give one parameter.
struct ParameterSettings {
  std::optional<double> weight_decay = std::nullopt;
  double rate_factor = 1;
};

/// Whether a pattern matches a path. Cost: the product of their lengths at worst.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view path) noexcept;
/// Validates the groups.
///
/// Errors: ArgumentError for an empty pattern, a group that sets nothing, or a setting that is
/// below 0 or not finite.
void require_sound(std::span<const ParameterGroup> groups,
                   std::string_view optimizer,
                   SourceLoc loc);
/// Returns the settings of each path.
///
/// Errors: ArgumentError that lists the paths, for a pattern that matches none.
[[nodiscard]] std::vector<ParameterSettings> settings_for(std::span<const ParameterGroup> groups,
                                                          std::span<const std::string> paths,
                                                          std::string_view optimizer,
                                                          SourceLoc loc);

}  // namespace detail

}  // namespace hearth
