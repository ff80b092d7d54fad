#include <hearth/modules/best_value.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth {

BestValue::BestValue(Goal goal, double min_change) : goal_(goal), min_change_(min_change) {
  if (!(min_change >= 0 && std::isfinite(min_change))) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("BestValue: min_change is {}, but must be 0 or more and finite",
                                  min_change)});
  }
}

bool BestValue::observe(double value) {
  const double gain = goal_ == Goal::lowest ? best_.value_or(0) - value : value - best_.value_or(0);
  const bool is_better = !std::isnan(value) && (!best_ || gain > min_change_);
  if (is_better) {
    best_ = value;
    misses_ = 0;
  } else {
    ++misses_;
  }
  return is_better;
}

}  // namespace hearth
