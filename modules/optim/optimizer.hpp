// Optimizer: holds an Sgd, Adam, AdamW or RuleOptimizer that is chosen at run time.
// Owned by the training loop; move-only. Threads: as the optimizer that it holds.
#pragma once

#include <hearth/modules/adam.hpp>
#include <hearth/modules/rule_optimizer.hpp>
#include <hearth/modules/sgd.hpp>

#include <span>
#include <string_view>
#include <utility>
#include <variant>

namespace hearth {

class Optimizer final : public detail::OptimizerCalls<Optimizer> {
 public:
  Optimizer(Sgd sgd) : content_(std::move(sgd)) {}      // NOLINT(google-explicit-constructor)
  Optimizer(Adam adam) : content_(std::move(adam)) {}   // NOLINT(google-explicit-constructor)
  Optimizer(AdamW adam) : content_(std::move(adam)) {}  // NOLINT(google-explicit-constructor)
  template <OptimizerRule Rule>
  Optimizer(RuleOptimizer<Rule> optimizer)  // NOLINT(google-explicit-constructor)
      : Optimizer(static_cast<detail::RuleStepper&&>(optimizer)) {}
  // For rules whose type is not known.
  explicit Optimizer(detail::RuleStepper optimizer) : content_(std::move(optimizer)) {}

  /// Updates with the optimizer that it holds.
  Pending<StepReport> update(std::span<const ParameterRef> parameters,
                             Gradients&& gradients,
                             JointUpdate joint = {},
                             SourceLoc loc = SourceLoc::current()) {
    return std::visit(
        [&](auto& content) {
          return content.update(parameters, std::move(gradients), std::move(joint), loc);
        },
        content_);
  }

  /// The name of the optimizer: "Sgd", "Sgd with momentum", "Adam", "AdamW" or that of a rule.
  [[nodiscard]] std::string_view kind() const noexcept {
    const auto* const rule = std::get_if<detail::RuleStepper>(&content_);
    if (rule != nullptr) {
      return rule->name();
    }
    const Sgd* const sgd = std::get_if<Sgd>(&content_);
    if (sgd != nullptr) {
      return sgd->config().momentum == 0 ? "Sgd" : "Sgd with momentum";
    }
    return std::holds_alternative<AdamW>(content_) ? "AdamW" : "Adam";
  }
  [[nodiscard]] double learning_rate() const noexcept {
    return std::visit([](const auto& content) { return content.learning_rate(); }, content_);
  }
  void set_learning_rate(double rate, SourceLoc loc = SourceLoc::current()) {
    std::visit([&](auto& content) { content.set_learning_rate(rate, loc); }, content_);
  }

 private:
  friend class detail::OptimizerCalls<Optimizer>;
  [[nodiscard]] OptimizerState& state() noexcept {
    return std::visit([](auto& content) -> OptimizerState& { return content.state(); }, content_);
  }
  [[nodiscard]] const OptimizerState& state() const noexcept {
    return std::visit([](const auto& content) -> const OptimizerState& { return content.state(); },
                      content_);
  }

  std::variant<Sgd, Adam, AdamW, detail::RuleStepper> content_;
};

}  // namespace hearth
