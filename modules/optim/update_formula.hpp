// What an optimizer's formula consists of: settings, tensors of state, functions over plain ops.
// Plain data. Threads: values; an optimizer calls the functions on the thread that steps it, and
// ranks of a DataParallel share them, so they change nothing.
#pragma once

#include <hearth/modules/optimizer_setting.hpp>
#include <hearth/modules/parameter_group.hpp>

#include <hearth/runtime/tensor.hpp>

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

/// Operands of a formula: the values of one parameter before its update. All have its type, or f32
/// if that has 16 bits; only the new parameter is rounded.
struct UpdateOperands {
  Tensor parameter;             ///< Values before the update.
  Tensor gradient;              ///< Gradient of the step, clipped if the training clips.
  std::vector<Tensor> state;    ///< By slot.
  Tensor rate;                  ///< Learning rate, with the parameter group's factor; a number.
  Tensor weight_decay;          ///< Decay of the optimizer or the group; a number.
  std::vector<Tensor> factors;  ///< Results of `factors`; numbers.
  std::vector<Tensor> inputs;   ///< Results of `inputs`.
};

/// How parameters are updated. Numbers in the functions become constants of the kernel, so the
/// functions capture the settings by value.
struct UpdateFormula {
  /// A name for each tensor of state that a parameter has. Each begins with zeros.
  std::vector<std::string> slots = {};
  /// Returns the new parameter, then the new state. Consists of elementwise ops, which become one
  /// kernel (UpdateRule has the rules).
  std::function<std::vector<Tensor>(const UpdateOperands& operands)> update = {};
  /// Optional: numbers that depend on how often the parameter was updated. `update_number` is an
  /// f64 of shape [], 1 in the first update; the results are f64 of shape [].
  std::function<std::vector<Tensor>(const Tensor& update_number)> factors = {};
  /// Optional: tensors that `update` cannot compute, such as norms and products. Any op is allowed.
  /// Each result has the parameter's shape or [].
  std::function<std::vector<Tensor>(const UpdateOperands& operands)> inputs = {};
  /// Optional, for rules of several formulas: whether this one updates the parameter. The first
  /// formula that does counts.
  std::function<bool(std::string_view path, const Shape& shape)> updates = {};
};

/// Settings with a formula. Optimizer, Trainer and DataParallel accept them.
///
///   struct SignDescent {
///     double learning_rate = 1e-3;
///     double weight_decay = 0;
///     std::vector<hearth::ParameterGroup> groups = {};
///
///     static std::string name() { return "SignDescent"; }
///     hearth::UpdateFormula formula() const {
///       return {.update = [](const hearth::UpdateOperands& o) -> std::vector<hearth::Tensor> {
///         return {o.parameter - o.rate * (sign(o.gradient) + o.weight_decay * o.parameter)};
///       }};
///     }
///   };
///
/// formula() may return a vector of formulas, for different kinds of parameters. A further function
/// is optional: `std::vector<OptimizerSetting> settings() const`.
template <class Rule>
concept OptimizerRule = std::copyable<Rule> && requires(const Rule& rule) {
  { rule.learning_rate } -> std::convertible_to<double>;
  { rule.weight_decay } -> std::convertible_to<double>;
  { rule.groups } -> std::convertible_to<std::vector<ParameterGroup>>;
  { rule.name() } -> std::convertible_to<std::string>;
  std::vector<UpdateFormula>{rule.formula()};
};

/// Any OptimizerRule, without its type.
struct RuleConfig {
  template <class Rule>
  requires(!std::same_as<Rule, RuleConfig> && OptimizerRule<Rule>)
      RuleConfig(const Rule& rule)  // NOLINT(google-explicit-constructor)
      : name(rule.name()),
        learning_rate(rule.learning_rate),
        weight_decay(rule.weight_decay),
        groups(rule.groups),
        formulas(std::vector<UpdateFormula>{rule.formula()}) {
    if constexpr (requires { rule.settings(); }) {
      settings = rule.settings();
    }
  }

  std::string name;                             ///< Name in errors, reports and saved states.
  double learning_rate = 0;                     ///< Learning rate of the first step.
  double weight_decay = 0;                      ///< Decay of parameters whose group sets none.
  std::vector<ParameterGroup> groups;           ///< Different settings for some parameters.
  std::vector<OptimizerSetting> settings = {};  ///< Further settings of the formulas.
  std::vector<UpdateFormula> formulas;          ///< The first that takes a parameter updates it.
};

}  // namespace hearth
