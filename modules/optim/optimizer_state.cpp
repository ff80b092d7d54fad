#include <hearth/modules/optimizer_state.hpp>

#include <hearth/runtime/layer_label.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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

// The first mismatch that an op of both would report. A gradient may have the dtype in which it was
// accumulated.
std::optional<ErrorCode> mismatch_of(const Tensor& gradient, const Tensor& parameter) {
  if (gradient.dtype() != parameter.dtype() &&
      gradient.dtype() != accumulation_dtype(parameter.dtype())) {
    return ErrorCode::dtype_mismatch;
  }
  if (gradient.shape() != parameter.shape()) {
    return ErrorCode::shape_mismatch;
  }
  if (gradient.device() != parameter.device()) {
    return ErrorCode::device_mismatch;
  }
  return std::nullopt;
}

}  // namespace

OptimizerState::OptimizerState(std::string optimizer,
                               std::vector<std::string> slots,
                               std::vector<ParameterGroup> groups,
                               SourceLoc loc,
                               HasSlot has_slot)
    : optimizer_(std::move(optimizer)),
      slots_(std::move(slots)),
      groups_(std::move(groups)),
      has_slot_(std::move(has_slot)),
      tensors_(slots_.size()) {
  detail::require_sound(groups_, optimizer_, loc);
}

void OptimizerState::require_there(SourceLoc loc) const {
  if (mark_.is_moved_from()) {
    throw_misfit(ErrorCode::invalid_argument,
                 "optimizer",
                 "it was moved from: its state is in another one now, which goes on with it",
                 {},
                 loc);
  }
}

void OptimizerState::require_steps_told(SourceLoc loc) {
  settle();
  const ErrorRef lost = lost_->take_dropped();
  if (!lost) {
    return;
  }
  detail::mark_read(*lost);
  throw_error(Error{
      .code = lost->code,
      .text = fmt::format("{}: an earlier step did not happen, and its report was dropped unread",
                          optimizer_),
      .op = optimizer_,
      .device = lost->device,
      .location = loc,
      .cause = lost});
}

void OptimizerState::prepare(std::span<const ParameterRef> parameters, SourceLoc loc) {
  require_there(loc);
  settle();
  if (has_failed_first_step_) {
    settle(true);  // a later step may have succeeded with these tensors
  }
  if (!paths_.empty() && !has_failed_first_step_) {
    const bool is_same =
        std::ranges::equal(parameters, paths_, {}, &ParameterRef::path, std::identity{});
    if (!is_same) {
      throw_misfit(ErrorCode::invalid_argument,
                   optimizer_,
                   "the model has other parameters than the one that was stepped before",
                   {},
                   loc);
    }
    require_own(parameters, loc);
    follow_frozen(parameters, loc);
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
  if (!parameters.empty()) {
    make_tensors(parameters, loc);
  }
}

void OptimizerState::require_own(std::span<const ParameterRef> parameters, SourceLoc loc) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& path = parameters[i].path;
    const Tensor& tensor = *parameters[i].tensor;
    detail::require_tensor(optimizer_, path, tensor, loc);
    for (const std::vector<Tensor>& slot : tensors_) {
      const auto code = slot[i].is_valid() ? mismatch_of(slot[i], tensor) : std::nullopt;
      if (code) {
        throw_misfit(*code,
                     optimizer_,
                     fmt::format("'{}' is {}, and the optimizer's state for it {}: that is of "
                                 "another model; take an optimizer of its own for this one",
                                 path,
                                 describe(tensor),
                                 describe(slot[i])),
                     path,
                     loc);
      }
    }
  }
}

void OptimizerState::make_tensors(std::span<const ParameterRef> parameters, SourceLoc loc) {
  std::vector<detail::ParameterSettings> settings = settings_of(parameters, loc);
  const WeightScope weights(parameters.front().tensor->device());
  std::vector<std::vector<Tensor>> tensors(slots_.size());
  std::vector<std::string> paths;
  std::vector<bool> is_trained;
  for (const ParameterRef& parameter : parameters) {
    parameter.tensor->set_path(parameter.path);  // layers set paths relative to themselves only
    std::vector<Tensor> own = tensors_of(parameter, loc);
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      tensors[slot].push_back(std::move(own[slot]));
    }
    paths.push_back(parameter.path);
    is_trained.push_back(parameter.is_trained());
  }
  tensors_ = std::move(tensors);
  paths_ = std::move(paths);
  is_trained_ = std::move(is_trained);
  settings_ = std::move(settings);
  skipped_.assign(parameters.size(), 0);
  is_asynchronous_ = counts_on_device(parameters.front().tensor->device());
  counts_.clear();
  is_conditional_ = false;
  has_failed_first_step_ = false;
}

