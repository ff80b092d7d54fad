#include <hearth/parallel/replica.hpp>

#include "scaled_step.hpp"
#include "step_terms.hpp"

#include <hearth/modules/checkpoint.hpp>
#include <hearth/parallel/gradient_exchange.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/update_group.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// Makes gradients whose tensors are set later; those of integer parameters are zeros.
Gradients without_values(const std::vector<TensorRef>& parameters, SourceLoc where) {
  std::vector<std::string> paths;
  std::vector<Tensor> tensors;
  for (const TensorRef& parameter : parameters) {
    paths.push_back(parameter.path);
    const bool comes_later = is_float(parameter.tensor->dtype());  // or never, if it is frozen
    tensors.push_back(comes_later ? Tensor() : zeros_like(*parameter.tensor, where));
  }
  return Gradients(std::move(paths), std::move(tensors));
}

// Connects this rank's update to the coordinator.
JointUpdate joint_update(const ReplicaTask& task, const StepTerms& terms, int rank) {
  const auto prepared =
      [coordinator = terms.coordinator, step = task.step, rank](Result<PreparedUpdate> update) {
        if (update.has_value()) {
          coordinator.prepared(step, rank, std::move(update).value());
        } else {
          coordinator.abort(step, update.shared_error());
        }
      };
  return {
      .decision = task.decision, .prepared = prepared, .deadline = Deadline::in(terms.lane_limit)};
}

// Waits for the end of a step's update. Returns null if it happened, otherwise its error;
// `cancelled` if the worker was stopped during the update.
ErrorRef outcome_of(const Pending<StepReport>& update,
                    std::chrono::nanoseconds limit,
                    const std::stop_token& stop) {
  if (detail::PendingAccess::is_ready_by(update, Deadline::in(limit), stop) ||
      !stop.stop_requested()) {
    return detail::PendingAccess::peek(update, Deadline::in(std::chrono::nanoseconds::zero()))
        .shared_error();
  }
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled,
                                             .text = "DataParallel: the trainer was destroyed",
                                             .op = "DataParallel"});
}

[[noreturn]] void throw_some_weights(SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "DataParallel: the loss has a weight in some micro-batches, and none "
                            "in others",
                    .op = "DataParallel",
                    .location = where});
}

// Divides by the sum of all ranks' weights, or by 1 where that sum is 0. A rank without samples
// does not know whether the losses are means, and for means the other ranks do not divide.
void divide(Gradients& gradients, const Tensor& weight, SourceLoc call) {
  const Tensor is_zero = equal(Arg(weight, call), Arg(0.0, call));
  const Tensor divisor = where(Arg(is_zero, call), Arg(1.0, call), Arg(weight, call));
  const Tensor factor = reshape(Arg(div(Arg(1.0, call), Arg(divisor, call)), call), {});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients.has_gradient(i) && is_float(gradients[i].dtype())) {
      const DType dtype = gradients[i].dtype();  // round to 16 bits only once, after the product
      Tensor wide = cast(Arg(std::move(gradients[i]), call), accumulation_dtype(dtype));
      gradients[i] = cast(Arg(mul(Arg(std::move(wide), call), Arg(factor, call)), call), dtype);
    }
  }
}

// The plan is made once. A parameter that is frozen later would leave its bucket incomplete.
void require_planned(RankModel& model, const GradientExchange& exchange, SourceLoc where) {
  std::size_t place = 0;
  for (const std::vector<TensorRef>& refs : {model.parameters(), model.buffers()}) {
    for (const TensorRef& ref : refs) {
      if (exchange.is_summed(place++) != ref.is_trained()) {
        throw_error(Error{.code = ErrorCode::invalid_argument,
                          .text = fmt::format("DataParallel: '{}' is {} now, and was not when the "
                                              "trainer was made: take the model out and make "
                                              "another trainer",
                                              ref.path,
                                              ref.is_frozen() ? "frozen" : "trained"),
                          .op = "DataParallel",
                          .module_path = ref.path,
                          .location = where});
      }
    }
  }
}

