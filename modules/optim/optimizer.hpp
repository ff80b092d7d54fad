// Optimizer: holds an Sgd, Adam or AdamW that is chosen at run time.
// Owned by the training loop; move-only. Threads: as the optimizer that it holds.
#pragma once

#include <hearth/modules/adam.hpp>
#include <hearth/modules/sgd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace hearth {

class Optimizer final {
 public:
  Optimizer(Sgd sgd) : content_(std::move(sgd)) {}      // NOLINT(google-explicit-constructor)
  Optimizer(Adam adam) : content_(std::move(adam)) {}   // NOLINT(google-explicit-constructor)
  Optimizer(AdamW adam) : content_(std::move(adam)) {}  // NOLINT(google-explicit-constructor)

  // Overload for types that are no modules: fails with a readable static_assert.
  template <class Model>
  requires(!Module<Model>) void step(Model& /*model*/, Gradients&& /*gradients*/) {
    static_assert(detail::refuse_no_module<Model>());
  }
  /// Steps the optimizer that it holds: Sgd::step() or Adam::step().
  template <Module Model>
  Pending<StepReport> step(Model& model,
                           Gradients&& gradients,
                           JointUpdate joint = {},
                           SourceLoc loc = SourceLoc::current()) {
    return update(parameter_refs(model), std::move(gradients), std::move(joint), loc);
  }
  // Compilers show the line: it is the message.
  // clang-format off
  template <Module Model>
  Pending<StepReport> step(Model&, const Gradients&, JointUpdate = {}, SourceLoc = SourceLoc::current()) = delete;  // a step takes the gradients over: step(model, std::move(gradients))
  // clang-format on
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
  template <Module Model>
  void prepare(Model& model, SourceLoc loc = SourceLoc::current()) {
    std::visit([&](auto& content) { content.prepare(model, loc); }, content_);
  }
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc = SourceLoc::current()) {
    std::visit([&](auto& content) { content.prepare(parameters, loc); }, content_);
  }

  /// The name of the optimizer: "Sgd", "Sgd with momentum", "Adam" or "AdamW".
  [[nodiscard]] std::string_view kind() const noexcept {
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
  [[nodiscard]] std::int64_t step_count() {
    return std::visit([](auto& content) { return content.step_count(); }, content_);
  }
  [[nodiscard]] SkippedSteps skipped_steps() {
    return std::visit([](auto& content) { return content.skipped_steps(); }, content_);
  }
  void set_step_count(std::int64_t count, SourceLoc loc = SourceLoc::current()) {
    set_step_count(count, {}, loc);
  }
  void set_step_count(std::int64_t count,
                      const SkippedSteps& skipped,
                      SourceLoc loc = SourceLoc::current()) {
    std::visit([&](auto& content) { content.set_step_count(count, skipped, loc); }, content_);
  }

  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    std::visit([&](auto& content) { content.visit(prefix, fn); }, content_);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    std::visit([&](const auto& content) { content.visit(prefix, fn); }, content_);
  }

 private:
  std::variant<Sgd, Adam, AdamW> content_;
};

}  // namespace hearth
