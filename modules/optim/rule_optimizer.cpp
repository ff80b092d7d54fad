#include <hearth/modules/rule_optimizer.hpp>

#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

namespace hearth::detail {
namespace {

[[noreturn]] void refuse_rule(const std::string& optimizer, std::string_view text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: {}", optimizer, text),
                    .op = optimizer,
                    .location = loc});
}

// Index of the formula that updates the parameter.
std::size_t formula_of(const RuleConfig& config, const ParameterRef& parameter, SourceLoc loc) {
  const auto found = std::ranges::find_if(config.formulas, [&](const UpdateFormula& each) {
    return !each.updates || each.updates(parameter.path, parameter.tensor->shape());
  });
  if (found == config.formulas.end()) {
    refuse_rule(config.name, fmt::format("no formula updates '{}'", parameter.path), loc);
  }
  return static_cast<std::size_t>(found - config.formulas.begin());
}

std::size_t slot_of(const std::vector<std::string>& slots, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(slots, name) - slots.begin());
}

std::vector<std::string> slots_of(const std::vector<UpdateFormula>& formulas) {
  std::vector<std::string> all;
  for (const UpdateFormula& formula : formulas) {
    for (const std::string& slot : formula.slots) {
      if (std::ranges::find(all, slot) == all.end()) {
        all.push_back(slot);
      }
    }
  }
  return all;
}

void require_sound_rule(const RuleConfig& config, SourceLoc loc) {
  if (config.name.empty()) {
    refuse_rule("RuleOptimizer", "the rule has no name", loc);
  }
  for (const UpdateFormula& formula : config.formulas) {
    if (!formula.update) {
      refuse_rule(config.name, "a formula has no update", loc);
    }
  }
  std::vector<OptimizerSetting> all{{.name = "learning_rate", .value = config.learning_rate},
                                    {.name = "weight_decay", .value = config.weight_decay}};
  all.insert(all.end(), config.settings.begin(), config.settings.end());
  require_sound(config.name, all, loc);
}

// With one formula all parameters have all slots.
OptimizerState::HasSlot slots_by_formula(const RuleConfig& config,
                                         const std::vector<std::string>& slots,
                                         SourceLoc loc) {
  if (config.formulas.size() == 1) {
    return {};
  }
  return [config, slots, loc](std::size_t slot, const ParameterRef& parameter) {
    const UpdateFormula& formula = config.formulas[formula_of(config, parameter, loc)];
    return std::ranges::find(formula.slots, slots[slot]) != formula.slots.end();
  };
}

}  // namespace

/// The factors of one step. Most parameters share an entry.
class RuleStepper::NumbersOfStep final {
 public:
  NumbersOfStep(RuleStepper& stepper, SourceLoc loc) noexcept : stepper_(stepper), loc_(loc) {}

  /// The factors of a parameter's next update, in the type `wide`.
  [[nodiscard]] const std::vector<Tensor>& factors(std::size_t formula,
                                                   std::size_t parameter,
                                                   const Device& device,
                                                   DType wide) {
    const Tensor* const count = stepper_.state_.device_count(parameter);
    const std::int64_t number = count == nullptr ? stepper_.state_.next_update(parameter) : 0;
    for (const Entry& entry : entries_) {
      if (entry.formula == formula && entry.count == count && entry.number == number &&
          entry.wide == wide) {
        return entry.factors;
      }
    }
    const Tensor update_number =
        count == nullptr ? full(device, {}, static_cast<double>(number), DType::f64) : *count + 1.0;
    std::vector<Tensor> made = stepper_.config_.formulas[formula].factors(update_number);
    for (Tensor& each : made) {
      require_tensor(stepper_.config_.name, "a factor", each, loc_);
      each = each.to(wide, loc_);
    }
    entries_.push_back({.formula = formula,
                        .count = count,
                        .number = number,
                        .wide = wide,
                        .factors = std::move(made)});
    return entries_.back().factors;
  }

 private:
  struct Entry {
    std::size_t formula;
    const Tensor* count;
    std::int64_t number;
    DType wide;
    std::vector<Tensor> factors;
  };
  RuleStepper& stepper_;
  SourceLoc loc_;
  std::deque<Entry> entries_;
};

RuleStepper::RuleStepper(RuleConfig config, SourceLoc loc)
    : config_(std::move(config)),
      slots_(slots_of(config_.formulas)),
      rules_(config_.formulas.size()),
      state_(config_.name, slots_, config_.groups, loc, slots_by_formula(config_, slots_, loc)) {
  require_sound_rule(config_, loc);
}