Tensor sum_of(Tensor so_far, Tensor more, SourceLoc where) {
  return so_far.is_valid() ? add(Arg(std::move(so_far), where), Arg(std::move(more), where))
                           : std::move(more);
}

std::vector<Tensor> moved(const UpdateRule::Operands& given) {
  return {given.parameter + given.gradient};
}

}  // namespace

namespace detail {

void throw_model_taken(SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "DataParallel: the model was taken: the training has ended",
                    .op = "DataParallel",
                    .location = where});
}

Tensor checked_weight(const Tensor& weight, SourceLoc where) {
  if (weight.element_count() != 1) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("DataParallel: the weight of a loss is one number, not {}",
                                  describe(weight.dtype(), weight.shape())),
              .op = "DataParallel",
              .location = where});
  }
  return reshape(Arg(weight.detach(), where), {1})
      .to(weight.dtype() == DType::f64 ? DType::f64 : DType::f32, where);
}

void publish_all(RankModel& model) {
  for (const TensorRef& ref : model.tensors()) {
    require_tensor("publish", ref.path, *ref.tensor, {});
    ref.tensor->publish();
  }
}

void adopt_all(RankModel& model) {
  for (const TensorRef& ref : model.tensors()) {
    require_tensor("adopt", ref.path, *ref.tensor, {});
    const SoleName sole(ref);
    ref.tensor->adopt();
  }
}

}  // namespace detail

RankReplica::RankReplica(Optimizer optimizer,
                         std::unique_ptr<RankLoss> loss,
                         const Generator& first)
    : optimizer_(std::move(optimizer)),
      loss_(std::move(loss)),
      move_({.name = "move"}, moved),
      draws_{.before = first, .after = first} {}

void RankReplica::place(std::unique_ptr<RankModel> model,
                        Optimizer optimizer,
                        std::optional<WeightAverage> average,
                        std::optional<LossScaler> scaler) {
  model_ = std::move(model);
  optimizer_ = std::move(optimizer);
  average_ = std::move(average);
  scaler_ = std::move(scaler);
}

RankModel& RankReplica::model(SourceLoc where) {
  if (!model_) {
    detail::throw_model_taken(where);
  }
  return *model_;
}

std::unique_ptr<RankModel> RankReplica::take() {
  static_cast<void>(model());
  return std::move(model_);
}

Generator RankReplica::generator() const {
  const detail::MutexLock lock(mutex_);
  return draws_.decision && draws_.decision->is_committed() ? draws_.after : draws_.before;
}

void RankReplica::note(Draws draws) {
  // Destroying the previous decision may log an unread failure. The log is the user's code, so the
  // destructor runs outside of the lock.
  Draws before;
  const detail::MutexLock lock(mutex_);
  before = std::exchange(draws_, std::move(draws));
}

void RankReplica::require_values(SourceLoc where) {
  std::vector<Tensor> all;
  for (const TensorRef& ref : model(where).tensors()) {
    all.push_back(*ref.tensor);
  }
  for (const NamedTensor& state : named_tensors(optimizer_)) {
    all.push_back(state.tensor);
  }
  if (average_) {
    for (const NamedTensor& sum : named_tensors(*average_)) {
      all.push_back(sum.tensor);
    }
  }
  if (scaler_) {
    for (const NamedTensor& each : named_tensors(*scaler_)) {
      all.push_back(each.tensor);
    }
  }
  detail::require_values(all, where);
}

detail::TrainingParts RankReplica::parts() {
  return {.model = model().tensors(),
          .parameters = model().parameters(),
          .optimizer = optimizer_,
          .average = average_ ? &*average_ : nullptr,
          .scaler = scaler_ ? &*scaler_ : nullptr};
}

void RankReplica::save(const std::filesystem::path& file,
                       const TrainingProgress& progress,
                       SourceLoc where) {
  detail::save_parts(parts(), file, progress, where);
}

