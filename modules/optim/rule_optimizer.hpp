// RuleOptimizer: steps a model by an OptimizerRule, Hearth's or a program's.
// Owned by the training loop; move-only. Threads: one at a time, the one whose stream owns the
// parameters.
// Invariants: (1) a failed step changes nothing and does not count, as in OptimizerState; (2) a
// parameter has the tensors of its own formula only.
#pragma once

#include <hearth/modules/optimizer_calls.hpp>
#include <hearth/modules/update_formula.hpp>

#include <hearth/runtime/update_rule.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

class Optimizer;

namespace detail {

/// A RuleOptimizer without the type of its rule.
class RuleStepper : public OptimizerCalls<RuleStepper> {
 public:
  RuleStepper(RuleConfig config, SourceLoc loc);

  /// step() with parameters that the caller lists.
  Pending<StepReport> update(std::span<const ParameterRef> parameters,
                             Gradients&& gradients,
                             JointUpdate joint = {},
                             SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::string_view name() const noexcept { return config_.name; }
  [[nodiscard]] double learning_rate() const noexcept { return config_.learning_rate; }
  /// Errors: ArgumentError when negative or not finite.
  void set_learning_rate(double rate, SourceLoc loc = SourceLoc::current());

 private:
  friend class OptimizerCalls<RuleStepper>;
  friend class hearth::Optimizer;
  class NumbersOfStep;
  struct Prepared;
  [[nodiscard]] OptimizerState& state() noexcept { return state_; }
  [[nodiscard]] const OptimizerState& state() const noexcept { return state_; }
  /// State of a parameter, in the order of its formula's slots.
  [[nodiscard]] std::vector<Tensor*> state_of(std::size_t formula, std::size_t parameter);
  /// Computes factors and inputs of a parameter's update.
  [[nodiscard]] Prepared prepared(const ParameterRef& ref,
                                  std::size_t index,
                                  const Tensor& gradient,
                                  NumbersOfStep& numbers,
                                  SourceLoc loc);
  /// The captured formula. The first call for a formula fixes its number of inputs.
  [[nodiscard]] UpdateRule& rule_of(std::size_t formula,
                                    std::size_t factor_count,
                                    std::size_t input_count,
                                    SourceLoc loc);

  RuleConfig config_;
  std::vector<std::string> slots_;                ///< Slots of all formulas, each once.
  std::vector<std::optional<UpdateRule>> rules_;  ///< [formula]
  OptimizerState state_;
};

}  // namespace detail

/// An optimizer with the formula of its rule:
///
///   hearth::RuleOptimizer<SignDescent> optimizer({.learning_rate = 1e-3});
///
/// The learning rate, weight decay and groups of the rule have the meanings that they have in Sgd.
template <OptimizerRule Rule>
class RuleOptimizer final : public detail::RuleStepper {
 public:
  using Config = Rule;

  /// Errors: ArgumentError for a setting out of its bounds, a rule without a name, a formula
  /// without an update, or a group that sets nothing.
  explicit RuleOptimizer(const Rule& rule, SourceLoc loc = SourceLoc::current())
      : RuleStepper(rule, loc), rule_(rule) {}

  /// The settings that the optimizer was made with.
  [[nodiscard]] const Rule& config() const noexcept { return rule_; }

 private:
  Rule rule_;
};

}  // namespace hearth
