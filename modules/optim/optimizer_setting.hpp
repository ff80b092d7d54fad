// OptimizerSetting: a number among an optimizer's settings, with its bounds. Plain data.
// Threads: values.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// A setting that is checked when the optimizer is made, shown in reports, and compared when a run
/// resumes.
struct OptimizerSetting {
  std::string name;                                        ///< Name of the option.
  double value = 0;                                        ///< Its value.
  double least = 0;                                        ///< Smallest possible value.
  double below = std::numeric_limits<double>::infinity();  ///< Possible values are smaller.
};

namespace detail {
/// Checks the settings of an optimizer.
///
/// Errors: ArgumentError, in the optimizer's name, for a number out of bounds.
void require_sound(std::string_view optimizer,
                   const std::vector<OptimizerSetting>& settings,
                   SourceLoc loc);
}  // namespace detail

}  // namespace hearth