void RankReplica::save_weights(const std::filesystem::path& file,
                               const Metadata& metadata,
                               SourceLoc where) {
  std::vector<NamedTensor> tensors;
  for (const TensorRef& ref : model().tensors()) {
    tensors.push_back({ref.path, *ref.tensor});
  }
  if (average_ && average_->update_count() > 0) {
    for (const NamedTensor& sum : named_tensors(*average_)) {
      const auto found = std::ranges::find(tensors, sum.name, &NamedTensor::name);
      found->tensor = sum.tensor.to(found->tensor.dtype(), where);
    }
  }
  detail::write_weights(file, tensors, metadata, where);
}

detail::LoadedTraining RankReplica::read(const std::filesystem::path& file,
                                         const WorkerContext& context,
                                         SourceLoc where) {
  detail::LoadedTraining loaded = detail::read_parts(parts(), file, where);
  const std::size_t ranks = loaded.progress.generators.size();
  if (ranks != static_cast<std::size_t>(context.world)) {
    throw FileError(
        Error{.code = ErrorCode::bad_format,
              .text = fmt::format("file {}: the state of a training on {} devices, this one has {}",
                                  file.string(),
                                  ranks,
                                  context.world),
              .op = "DataParallel",
              .location = where});
  }
  return loaded;
}

void RankReplica::place(detail::LoadedTraining loaded, WorkerContext& context, SourceLoc where) {
  const Generator generator = loaded.progress.generators[static_cast<std::size_t>(context.rank)];
  static_cast<void>(detail::place_parts(parts(), std::move(loaded), where));
  context.generator = generator;
  set_generator(generator);
}

void RankReplica::run(ReplicaTask task, const StepTerms& terms, WorkerContext& context) {
  ErrorRef error = task.decision->error();
  if (error) {  // the step was aborted before its turn
    terms.coordinator.finish(task.step, context.rank, std::move(error));
    return;
  }
  const SourceLoc where = task.where;
  context.where = where;
  const Generator generator = context.generator;
  note({.before = generator, .after = generator, .decision = task.decision});
  ScaledStep scaled(scaler_ ? &*scaler_ : nullptr);
  StepScale scale;
  try {
    task.shards->take();
    GradientExchange exchange(terms.plan, terms.coordinator, context, task.step, terms.lane_limit);
    auto [gradients, has_mean_loss] = differentiate(task, terms, exchange, context);
    std::vector<Tensor> moves = exchange.collect(gradients);
    if (loss_->can_have_weight()) {
      if (!has_mean_loss) {
        divide(gradients, moves.back(), where);
      }
      moves.pop_back();
    }
    note({.before = generator, .after = context.generator, .decision = task.decision});
    error = exchange.leave_out_unused(gradients, terms.update_limit);
    if (!error) {
      JointUpdate joint = joint_update(task, terms, context.rank);
      scaled.join(gradients, joint, where);
      clip(gradients, terms.clip, where);
      joint.more = [&, this](UpdateGroup& group) { move_buffers(std::move(moves), group); };
      const Pending<StepReport> update =
          optimizer_.update(model().parameters(), std::move(gradients), std::move(joint), where);
      error = outcome_of(update, terms.update_limit, context.stop);
    }
  } catch (...) {
    error = context.failure();
    terms.coordinator.abort(task.step, error);
  }
  if (error && task.decision->abort(error)) {
    context.generator = generator;
  }
  if (!error) {
    try {
      scale = scaled.read(terms.update_limit, context);
      if (average_ && !scale.is_skipped) {
        average_->update(model().parameters(), where);
      }
    } catch (...) {
      error = context.failure();  // the step has happened, so this rank gets the state of another
    }
  }
  terms.coordinator.finish(
      task.step, context.rank, std::move(error), optimizer_.learning_rate(), scale);
}

