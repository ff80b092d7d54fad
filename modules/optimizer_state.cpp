#include <hearth/modules/optimizer_state.hpp>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void throw_misfit(ErrorCode code,
                               const std::string& optimizer,
                               std::string_view text,
                               const std::string& path,
                               SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", optimizer, text),
                    .op = optimizer,
                    .module_path = path,
                    .location = loc});
}

std::string describe(const Tensor& tensor) {
  return fmt::format(
      "{} on {}", hearth::describe(tensor.dtype(), tensor.shape()), tensor.device().name());
}

}  // namespace

OptimizerState::OptimizerState(std::string optimizer, std::vector<std::string> slots)
    : optimizer_(std::move(optimizer)), slots_(std::move(slots)), tensors_(slots_.size()) {}

void OptimizerState::prepare(std::span<const ParameterRef> parameters, SourceLoc loc) {
  static_cast<void>(step_count());  // what it ends in says whether the tensors are to be kept
  if (!paths_.empty() && !is_in_doubt_) {
    const bool is_same =
        std::ranges::equal(parameters, paths_, {}, &ParameterRef::path, std::identity{});
    if (!is_same) {
      throw_misfit(ErrorCode::invalid_argument,
                   optimizer_,
                   "the model has other parameters than the one that was stepped before",
                   {},
                   loc);
    }
    return;
  }
  for (const ParameterRef& parameter : parameters) {
    detail::require_tensor(optimizer_, parameter.path, *parameter.tensor, loc);
    if (parameter.tensor->device() != parameters.front().tensor->device()) {
      throw_misfit(ErrorCode::device_mismatch,
                   optimizer_,
                   fmt::format("the parameters live on several devices: '{}' is {}, '{}' is {}",
                               parameters.front().path,
                               describe(*parameters.front().tensor),
                               parameter.path,
                               describe(*parameter.tensor)),
                   parameter.path,
                   loc);
    }
  }
  if (parameters.empty()) {
    return;
  }
  const WeightScope weights(parameters.front().tensor->device());
  std::vector<std::vector<Tensor>> tensors(slots_.size());
  std::vector<std::string> paths;
  for (const ParameterRef& parameter : parameters) {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const bool has_state = is_float(parameter.tensor->dtype());
      tensors[slot].push_back(has_state ? zeros_like(*parameter.tensor, loc) : Tensor());
      if (has_state) {
        tensors[slot].back().set_path(detail::join_path(slots_[slot], parameter.path));
      }
    }
    paths.push_back(parameter.path);
  }
  tensors_ = std::move(tensors);
  paths_ = std::move(paths);
  is_in_doubt_ = false;
}

void OptimizerState::require_fit(std::span<const ParameterRef> parameters,
                                 const Gradients& gradients,
                                 SourceLoc loc) const {
  if (parameters.empty()) {
    throw_misfit(ErrorCode::invalid_argument, optimizer_, "the model has no parameters", {}, loc);
  }
  if (gradients.size() != parameters.size()) {
    throw_misfit(ErrorCode::invalid_argument,
                 optimizer_,
                 fmt::format("{} gradients for {} parameters", gradients.size(), parameters.size()),
                 {},
                 loc);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = *parameters[i].tensor;
    const Tensor& gradient = gradients[i];
    if (gradients.path(i) != parameters[i].path) {
      throw_misfit(ErrorCode::invalid_argument,
                   optimizer_,
                   fmt::format("gradient {} is for '{}', the parameter is '{}'",
                               i,
                               gradients.path(i),
                               parameters[i].path),
                   parameters[i].path,
                   loc);
    }
    if (gradient.is_empty() || gradient.shape() != parameter.shape() ||
        gradient.dtype() != parameter.dtype() || gradient.device() != parameter.device()) {
      throw_misfit(ErrorCode::shape_mismatch,
                   optimizer_,
                   fmt::format("the gradient of '{}' is {}, the parameter {}",
                               parameters[i].path,
                               gradient.is_empty() ? "empty" : describe(gradient),
                               describe(parameter)),
                   parameters[i].path,
                   loc);
    }
  }
}

std::int64_t OptimizerState::step_count() {
  if (under_way_.is_valid()) {
    const Status status = under_way_.wait();
    if (!under_way_.is_ready()) {
      status.value();  // the wait's own deadline: nothing is known about the step
    }
    step_count_ += status.has_value() ? 1 : 0;
    under_way_ = {};
    is_in_doubt_ = !status.has_value() && step_count_ == 0;
  }
  return step_count_;
}

void OptimizerState::set_step_count(std::int64_t count, SourceLoc loc) {
  static_cast<void>(step_count());
  if (count < 0) {
    throw_misfit(ErrorCode::invalid_argument,
                 optimizer_,
                 fmt::format("a count of {} steps is below 0", count),
                 {},
                 loc);
  }
  step_count_ = count;
  is_in_doubt_ = false;
}

Pending<StepReport> OptimizerState::commit(UpdateGroup& group,
                                           StepReport report,
                                           JointUpdate joint) {
  Promise<void> outcome(group.pending_options());
  Promise<StepReport> promise(group.pending_options());
  Pending<StepReport> pending = promise.pending();
  under_way_ = outcome.pending();
  group.commit(
      [outcome = std::move(outcome), promise = std::move(promise), report](ErrorRef error) mutable {
        if (error) {
          outcome.set_error(error);
          promise.set_error(std::move(error));
        } else {
          outcome.set_value();
          promise.set_value(report);
        }
      },
      std::move(joint));
  return pending;
}

}  // namespace hearth
