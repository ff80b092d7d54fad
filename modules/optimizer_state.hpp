// What an optimizer remembers beside its settings: one tensor a parameter and slot ("mean.inner.
// weight"), how many steps really happened, and in how many of these a parameter had no gradient.
// It ties the update group of a step to these counts. Owned by its optimizer. Threads: one at a
// time, the one whose stream owns the parameters. Invariants: (1) a step that failed changes
// neither the tensors nor the counts; (2) at most one step is under way: the next one waits for it,
// because its bias correction depends on the count; (3) tensors stand in visit order of the model,
// with its paths.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/parameter_group.hpp>

#include <hearth/runtime/base/lost_reports.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/update_group.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hearth {

/// What a step has done.
struct StepReport {
  std::int64_t step = 0;  ///< From 1; failed steps do not count.
  double learning_rate = 0;
};

/// A parameter of the model that is stepped: see parameter_refs().
using ParameterRef = TensorRef;

/// By path, in how many of the steps that happened a parameter had no gradient and so was left
/// alone. Those that always had one are not in it.
using SkippedSteps = std::map<std::string, std::int64_t>;

class OptimizerState final {
 public:
  /// The optimizer's name, for errors, a name for each tensor that it keeps per parameter, and the
  /// settings of some parameters.
  /// Errors: ArgumentError for a group that makes no sense.
  OptimizerState(std::string optimizer,
                 std::vector<std::string> slots,
                 std::vector<ParameterGroup> groups,
                 SourceLoc loc);

  /// Throws why an earlier step did not happen whose report was dropped unread, unless the failure
  /// was read elsewhere. Each is thrown once; the optimizer has kept its values and goes on with
  /// them. Waits for the step under way. Errors: the failure's code, with the failure as the cause;
  /// DeadlineExceeded when that step does not end.
  void require_steps_told(SourceLoc loc);
  /// Makes the tensors, all zero, unless they are there. Waits for the step under way.
  /// Errors: ArgumentError when they are there for other parameters, the parameters live on several
  /// devices or are not there at all, or a group matches none; DeadlineExceeded when that step does
  /// not end.
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Errors: ArgumentError naming the parameter that has no gradient of its shape, type and device.
  void require_fit(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   SourceLoc loc) const;

  [[nodiscard]] Tensor& slot(std::size_t slot, std::size_t parameter) {
    return tensors_[slot][parameter];
  }
  /// What the groups say of a parameter. Behind prepare().
  [[nodiscard]] const detail::ParameterSettings& settings(std::size_t parameter) const {
    return settings_[parameter];
  }
  /// Steps that happened. Waits for the one under way.
  [[nodiscard]] std::int64_t step_count();
  /// Those in which a parameter had no gradient, if there are any. Waits for the step under way.
  [[nodiscard]] SkippedSteps skipped_steps();
  /// The tensors are kept as they are: the caller has given them their values.
  /// Errors: ArgumentError for a count below 0, and for skipped steps beyond it or of a parameter
  /// that is not there.
  void set_step_count(std::int64_t count, const SkippedSteps& skipped, SourceLoc loc);
  /// Adds an update of every parameter that has a gradient: `update(i, number)`, where `number`
  /// counts the parameter's own updates, from 1. Behind prepare().
  template <class Update>
  void update_each(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   Update update) {
    const std::int64_t next = step_count() + 1;
    skipped_now_.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!is_float(parameters[i].tensor->dtype())) {
        continue;
      }
      if (!gradients.has_gradient(i)) {
        skipped_now_.push_back(i);
        continue;
      }
      const detail::SoleName sole(parameters[i]);
      update(i, next - skipped_[i]);
    }
  }
  /// Closes the group; the counts move on if the group is done.
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
        if (!self.tensors_[slot][i].is_empty()) {
          fn(detail::join_path(path, self.paths_[i]), self.tensors_[slot][i]);
        }
      }
    }
  }

  /// By parameter. Errors: ArgumentError for a pattern that matches none.
  [[nodiscard]] std::vector<detail::ParameterSettings> settings_of(
      std::span<const ParameterRef> parameters, SourceLoc loc) const;

  std::string optimizer_;
  std::vector<std::string> slots_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> paths_;
  std::vector<detail::ParameterSettings> settings_;  ///< [parameter]
  std::vector<std::vector<Tensor>> tensors_;  ///< [slot][parameter]; empty for integer tensors.
  std::int64_t step_count_ = 0;
  std::vector<std::int64_t> skipped_;  ///< [parameter]; of step_count_, those without a gradient.
  std::vector<std::size_t> skipped_now_;  ///< Parameters that the step under way leaves alone.
  /// The first step failed, and the tensors may be why (no memory for them): prepare() makes them
  /// anew.
  bool is_in_doubt_ = false;
  Pending<void> under_way_;
  std::shared_ptr<LostReports> lost_ = std::make_shared<LostReports>();
};

}  // namespace hearth