std::vector<Tensor> OptimizerState::tensors_of(const ParameterRef& parameter, SourceLoc loc) const {
  std::vector<Tensor> own(slots_.size());
  if (!parameter.is_trained()) {
    return own;
  }
  const Tensor& weights = *parameter.tensor;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (has_slot_ && !has_slot_(slot, parameter)) {
      continue;
    }
    const std::string path = detail::join_path(slots_[slot], parameter.path);
    const detail::LayerLabel label(weights.device(), path);
    own[slot] = zeros(weights.device(), weights.shape(), accumulation_dtype(weights.dtype()), loc);
    own[slot].set_path(path);
    detail::TensorAccess::set_mark(own[slot], detail::MemberMark::wide);
  }
  return own;
}

// A newly trained parameter has had no update: all steps so far have skipped it.
void OptimizerState::follow_frozen(std::span<const ParameterRef> parameters, SourceLoc loc) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_trained() == is_trained_[i]) {
      continue;
    }
    const std::int64_t steps = step_count();
    const WeightScope weights(parameters[i].tensor->device());
    std::vector<Tensor> own = tensors_of(parameters[i], loc);
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      tensors_[slot][i] = std::move(own[slot]);
    }
    is_trained_[i] = !is_trained_[i];
    skipped_[i] = steps;
    counts_.clear();
  }
}

// Patterns match float parameters only.
std::vector<detail::ParameterSettings> OptimizerState::settings_of(
    std::span<const ParameterRef> parameters, SourceLoc loc) const {
  std::vector<std::string> paths;
  for (const ParameterRef& parameter : parameters) {
    if (is_float(parameter.tensor->dtype())) {
      paths.push_back(parameter.path);
    }
  }
  const std::vector<detail::ParameterSettings> chosen =
      detail::settings_for(groups_, paths, optimizer_, loc);
  std::vector<detail::ParameterSettings> all(parameters.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (is_float(parameters[i].tensor->dtype())) {
      all[i] = chosen[next++];
    }
  }
  return all;
}

void OptimizerState::require_fit(std::span<const ParameterRef> parameters,
                                 const Gradients& gradients,
                                 SourceLoc loc) const {
  require_there(loc);
  if (parameters.empty()) {
    throw_misfit(ErrorCode::invalid_argument, optimizer_, "the model has no parameters", {}, loc);
  }
  for (const ParameterRef& parameter : parameters) {
    detail::require_tensor(optimizer_, parameter.path, *parameter.tensor, loc);
  }
  if (gradients.is_used()) {
    throw_misfit(ErrorCode::invalid_argument,
                 optimizer_,
                 "the gradients were used already: a step, or a std::move, has taken them; compute "
                 "them anew for each step",
                 {},
                 loc);
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
    detail::require_untracked(optimizer_, parameters[i].path, parameter, loc);
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
    if (parameters[i].is_frozen()) {
      continue;
    }
    if (!gradient.is_valid()) {
      throw_misfit(ErrorCode::shape_mismatch,
                   optimizer_,
                   fmt::format("the gradients have none of '{}', which is trained: they are from "
                               "before unfreeze_weights(), or their tensors were moved away",
                               parameters[i].path),
                   parameters[i].path,
                   loc);
    }
    if (const auto code = mismatch_of(gradient, parameter)) {
      throw_misfit(*code,
                   optimizer_,
                   fmt::format("the gradient of '{}' is {}, the parameter {}",
                               parameters[i].path,
                               describe(gradient),
                               describe(parameter)),
                   parameters[i].path,
                   loc);
    }
  }
}

void OptimizerState::settle(bool waits) {
  while (!steps_in_flight_.empty() && (waits || steps_in_flight_.front().outcome.is_ready())) {
    const StepInFlight& first = steps_in_flight_.front();
    if (const Status wait = detail::PendingAccess::peek(first.outcome); !first.outcome.is_ready()) {
      wait.value();  // throws: the wait timed out, and the step's outcome is unknown
    }
    // Again, since the step may have ended right after the wait.
    const Status status = detail::PendingAccess::peek(first.outcome);
    if (status.has_value()) {
      ++step_count_;
      for (const std::size_t parameter : first.skipped) {
        ++skipped_[parameter];
      }
    }
    has_failed_first_step_ = !status.has_value() && step_count_ == 0;
    steps_in_flight_.erase(steps_in_flight_.begin());
  }
}

