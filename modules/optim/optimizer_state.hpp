// State of an optimizer: one tensor per parameter and slot ("mean.inner.weight"), the number of
// steps that happened, and how many of these skipped each parameter. Connects the update group of a
// step to these counts.
// Owned by its optimizer. Threads: one at a time, the one whose stream owns the parameters.
// Invariants: (1) a failed step changes neither tensors nor counts; (2) at most one step is in
// flight, since the next one needs the count. Asynchronous devices count themselves, so steps there
// do not wait, and a condition of a step (JointUpdate::when) makes every device count; (3) tensors
// have the model's visit order and paths; (4) they have the accumulation_dtype() of the parameter;
// (5) a frozen parameter has none.
#pragma once

#include <hearth/modules/device_counts.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/parameter_group.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/lost_reports.hpp>
#include <hearth/runtime/base/move_mark.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/update_group.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// Result of one step.
struct StepReport {
  /// Number of the step, from 1. Failed steps do not count here; those whose condition did not hold
  /// do, because the host does not know them.
  std::int64_t step = 0;
  double learning_rate = 0;
};

/// Arguments of a step that all parameters share.
struct StepArguments {
  double learning_rate = 0;     ///< Learning rate in the report.
  bool counts_updates = false;  ///< Whether updates depend on their number.
  JointUpdate joint = {};
};

/// A parameter of the model that is stepped: see parameter_refs().
using ParameterRef = TensorRef;

/// By path, the number of completed steps that skipped a parameter because it had no gradient.
/// Holds no parameters that were never skipped.
using SkippedSteps = std::map<std::string, std::int64_t>;

class OptimizerState final {
 public:
  /// Whether a parameter has a tensor in a slot.
  using HasSlot = std::function<bool(std::size_t slot, const ParameterRef& parameter)>;

  /// `optimizer`: its name, for errors. `slots`: a name for each tensor that it keeps per
  /// parameter. `groups`: settings of some parameters. Without `has_slot`, every parameter has all
  /// tensors.
  ///
  /// Errors: ArgumentError for an unsound group.
  OptimizerState(std::string optimizer,
                 std::vector<std::string> slots,
                 std::vector<ParameterGroup> groups,
                 SourceLoc loc,
                 HasSlot has_slot = {});
  OptimizerState(const OptimizerState&) = delete;
  OptimizerState& operator=(const OptimizerState&) = delete;
  OptimizerState(OptimizerState&&) noexcept = default;
  OptimizerState& operator=(OptimizerState&&) noexcept = default;
  ~OptimizerState() = default;

  /// Throws the failure of an earlier step whose report was dropped unread, unless it was read
  /// elsewhere. Each failure is thrown once. The optimizer keeps its values and remains usable.
  /// Waits for the step in flight; on an asynchronous device it only checks known outcomes.
  ///
  /// Errors: the failure's code, with the failure as the cause; DeadlineExceeded if the step does
  /// not end.
  void require_steps_told(SourceLoc loc);
  /// Creates the tensors, all zero, unless they exist. A parameter that was frozen in the meantime
  /// loses its tensors; one that is trained again starts anew. Waits as require_steps_told(), and
  /// for all steps if the first one failed or the set of frozen parameters changed.
  ///
  /// Errors: ArgumentError if the state belongs to other parameters, the parameters are on several
  /// devices or empty, or a group matches none; DeadlineExceeded if a step does not end.
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Checks that the state belongs to these parameters.
  ///
  /// Errors: ArgumentError if it belongs to other parameters of the same names, or a parameter is
  /// empty.
  void require_own(std::span<const ParameterRef> parameters, SourceLoc loc) const;
  /// Checks that the gradients match the parameters.
  ///
  /// Errors: ArgumentError naming the parameter without a gradient of its shape, dtype and device.
  void require_fit(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   SourceLoc loc) const;

