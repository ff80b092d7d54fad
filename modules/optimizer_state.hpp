// What an optimizer remembers beside its settings: one tensor a parameter and slot ("mean.inner.
// weight"), and how many steps really happened. It ties the update group of a step to that count.
// Owned by its optimizer. Threads: one at a time, the one whose stream owns the parameters.
// Invariants: (1) a step that failed changes neither the tensors nor the count; (2) at most one
// step is under way: the next one waits for it, because its bias correction depends on the count;
// (3) tensors stand in visit order of the model, with its paths.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/optimizer_step.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hearth {

/// What a step has done.
struct StepReport {
  std::int64_t step = 0;  ///< From 1; failed steps do not count.
  double learning_rate = 0;
};

/// A parameter of the model that is stepped.
struct ParameterRef {
  std::string path;
  Tensor* tensor;
};

template <Module Model>
[[nodiscard]] std::vector<ParameterRef> parameter_refs(Model& model) {
  std::vector<ParameterRef> all;
  model.visit("", [&](const std::string& path, Tensor& tensor) { all.push_back({path, &tensor}); });
  return all;
}

class OptimizerState final {
 public:
  /// The optimizer's name, for errors, and a name for each tensor that it keeps per parameter.
  OptimizerState(std::string optimizer, std::vector<std::string> slots);

  /// Makes the tensors, all zero, unless they are there. Waits for the step under way.
  /// Errors: ArgumentError when they are there for other parameters, or the parameters live on
  /// several devices or are not there at all; DeadlineExceeded when that step does not end.
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc);
  /// Errors: ArgumentError naming the parameter that has no gradient of its shape, type and device.
  void require_fit(std::span<const ParameterRef> parameters,
                   const Gradients& gradients,
                   SourceLoc loc) const;

  [[nodiscard]] Tensor& slot(std::size_t slot, std::size_t parameter) {
    return tensors_[slot][parameter];
  }
  /// Steps that happened. Waits for the one under way.
  [[nodiscard]] std::int64_t step_count();
  /// The tensors are kept as they are: whoever sets the count has given them their values.
  void set_step_count(std::int64_t count, SourceLoc loc);
  /// Closes the group; the count moves on if the group is done.
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

  std::string optimizer_;
  std::vector<std::string> slots_;
  std::vector<std::string> paths_;
  std::vector<std::vector<Tensor>> tensors_;  ///< [slot][parameter]; empty for integer tensors.
  std::int64_t step_count_ = 0;
  /// The first step failed, and the tensors may be why (no memory for them): prepare() makes them
  /// anew.
  bool is_in_doubt_ = false;
  Pending<void> under_way_;
};

}  // namespace hearth