void RankReplica::add_moves(StateUpdates& updates,
                            const ReplicaTask& task,
                            GradientExchange& exchange) {
  const std::vector<TensorRef> buffers = model().buffers();
  const std::size_t first = model().parameters().size();
  const auto share =
      static_cast<double>(task.shards->sample_count()) / static_cast<double>(task.sample_count);
  std::vector<Tensor> moves = updates.take_moves(buffers, share, task.where);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_frozen()) {
      continue;
    }
    Tensor move =
        moves[i].is_valid() ? std::move(moves[i]) : zeros_like(*buffers[i].tensor, task.where);
    exchange.add(first + i, move);
  }
}

void RankReplica::move_buffers(std::vector<Tensor> moves, UpdateGroup& group) {
  const std::vector<TensorRef> buffers = model().buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (moves[i].is_valid()) {
      group.update(move_, *buffers[i].tensor, std::move(moves[i]), {}, {});
      buffers[i].tensor->set_path(buffers[i].path);
    }
  }
}

void RankReplica::add_weight(Tensor weight,
                             GradientExchange& exchange,
                             const WorkerContext& context) {
  if (loss_->can_have_weight()) {
    const std::size_t place = model().parameters().size() + model().buffers().size();
    const DType dtype = exchange.dtype_of(place);
    weight = weight.is_valid() ? weight.to(dtype, context.where)
                               : zeros(context.device, {1}, dtype, context.where);
    exchange.add(place, weight);
  }
}

// Phases: all micro-batches except the last; then the last one, whose gradients are lent as they
// come.
RankReplica::Swept RankReplica::differentiate(ReplicaTask& task,
                                              const StepTerms& terms,
                                              GradientExchange& exchange,
                                              WorkerContext& context) {
  RankModel& model = this->model();
  require_planned(model, exchange, task.where);
  const std::size_t count = task.shards->count();
  if (count == 0) {
    exchange.add_zeros(model.parameters().size());
    return {.gradients = without_values(model.parameters(), task.where)};
  }
  StateUpdates updates;
  const StateScope scope(updates);
  const auto sweep = [&](std::size_t index, SweepTerms own) {
    own.precision = terms.precision;
    own.scaler = scaler_ ? &*scaler_ : nullptr;
    return loss_->differentiate(model, *task.shards, index, own, context);
  };
  Tensor loss_so_far;
  Tensor weight_so_far;
  const auto add_loss = [&](const Tensor& loss, const Tensor& weight) {
    const bool is_first = !loss_so_far.is_valid();
    if (!is_first && weight.is_valid() != weight_so_far.is_valid()) {
      throw_some_weights(task.where);
    }
    loss_so_far = sum_of(std::move(loss_so_far), loss.detach(), task.where);
    if (weight.is_valid()) {
      weight_so_far = sum_of(std::move(weight_so_far), weight.detach(), task.where);
    }
  };
  Gradients before;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const SweepTerms early{
        .sample_count = task.sample_count, .on_loss = add_loss, .where = task.where};
    before.accumulate(sweep(i, early).gradients, task.where);
  }
  const auto on_loss = [&](const Tensor& loss, const Tensor& weight) {
    add_loss(loss, weight);
    exchange.report_loss(loss_so_far, weight_so_far);
    add_weight(weight_so_far, exchange, context);
    add_moves(updates, task, exchange);  // the last forward pass has ended
  };
  const GradientHook on_gradient = [&](std::size_t index, Tensor& gradient) {
    if (!before.empty() && before.is_reached(index)) {
      gradient = detail::wide_sum(std::move(before[index]), std::move(gradient), task.where)
                     .to(exchange.dtype_of(index), task.where);
    }
    exchange.add(index, gradient);
  };
  const SweepTerms last{.sample_count = task.sample_count,
                        .on_loss = on_loss,
                        .on_gradient = on_gradient,
                        .where = task.where};
  Gradients gradients = sweep(count - 1, last).gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients.is_reached(i) && (before.empty() || !before.is_reached(i))) {
      exchange.record_unused(i);
    }
  }
  return {.gradients = std::move(gradients), .has_mean_loss = !weight_so_far.is_valid()};
}

}  // namespace hearth