  [[nodiscard]] Tensor& slot(std::size_t slot, std::size_t parameter) {
    return tensors_[slot][parameter];
  }
  /// The group settings of a parameter. Requires prepare().
  [[nodiscard]] const detail::ParameterSettings& settings(std::size_t parameter) const {
    return settings_[parameter];
  }
  /// Number of steps that happened; without those whose condition did not hold. Waits for those in
  /// flight.
  [[nodiscard]] std::int64_t step_count();
  /// The steps in which parameters had no gradient. Waits for the steps in flight.
  [[nodiscard]] SkippedSteps skipped_steps();
  /// Sets the counts and keeps the tensors, which the caller has loaded.
  ///
  /// Errors: ArgumentError for a count below 0, and for skipped steps that exceed it or name an
  /// unknown parameter.
  void set_step_count(std::int64_t count, const SkippedSteps& skipped, SourceLoc loc);
  /// Prepares the counts for updates that depend on their number: the host reads its own, or the
  /// device counts. Call between prepare() and update_each(). Waits if the device starts to count.
  void count_updates(std::span<const ParameterRef> parameters,
                     const Gradients& gradients,
                     const StepArguments& arguments,
                     SourceLoc loc);
  /// The device's count of updates of the parameter, or nullptr if the host counts.
  [[nodiscard]] const Tensor* device_count(std::size_t parameter) const {
    return counts_.empty() ? nullptr : &counts_.of(parameter);
  }
  /// The number of the parameter's next update, from 1. Only where the host counts.
  [[nodiscard]] std::int64_t next_update(std::size_t parameter) {
    return step_count() + 1 - skipped_[parameter];
  }
  /// Makes a step. Checks parameters and gradients, and calls `prepare_update(i, gradient)` for
  /// each parameter that is updated. Then opens a group, calls `update(group, i, gradient)` for
  /// each, and closes the group. Plain ops belong in `prepare_update`: on an asynchronous device,
  /// many of them in an open group never end.
  ///
  /// Errors: those of require_fit(), require_steps_told() and prepare(); exceptions of the
  /// functions.
  template <class Update, class Prepare>
  [[nodiscard]] Pending<StepReport> step(std::span<const ParameterRef> parameters,
                                         Gradients&& gradients,
                                         StepArguments arguments,
                                         SourceLoc loc,
                                         Update update,
                                         Prepare prepare_update) {
    const detail::FloatEnvironment environment;
    require_fit(parameters, gradients, loc);
    require_steps_told(loc);
    prepare(parameters, loc);
    count_updates(parameters, gradients, arguments, loc);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (is_updated(parameters, gradients, i)) {
        prepare_update(i, gradients[i]);
      }
    }
    UpdateGroup group(parameters.front().tensor->device(), loc);
    begin(group, arguments.joint);
    Gradients taken(std::move(gradients));  // marks the argument as used
    update_each(parameters, taken, [&](std::size_t i) { update(group, i, std::move(taken[i])); });
    return commit(group, {.learning_rate = arguments.learning_rate}, std::move(arguments.joint));
  }
  template <class Update>
  [[nodiscard]] Pending<StepReport> step(std::span<const ParameterRef> parameters,
                                         Gradients&& gradients,
                                         StepArguments arguments,
                                         SourceLoc loc,
                                         Update update) {
    return step(parameters,
                std::move(gradients),
                std::move(arguments),
                loc,
                std::move(update),
                [](std::size_t /*i*/, const Tensor& /*gradient*/) {});
  }
  /// Calls `update(i)` for every parameter that has a gradient and is not frozen. Requires
  /// prepare().
  template <class Update>
  void update_each(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   Update update) {
    record_skipped(parameters, gradients);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (is_updated(parameters, gradients, i)) {
        const detail::SoleName sole(parameters[i]);
        update(i);
      }
    }
  }
  /// Closes the group. The counts advance, and the report gets its number, when the group is done.
  [[nodiscard]] Pending<StepReport> commit(UpdateGroup& group,
                                           StepReport report,
                                           JointUpdate joint = {});

  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    visit_slots(*this, prefix, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    visit_slots(*this, prefix, fn);
  }

 private:
  template <class Self, class Fn>
  static void visit_slots(Self& self, const std::string& prefix, Fn& fn) {
    for (std::size_t slot = 0; slot < self.slots_.size(); ++slot) {
      const std::string path = detail::join_path(prefix, self.slots_[slot]);
      for (std::size_t i = 0; i < self.tensors_[slot].size(); ++i) {
        if (self.tensors_[slot][i].is_valid()) {
          fn(detail::join_path(path, self.paths_[i]), self.tensors_[slot][i]);
        }
      }
    }
  }

  [[nodiscard]] static bool is_updated(std::span<const ParameterRef> parameters,
                                       const Gradients& gradients,
                                       std::size_t i) {
    return parameters[i].is_trained() && gradients.has_gradient(i);
  }

  /// A step whose outcome is not known yet.
  struct StepInFlight {
    Pending<void> outcome;
    std::vector<std::size_t> skipped;  ///< Parameters that the step leaves alone.
  };
  /// Checks that the optimizer was not moved from.
  ///
  /// Errors: ArgumentError otherwise.
  void require_there(SourceLoc loc) const;
  /// Adds what runs without a condition, then sets the condition.
  static void begin(UpdateGroup& group, JointUpdate& joint);
  /// Reads the device's counts if steps had a condition, whose outcome only the device knows.
  void read_counts(SourceLoc loc);
  /// Collects known outcomes. Waits for the others on a synchronous device.
  void settle() { settle(!is_asynchronous_); }
  void settle(bool waits);
  void record_skipped(std::span<const ParameterRef> parameters, const Gradients& gradients);
  void make_tensors(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Creates the tensors of one parameter, by slot; empty if it is not trained.
  [[nodiscard]] std::vector<Tensor> tensors_of(const ParameterRef& parameter, SourceLoc loc) const;
  /// Adapts the tensors after freeze_weights() or unfreeze_weights() of some parameters.
  void follow_frozen(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// The settings of each parameter.
  ///
  /// Errors: ArgumentError for a pattern that matches none.
  [[nodiscard]] std::vector<detail::ParameterSettings> settings_of(
      std::span<const ParameterRef> parameters, SourceLoc loc) const;

  std::string optimizer_;
  std::vector<std::string> slots_;
  std::vector<ParameterGroup> groups_;
  HasSlot has_slot_;
  std::vector<std::string> paths_;
  std::vector<detail::ParameterSettings> settings_;  ///< [parameter]
  std::vector<std::vector<Tensor>> tensors_;  ///< [slot][parameter]; empty where it is not trained.
  std::vector<bool> is_trained_;              ///< [parameter]: neither frozen nor of integers.
  std::int64_t step_count_ = 0;
  /// [parameter]: how many of step_count_ steps had no gradient.
  std::vector<std::int64_t> skipped_;
  std::vector<std::size_t> skipped_now_;  ///< Parameters that the step being built leaves alone.
  /// Whether the first step failed. Its tensors may be the cause (no memory for them), so prepare()
  /// recreates them.
  bool has_failed_first_step_ = false;
  std::vector<StepInFlight> steps_in_flight_;  ///< In submission order.
  bool is_asynchronous_ = false;               ///< Whether the parameters' device is asynchronous.
  detail::DeviceCounts counts_;
  bool is_conditional_ = false;  ///< Whether a step since the last read_counts() had a condition.
  /// Copy of step_count_ that advances when a step completes. Reports take their number from it.
  std::shared_ptr<std::atomic<std::int64_t>> reported_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<LostReports> lost_ = std::make_shared<LostReports>();
  detail::MoveMark mark_;
};

}  // namespace hearth
