#include <hearth/modules/adam.hpp>

#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <deque>
#include <limits>
#include <string>
#include <vector>

namespace hearth {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

void require_in(std::string_view setting, double value, double end, SourceLoc loc) {
  if (!(value >= 0 && value < end)) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("Adam: {} is {}, but must be 0 or more and {}",
                                  setting,
                                  value,
                                  end == kNoLimit ? "finite" : fmt::format("below {}", end)),
              .op = "Adam",
              .location = loc});
  }
}

/// Cache of Adam's factors in one step, for devices that count updates. Most parameters share an
/// entry.
class FactorsOfStep final {
 public:
  FactorsOfStep(const Adam::Config& config, SourceLoc loc) noexcept : config_(config), loc_(loc) {}

  /// Returns factors that live as long as this cache.
  [[nodiscard]] const AdamFactors& of(const Tensor& count, double rate, DType dtype) {
    for (const Entry& entry : entries_) {
      if (entry.count == &count && entry.rate == rate && entry.dtype == dtype) {
        return entry.factors;
      }
    }
    entries_.push_back(
        {.count = &count,
         .rate = rate,
         .dtype = dtype,
         .factors = adam_factors(count, rate, config_.beta1, config_.beta2, dtype, loc_)});
    return entries_.back().factors;
  }

 private:
  struct Entry {
    const Tensor* count;
    double rate;
    DType dtype;
    AdamFactors factors;
  };
  const Adam::Config& config_;
  SourceLoc loc_;
  std::deque<Entry> entries_;
};

}  // namespace

Adam::Adam(const Config& config, SourceLoc loc)
    : config_(config), state_("Adam", {"mean", "variance"}, config.groups, loc) {
  require_in("learning_rate", config.learning_rate, kNoLimit, loc);
  require_in("beta1", config.beta1, 1, loc);
  require_in("beta2", config.beta2, 1, loc);
  require_in("epsilon", config.epsilon, kNoLimit, loc);
  require_in("weight_decay", config.weight_decay, kNoLimit, loc);
}

AdamW::AdamW(const Config& config, SourceLoc loc)
    : Adam({.learning_rate = config.learning_rate,
            .beta1 = config.beta1,
            .beta2 = config.beta2,
            .epsilon = config.epsilon,
            .weight_decay = config.weight_decay,
            .decoupled = true,
            .groups = config.groups},
           loc) {}

void Adam::set_learning_rate(double rate, SourceLoc loc) {
  require_in("learning_rate", rate, kNoLimit, loc);
  config_.learning_rate = rate;
}

Pending<StepReport> Adam::update(std::span<const ParameterRef> parameters,
                                 Gradients&& gradients,
                                 JointUpdate joint,
                                 SourceLoc loc) {
  const detail::FloatEnvironment environment;
  state_.require_fit(parameters, gradients, loc);
  state_.require_steps_told(loc);
  state_.prepare(parameters, loc);
  state_.count_updates(parameters, gradients, loc);
  UpdateGroup group(parameters.front().tensor->device(), loc);
  FactorsOfStep factors(config_, loc);
  Gradients taken(std::move(gradients));  // marks the argument as used
  state_.update_each(parameters, taken, [&](std::size_t i) {
    const detail::ParameterSettings& own = state_.settings(i);
    const double rate = config_.learning_rate * own.rate_factor;
    const Tensor* const count = state_.device_count(i);
    group.adam(
        *parameters[i].tensor,
        std::move(taken[i]),
        state_.slot(0, i),
        state_.slot(1, i),
        {.learning_rate = rate,
         .beta1 = config_.beta1,
         .beta2 = config_.beta2,
         .epsilon = config_.epsilon,
         .weight_decay = own.weight_decay.value_or(config_.weight_decay),
         .decoupled = config_.decoupled,
         .step = count == nullptr ? state_.next_update(i) : 1,
         .factors = count == nullptr ? nullptr
                                     : &factors.of(*count, rate, parameters[i].tensor->dtype())});
  });
  return state_.commit(group, {.learning_rate = config_.learning_rate}, std::move(joint));
}

}  // namespace hearth
