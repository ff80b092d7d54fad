#include <hearth/modules/adam.hpp>

#include <hearth/modules/optimizer_setting.hpp>

#include <deque>
#include <utility>
#include <vector>

namespace hearth {
namespace {

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
  detail::require_sound("Adam",
                        {{.name = "learning_rate", .value = config.learning_rate},
                         {.name = "beta1", .value = config.beta1, .below = 1},
                         {.name = "beta2", .value = config.beta2, .below = 1},
                         {.name = "epsilon", .value = config.epsilon},
                         {.name = "weight_decay", .value = config.weight_decay}},
                        loc);
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
  detail::require_sound("Adam", {{.name = "learning_rate", .value = rate}}, loc);
  config_.learning_rate = rate;
}

Pending<StepReport> Adam::update(std::span<const ParameterRef> parameters,
                                 Gradients&& gradients,
                                 JointUpdate joint,
                                 SourceLoc loc) {
  FactorsOfStep factors(config_, loc);
  return state_.step(
      parameters,
      std::move(gradients),
      {.learning_rate = config_.learning_rate, .counts_updates = true, .joint = std::move(joint)},
      loc,
      [&](UpdateGroup& group, std::size_t i, Tensor gradient) {
        const detail::ParameterSettings& own = state_.settings(i);
        const double rate = config_.learning_rate * own.rate_factor;
        const Tensor* const count = state_.device_count(i);
        group.adam(*parameters[i].tensor,
                   std::move(gradient),
                   state_.slot(0, i),
                   state_.slot(1, i),
                   {.learning_rate = rate,
                    .beta1 = config_.beta1,
                    .beta2 = config_.beta2,
                    .epsilon = config_.epsilon,
                    .weight_decay = own.weight_decay.value_or(config_.weight_decay),
                    .decoupled = config_.decoupled,
                    .step = count == nullptr ? state_.next_update(i) : 1,
                    .factors = count == nullptr
                                   ? nullptr
                                   : &factors.of(*count, rate, parameters[i].tensor->dtype())});
      });
}

}  // namespace hearth