std::int64_t OptimizerState::step_count() {
  require_there({});
  settle(true);
  read_counts({});
  return step_count_;
}

void OptimizerState::read_counts(SourceLoc loc) {
  if (!is_conditional_) {
    return;
  }
  const std::vector<std::int64_t> counts = counts_.read(loc);
  is_conditional_ = false;
  step_count_ = counts.back();
  for (std::size_t i = 0; i < skipped_.size(); ++i) {
    skipped_[i] = step_count_ - counts[i];
  }
}

void OptimizerState::begin(UpdateGroup& group, JointUpdate& joint) {
  if (joint.before) {
    std::exchange(joint.before, {})(group);
  }
  if (joint.when.is_valid()) {
    group.when(joint.when);
  }
}

void OptimizerState::record_skipped(std::span<const ParameterRef> parameters,
                                    const Gradients& gradients) {
  skipped_now_.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (is_float(parameters[i].tensor->dtype()) && !is_updated(parameters, gradients, i)) {
      skipped_now_.push_back(i);
    }
  }
}

void OptimizerState::count_updates(std::span<const ParameterRef> parameters,
                                   const Gradients& gradients,
                                   const StepArguments& arguments,
                                   SourceLoc loc) {
  const bool is_conditional = arguments.joint.when.is_valid();
  const bool is_counted = is_asynchronous_ && arguments.counts_updates;
  if (!is_conditional && !is_counted && counts_.empty()) {
    return;
  }
  if (counts_.empty()) {
    std::vector<std::int64_t> updates;
    const std::int64_t steps = step_count();
    for (const std::int64_t skipped : skipped_) {
      updates.push_back(steps - skipped);
    }
    counts_.assign(parameters.front().tensor->device(), updates, steps, loc);
  }
  is_conditional_ = is_conditional_ || is_conditional;
  record_skipped(parameters, gradients);
  counts_.leave_out(skipped_now_);
}

SkippedSteps OptimizerState::skipped_steps() {
  static_cast<void>(step_count());
  SkippedSteps all;
  for (std::size_t i = 0; i < skipped_.size(); ++i) {
    if (skipped_[i] > 0) {
      all[paths_[i]] = skipped_[i];
    }
  }
  return all;
}

void OptimizerState::set_step_count(std::int64_t count,
                                    const SkippedSteps& skipped,
                                    SourceLoc loc) {
  static_cast<void>(step_count());
  if (count < 0) {
    throw_misfit(ErrorCode::invalid_argument,
                 optimizer_,
                 fmt::format("a count of {} steps is below 0", count),
                 {},
                 loc);
  }
  std::vector<std::int64_t> by_parameter(paths_.size());
  for (const auto& [path, steps] : skipped) {
    const auto found = std::ranges::find(paths_, path);
    if (found == paths_.end() || steps < 0 || steps > count) {
      throw_misfit(ErrorCode::invalid_argument,
                   optimizer_,
                   fmt::format("'{}' cannot have skipped {} of {} steps{}",
                               path,
                               steps,
                               count,
                               found == paths_.end() ? ": there is no such parameter" : ""),
                   path,
                   loc);
    }
    by_parameter[static_cast<std::size_t>(found - paths_.begin())] = steps;
  }
  step_count_ = count;
  reported_->store(count,
                   std::memory_order_release);  // partner: the callback of a later commit()
  skipped_ = std::move(by_parameter);
  counts_.clear();
  has_failed_first_step_ = false;
}

Pending<StepReport> OptimizerState::commit(UpdateGroup& group,
                                           StepReport report,
                                           JointUpdate joint) {
  if (!counts_.empty()) {
    counts_.advance(group);
  }
  Promise<void> outcome(group.pending_options());
  Promise<StepReport> promise(group.pending_options());
  Pending<StepReport> pending = promise.pending();
  steps_in_flight_.push_back({.outcome = outcome.pending(), .skipped = skipped_now_});
  // In a joint step, the trainer that decides reports the failure.
  const std::shared_ptr<LostReports> lost = joint.decision ? nullptr : lost_;
  group.commit(
      [outcome = std::move(outcome),
       promise = std::move(promise),
       report,
       lost,
       reported = reported_](ErrorRef error) mutable {
        // Complete the report before the outcome: the next step waits for the outcome, then checks
        // the report.
        if (error) {
          promise.set_error(lost ? lost->add(error) : error);
          outcome.set_error(std::move(error));
        } else {
          report.step = reported->fetch_add(1, std::memory_order_acq_rel) + 1;
          promise.set_value(report);
          outcome.set_value();
        }
      },
      std::move(joint));
  return pending;
}

}  // namespace hearth
