// What an optimizer remembers beside its settings: one tensor a parameter and slot ("mean.inner.
// weight"), how many steps really happened, and in how many of these a parameter had no gradient.
// It ties the update group of a step to these counts. Owned by its optimizer. Threads: one at a
// time, the one whose stream owns the parameters. Invariants: (1) a step that failed changes
// neither the tensors nor the counts; (2) at most one step is under way, and the next one waits for
// it, because it depends on the count; but on a device that answers later, which counts by itself,
// a step waits for none; (3) tensors stand in visit order of the model, with its paths; (4) they
// have the accumulation_dtype() of the parameter; (5) a frozen parameter has none.
#pragma once

#include <hearth/modules/device_counts.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/parameter_group.hpp>

#include <hearth/runtime/base/lost_reports.hpp>
#include <hearth/runtime/base/move_mark.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/update_group.hpp>

#include <atomic>
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
  OptimizerState(const OptimizerState&) = delete;
  OptimizerState& operator=(const OptimizerState&) = delete;
  OptimizerState(OptimizerState&&) noexcept = default;
  OptimizerState& operator=(OptimizerState&&) noexcept = default;
  ~OptimizerState() = default;

  /// Throws why an earlier step did not happen whose report was dropped unread, unless the failure
  /// was read elsewhere. Each is thrown once; the optimizer has kept its values and goes on with
  /// them. Waits for the step under way; on a device that answers later it throws only what is
  /// known. Errors: the failure's code, with the failure as the cause; DeadlineExceeded when that
  /// step does not end.
  void require_steps_told(SourceLoc loc);
  /// Makes the tensors, all zero, unless they are there. A parameter that was frozen meanwhile
  /// loses its own; one that is trained again begins as in the first step. Waits as
  /// require_steps_told(), and for all steps where the first one has failed, or other parameters
  /// are frozen than before. Errors: ArgumentError when they are there for other parameters, the
  /// parameters live on several devices or are not there at all, or a group matches none;
  /// DeadlineExceeded when that step does not end.
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Errors: ArgumentError when the state is of other parameters of the same names, or one of these
  /// is empty.
  void require_own(std::span<const ParameterRef> parameters, SourceLoc loc) const;
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
  /// Steps that happened. Waits for those under way.
  [[nodiscard]] std::int64_t step_count();
  /// Those in which a parameter had no gradient, if there are any. Waits for the steps under way.
  [[nodiscard]] SkippedSteps skipped_steps();
  /// The tensors are kept as they are: the caller has given them their values.
  /// Errors: ArgumentError for a count below 0, and for skipped steps beyond it or of a parameter
  /// that is not there.
  void set_step_count(std::int64_t count, const SkippedSteps& skipped, SourceLoc loc);
  /// For updates that depend on their number: it is known, or the device counts. Behind prepare(),
  /// before update_each(). Waits where the device begins to count.
  void count_updates(std::span<const ParameterRef> parameters,
                     const Gradients& gradients,
                     SourceLoc loc);
  /// Where the device counts: how many updates the parameter has had, else nullptr.
  [[nodiscard]] const Tensor* device_count(std::size_t parameter) const {
    return counts_.empty() ? nullptr : &counts_.of(parameter);
  }
  /// Where it does not: the number of the parameter's next update, from 1.
  [[nodiscard]] std::int64_t next_update(std::size_t parameter) {
    return step_count() + 1 - skipped_[parameter];
  }
  /// Adds an update of every parameter that has a gradient and is not frozen: `update(i)`. Behind
  /// prepare().
  template <class Update>
  void update_each(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   Update update) {
    note_skipped(parameters, gradients);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].is_trained() && gradients.has_gradient(i)) {
        const detail::SoleName sole(parameters[i]);
        update(i);
      }
    }
  }
  /// Closes the group; the counts move on if the group is done. The report gets its number then.
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

  /// A step that was made, and what is not known of it.
  struct UnderWay {
    Pending<void> outcome;
    std::vector<std::size_t> skipped;  ///< Parameters that it leaves alone.
  };
  /// Errors: ArgumentError when the optimizer was moved from.
  void require_there(SourceLoc loc) const;
  /// Takes the outcomes that are known; waits for the others unless the device answers later.
  void settle() { settle(!answers_later_); }
  void settle(bool waits);
  void note_skipped(std::span<const ParameterRef> parameters, const Gradients& gradients);
  void make_tensors(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Those of one parameter, by slot; empty where it is not trained.
  [[nodiscard]] std::vector<Tensor> tensors_of(const ParameterRef& parameter, SourceLoc loc) const;
  /// After freeze_weights() or unfreeze_weights() of some.
  void follow_frozen(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// By parameter. Errors: ArgumentError for a pattern that matches none.
  [[nodiscard]] std::vector<detail::ParameterSettings> settings_of(
      std::span<const ParameterRef> parameters, SourceLoc loc) const;

  std::string optimizer_;
  std::vector<std::string> slots_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> paths_;
  std::vector<detail::ParameterSettings> settings_;  ///< [parameter]
  std::vector<std::vector<Tensor>> tensors_;  ///< [slot][parameter]; empty where none is trained.
  std::vector<bool> is_trained_;              ///< [parameter]: neither frozen nor of integers.
  std::int64_t step_count_ = 0;
  std::vector<std::int64_t> skipped_;  ///< [parameter]; of step_count_, those without a gradient.
  std::vector<std::size_t> skipped_now_;  ///< Parameters that the step being made leaves alone.
  /// The first step failed, and the tensors may be why (no memory for them): prepare() makes them
  /// anew.
  bool is_in_doubt_ = false;
  std::vector<UnderWay> under_way_;  ///< In their order.
  bool answers_later_ = false;       ///< The parameters' device.
  detail::DeviceCounts counts_;
  /// As step_count_, where steps end: reports take their number from it.
  std::shared_ptr<std::atomic<std::int64_t>> reported_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<LostReports> lost_ = std::make_shared<LostReports>();
  detail::MoveMark mark_;
};

}  // namespace hearth
