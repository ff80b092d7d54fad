#include <hearth/modules/optimizer_setting.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth::detail {

void require_sound(std::string_view optimizer,
                   const std::vector<OptimizerSetting>& settings,
                   SourceLoc loc) {
  for (const OptimizerSetting& setting : settings) {
    if (!(setting.value >= setting.least && setting.value < setting.below)) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format(
                    "{}: {} is {}, but must be {} or more and {}",
                    optimizer,
                    setting.name,
                    setting.value,
                    setting.least,
                    std::isinf(setting.below) ? "finite" : fmt::format("below {}", setting.below)),
                .op = std::string(optimizer),
                .location = loc});
    }
  }
}

}  // namespace hearth::detail