void RuleStepper::set_learning_rate(double rate, SourceLoc loc) {
  require_sound(config_.name, {{.name = "learning_rate", .value = rate}}, loc);
  config_.learning_rate = rate;
}

UpdateRule& RuleStepper::rule_of(std::size_t formula,
                                 std::size_t factor_count,
                                 std::size_t input_count,
                                 SourceLoc loc) {
  std::optional<UpdateRule>& known = rules_[formula];
  if (!known) {
    const UpdateFormula& own = config_.formulas[formula];
    known.emplace(
        UpdateRule::Config{.name = config_.name,
                           .state_count = static_cast<int>(own.slots.size()),
                           .scalar_count = 2,
                           .input_count = static_cast<int>(factor_count + input_count)},
        [update = own.update, factor_count](const UpdateRule::Operands& o) {
          const auto first_input = o.inputs.begin() + static_cast<std::ptrdiff_t>(factor_count);
          return update({.parameter = o.parameter,
                         .gradient = o.gradient,
                         .state = o.state,
                         .rate = o.scalars[0],
                         .weight_decay = o.scalars[1],
                         .factors = {o.inputs.begin(), first_input},
                         .inputs = {first_input, o.inputs.end()}});
        },
        loc);
  }
  return *known;
}

// What one parameter's update reads and does not replace.
struct RuleStepper::Prepared {
  std::size_t formula = 0;
  std::array<double, 2> scalars{};  // rate, weight decay
  std::size_t factor_count = 0;     // the first of `inputs`
  std::vector<Tensor> inputs = {};
};

std::vector<Tensor*> RuleStepper::state_of(std::size_t formula, std::size_t parameter) {
  std::vector<Tensor*> state;
  for (const std::string& slot : config_.formulas[formula].slots) {
    state.push_back(&state_.slot(slot_of(slots_, slot), parameter));
  }
  return state;
}

RuleStepper::Prepared RuleStepper::prepared(const ParameterRef& ref,
                                            std::size_t index,
                                            const Tensor& gradient,
                                            NumbersOfStep& numbers,
                                            SourceLoc loc) {
  const ParameterSettings& own = state_.settings(index);
  Prepared result{.formula = formula_of(config_, ref, loc),
                  .scalars = {config_.learning_rate * own.rate_factor,
                              own.weight_decay.value_or(config_.weight_decay)}};
  const UpdateFormula& formula = config_.formulas[result.formula];
  const Tensor& parameter = *ref.tensor;
  const DType wide = accumulation_dtype(parameter.dtype());
  if (formula.factors) {
    result.inputs = numbers.factors(result.formula, index, parameter.device(), wide);
    result.factor_count = result.inputs.size();
  }
  if (formula.inputs) {
    UpdateOperands values{.parameter = parameter.to(wide, loc),
                          .gradient = gradient.to(wide, loc),
                          .state = {},
                          .rate = full(parameter.device(), {}, result.scalars[0], wide),
                          .weight_decay = full(parameter.device(), {}, result.scalars[1], wide),
                          .factors = result.inputs,
                          .inputs = {}};
    for (const Tensor* const each : state_of(result.formula, index)) {
      values.state.push_back(*each);
    }
    std::ranges::move(formula.inputs(values), std::back_inserter(result.inputs));
  }
  return result;
}

Pending<StepReport> RuleStepper::update(std::span<const ParameterRef> parameters,
                                        Gradients&& gradients,
                                        JointUpdate joint,
                                        SourceLoc loc) {
  NumbersOfStep numbers(*this, loc);
  std::vector<Prepared> all(parameters.size());
  const bool has_factors = std::ranges::any_of(
      config_.formulas, [](const UpdateFormula& each) { return bool(each.factors); });
  return state_.step(
      parameters,
      std::move(gradients),
      {.learning_rate = config_.learning_rate,
       .counts_updates = has_factors,
       .joint = std::move(joint)},
      loc,
      [&](UpdateGroup& group, std::size_t i, Tensor gradient) {
        const Prepared own = std::move(all[i]);
        UpdateRule& rule =
            rule_of(own.formula, own.factor_count, own.inputs.size() - own.factor_count, loc);
        group.update(rule,
                     *parameters[i].tensor,
                     std::move(gradient),
                     state_of(own.formula, i),
                     own.scalars,
                     own.inputs);
      },
      [&](std::size_t i, const Tensor& gradient) {
        all[i] = prepared(parameters[i], i, gradient, numbers, loc);
      });
}

}  // namespace hearth::detail
