#include <hearth/runtime/update_group.hpp>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include "runtime/client/ask.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/client/tickets.hpp"
#include "runtime/ops/expression_op.hpp"
#include "runtime/ops/update_rules.hpp"

namespace hearth {
namespace {

using detail::update_of;

// A gradient or state has the parameter's type, or its accumulation type.
bool has_type_for(DType other, DType parameter) noexcept {
  return other == parameter || other == accumulation_dtype(parameter);
}

void require_like(std::string_view op,
                  const Tensor& parameter,
                  const Tensor& other,
                  const char* what,
                  SourceLoc loc) {
  const TensorImpl* const a = detail::TensorAccess::impl(parameter);
  const TensorImpl* const b = detail::TensorAccess::impl(other);
  // Layouts are interned: one for each shape.
  const bool is_alike = a != nullptr && b != nullptr && a->layout == b->layout &&
                        has_type_for(b->dtype, a->dtype) && is_float(a->dtype);
  if (is_alike) [[likely]] {
    return;
  }
  const auto refuse = [&](ErrorCode code, const std::string& rule) {
    throw_error(Error{.code = code,
                      .text = fmt::format("{}: {}", op, rule),
                      .op = std::string(op),
                      .location = loc});
  };
  const auto text = [](const Tensor& tensor) {
    return !tensor.is_valid() ? std::string("an empty tensor")
                              : describe(tensor.dtype(), tensor.shape());
  };
  const bool is_any_empty = a == nullptr || b == nullptr;
  if (!is_any_empty && !has_type_for(b->dtype, a->dtype)) {
    refuse(ErrorCode::dtype_mismatch,
           fmt::format("parameter {} and {} {} have different types; cast one",
                       text(parameter),
                       what,
                       text(other)));
  }
  if (is_any_empty || parameter.shape() != other.shape()) {
    refuse(ErrorCode::shape_mismatch,
           fmt::format("parameter {} and {} {} differ", text(parameter), what, text(other)));
  }
  if (!is_float(parameter.dtype())) {
    refuse(ErrorCode::dtype_mismatch,
           fmt::format("parameters are floats, got {}", text(parameter)));
  }
}

bool are_equal(const AdamUpdate& a, const AdamUpdate& b) noexcept {
  return a.learning_rate == b.learning_rate && a.beta1 == b.beta1 && a.beta2 == b.beta2 &&
         a.epsilon == b.epsilon && a.weight_decay == b.weight_decay && a.decoupled == b.decoupled &&
         a.step == b.step;
}

// Most updates of a group have equal options: the two powers and two roots are computed once.
std::span<const double> scalars_of(OpenGroup& group, const AdamUpdate& options) {
  const detail::FloatEnvironment environment;
  if (!group.adam_options || !are_equal(*group.adam_options, options)) {
    const auto step = static_cast<double>(options.step);
    const double decay = options.learning_rate * options.weight_decay;
    group.adam_options = options;
    group.adam_scalars = {options.decoupled ? 1.0 - decay : options.weight_decay,
                          options.beta1,
                          1.0 - options.beta1,
                          options.beta2,
                          1.0 - options.beta2,
                          options.learning_rate / (1.0 - std::pow(options.beta1, step)),
                          1.0 / std::sqrt(1.0 - std::pow(options.beta2, step)),
                          options.epsilon};
  }
  return group.adam_scalars;
}

// Replaces a 16-bit state, for instance from an older file, by its values in f32.
void widen(Tensor& state, DType parameter, SourceLoc loc) {
  const DType wide = accumulation_dtype(parameter);
  if (state.dtype() != wide) {
    const WeightScope weights(state.device());
    detail::TensorAccess::set_values(state, cast(Arg(state, loc), wide));
  }
}

detail::UpdateTypes types_of(std::span<const Arg> inputs, const Tensor& condition) {
  return {.parameter = inputs[0].tensor().dtype(),
          .gradient = inputs[1].tensor().dtype(),
          .is_conditional = condition.is_valid()};
}

// The condition as a bool of shape []. A comparison with NaN is false.
Tensor as_condition(const Tensor& given, SourceLoc loc) {
  const Tensor one = reshape(Arg(given, loc), {});
  if (given.dtype() == DType::boolean) {
    return one;
  }
  return is_float(given.dtype()) ? greater(Arg(abs(Arg(one, loc)), loc), Arg(0.0, loc))
                                 : not_equal(Arg(one, loc), Arg(0, loc));
}

// Runs one update; `replaced` are the tensors that get the results, in order. A condition is the
// last input.
void run_update(OpenGroup& group,
                const ExpressionRef& rule,
                std::span<const Arg> inputs,
                const Tensor& condition,
                std::span<const double> scalars,
                std::span<Tensor* const> replaced,
                SourceLoc loc) {
  std::vector<Arg> with_condition;
  if (condition.is_valid()) {
    with_condition.assign(inputs.begin(), inputs.end());
    with_condition.emplace_back(condition, loc);
    inputs = with_condition;
  }
  std::array<Tensor, kMostExpressionOutputs> results;
  const PathId path =
      detail::TensorAccess::impl(inputs[0].tensor())->path.load(std::memory_order_acquire);
  const auto flags =
      static_cast<unsigned>(RecordFlag::exclusive) | static_cast<unsigned>(RecordFlag::update);
  detail::submit({.expression = rule,
                  .inputs = inputs,
                  .parameters = detail::ParameterBits(*rule, scalars),
                  .location = loc,
                  .flags = static_cast<std::uint16_t>(flags)},
                 std::span<Tensor>(results).first(replaced.size()));
  for (std::size_t i = 0; i < replaced.size(); ++i) {
    detail::TensorAccess::impl(results[i])->path.store(path, std::memory_order_release);
    group.made.add(name_of(*detail::TensorAccess::impl(results[i])));
    detail::TensorAccess::set_values(*replaced[i], std::move(results[i]));
  }
}

}  // namespace

// The group runs as a whole on its stream, so no update can use another one's result, or a tensor
// of another device.
void UpdateGroup::require_outside(std::string_view op,
                                  const Tensor& tensor,
                                  const char* what) const {
  if (tensor.is_valid() && &*detail::TensorAccess::impl(tensor)->endpoint != &device_.endpoint()) {
    throw_error(
        Error{.code = ErrorCode::device_mismatch,
              .text = fmt::format("{}: {} {} is on {}, the update group on {}; move it with "
                                  "to(device)",
                                  op,
                                  what,
                                  describe(tensor.dtype(), tensor.shape()),
                                  detail::TensorAccess::impl(tensor)->endpoint->name(),
                                  device_.name()),
              .op = std::string(op),
              .location = loc_});
  }
  if (tensor.is_valid() && open_->makes(*detail::TensorAccess::impl(tensor))) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("update group: {} {} was updated in this group already",
                                          what,
                                          describe(tensor.dtype(), tensor.shape())),
                      .location = loc_});
  }
}

void UpdateGroup::require_fit(std::string_view op,
                              const Tensor& parameter,
                              const Tensor& other,
                              const char* what) const {
  require_outside(op, other, what);
  require_like(op, parameter, other, what, loc_);
}

void UpdateGroup::require_input(std::string_view op,
                                const Tensor& parameter,
                                const Tensor& input) const {
  if (input.is_valid() && input.rank() == 0 &&
      input.dtype() == accumulation_dtype(parameter.dtype())) {
    require_outside(op, input, "input");
    return;
  }
  require_fit(op, parameter, input, "input");
  if (input.dtype() != accumulation_dtype(parameter.dtype())) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("{}: an input is {}, but the rule computes in {}",
                                          op,
                                          describe(input.dtype(), input.shape()),
                                          name(accumulation_dtype(parameter.dtype()))),
                      .op = std::string(op),
                      .location = loc_});
  }
}

StreamState& UpdateGroup::require_open() const {
  const auto refuse = [this](std::string text) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = std::move(text),
                      .op = "update group",
                      .device = device_.name(),
                      .location = loc_});
  };
  if (open_ == nullptr) {
    refuse("update group: commit() was called already");
  }
  StreamState& stream = current_stream(device_.endpoint(), loc_);
  if (stream.open_group() != open_.get()) {
    refuse(fmt::format(
        "update group: it was opened on stream {} of {}, and the thread's current one is {}",
        open_->lane.value,
        device_.name(),
        stream.id().value));
  }
  return stream;
}

UpdateGroup::UpdateGroup(const Device& device, SourceLoc loc) : device_(device), loc_(loc) {
  StreamState& stream = current_stream(device_.endpoint(), loc);
  if (const OpenGroup* other = stream.open_group()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("update group: another one is open on this stream, since "
                                          "{}:{}; commit() that first",
                                          other->opened.file,
                                          other->opened.line),
                      .op = "update group",
                      .device = device_.name(),
                      .location = loc});
  }
  OpRecord record;
  record.kind = OpKind::group_begin;
  record.source = stream.source(loc);
  auto group = std::make_shared<OpenGroup>(OpenGroup{.opened = loc, .lane = stream.id()});
  stream.submit(record, {});
  stream.set_open_group(group);
  open_ = std::move(group);
}

UpdateGroup::~UpdateGroup() {
  if (open_ == nullptr || device_.endpoint().is_closed()) {
    return;
  }
  open_->is_discarded = true;
  try {
    // Discards the group here if its stream is the current one; else the next op there does, or the
    // actor when the stream ends.
    static_cast<void>(current_stream(device_.endpoint()).open_group());
  } catch (const Exception&) {
    // The device was closed meanwhile, or its lane stayed full until the deadline: the actor
    // discards the open group when the stream ends.
  }
}

void UpdateGroup::when(const Tensor& condition) {
  static_cast<void>(require_open());
  require_outside("update group", condition, "condition");
  if (!condition.is_valid() || condition.element_count() != 1) {
    throw_error(Error{
        .code = ErrorCode::shape_mismatch,
        .text = fmt::format("update group: a condition is one element, got {}",
                            condition.is_valid() ? describe(condition.dtype(), condition.shape())
                                                 : "an empty tensor"),
        .op = "update group",
        .device = device_.name(),
        .location = loc_});
  }
  condition_ = as_condition(condition, loc_);
}

void UpdateGroup::sgd(Tensor& parameter,
                      Tensor gradient,
                      Tensor& momentum,
                      const SgdUpdate& options) {
  using detail::UpdateForm;
  const detail::VectorEnvironment environment;
  StreamState& stream = require_open();
  require_outside("sgd_step", parameter, "parameter");
  require_fit("sgd_step", parameter, gradient, "gradient");
  const std::array scalars{options.learning_rate,
                           options.weight_decay,
                           options.momentum,
                           1.0 - options.dampening,
                           options.first ? 1.0 : 0.0};
  if (options.momentum == 0) {
    const std::array<Tensor*, 1> replaced{&parameter};
    const std::array<Arg, 2> inputs{Arg(std::move(parameter), loc_),
                                    Arg(std::move(gradient), loc_)};
    run_update(*open_,
               update_of(stream, UpdateForm::sgd, types_of(inputs, condition_)),
               inputs,
               condition_,
               std::span(scalars).first(2),
               replaced,
               loc_);
    return;
  }
  require_fit("sgd_step", parameter, momentum, "momentum");
  widen(momentum, parameter.dtype(), loc_);
  const std::array<Tensor*, 2> replaced{&parameter, &momentum};
  if (options.count != nullptr) {
    require_outside("sgd_step", *options.count, "count");
    detail::require_count(*options.count, loc_);
    const std::array<Arg, 4> inputs{Arg(std::move(parameter), loc_),
                                    Arg(std::move(gradient), loc_),
                                    Arg(std::move(momentum), loc_),
                                    Arg(*options.count, loc_)};
    const UpdateForm form =
        options.nesterov ? UpdateForm::sgd_nesterov_counted : UpdateForm::sgd_momentum_counted;
    run_update(*open_,
               update_of(stream, form, types_of(inputs, condition_)),
               inputs,
               condition_,
               std::span(scalars).first(4),
               replaced,
               loc_);
    return;
  }
  const std::array<Arg, 3> inputs{Arg(std::move(parameter), loc_),
                                  Arg(std::move(gradient), loc_),
                                  Arg(std::move(momentum), loc_)};
  const UpdateForm form = options.nesterov ? UpdateForm::sgd_nesterov : UpdateForm::sgd_momentum;
  run_update(*open_,
             update_of(stream, form, types_of(inputs, condition_)),
             inputs,
             condition_,
             scalars,
             replaced,
             loc_);
}

void UpdateGroup::adam(
    Tensor& parameter, Tensor gradient, Tensor& mean, Tensor& variance, const AdamUpdate& options) {
  using detail::UpdateForm;
  const detail::VectorEnvironment environment;
  StreamState& stream = require_open();
  require_outside("adam_step", parameter, "parameter");
  require_fit("adam_step", parameter, gradient, "gradient");
  require_fit("adam_step", parameter, mean, "first moment");
  require_fit("adam_step", parameter, variance, "second moment");
  widen(mean, parameter.dtype(), loc_);
  widen(variance, parameter.dtype(), loc_);
  const double decay =
      options.decoupled ? 1.0 - options.learning_rate * options.weight_decay : options.weight_decay;
  const std::array<Tensor*, 3> replaced{&parameter, &mean, &variance};
  if (options.factors != nullptr) {
    const std::array scalars{decay,
                             options.beta1,
                             1.0 - options.beta1,
                             options.beta2,
                             1.0 - options.beta2,
                             options.epsilon};
    const std::array<Arg, 6> inputs{Arg(std::move(parameter), loc_),
                                    Arg(std::move(gradient), loc_),
                                    Arg(std::move(mean), loc_),
                                    Arg(std::move(variance), loc_),
                                    Arg(options.factors->rate, loc_),
                                    Arg(options.factors->root, loc_)};
    const UpdateForm form =
        options.decoupled ? UpdateForm::adamw_counted : UpdateForm::adam_counted;
    run_update(*open_,
               update_of(stream, form, types_of(inputs, condition_)),
               inputs,
               condition_,
               scalars,
               replaced,
               loc_);
    return;
  }
  const std::span<const double> scalars = scalars_of(*open_, options);
  const std::array<Arg, 4> inputs{Arg(std::move(parameter), loc_),
                                  Arg(std::move(gradient), loc_),
                                  Arg(std::move(mean), loc_),
                                  Arg(std::move(variance), loc_)};
  const UpdateForm form = options.decoupled ? UpdateForm::adamw : UpdateForm::adam;
  run_update(*open_,
             update_of(stream, form, types_of(inputs, condition_)),
             inputs,
             condition_,
             scalars,
             replaced,
             loc_);
}

void UpdateGroup::count(Tensor& updates) {
  StreamState& stream = require_open();
  require_outside("update_count", updates, "count");
  detail::require_count(updates, loc_);
  const std::array<Tensor*, 1> replaced{&updates};
  const std::array<Arg, 1> inputs{Arg(std::move(updates), loc_)};
  const detail::UpdateTypes types{.is_conditional = condition_.is_valid()};
  run_update(*open_,
             update_of(stream, detail::UpdateForm::count, types),
             inputs,
             condition_,
             {},
             replaced,
             loc_);
}

void UpdateGroup::update(UpdateRule& rule,
                         Tensor& parameter,
                         Tensor gradient,
                         std::span<Tensor* const> state,
                         std::span<const double> scalars,
                         std::span<const Tensor> inputs) {
  static_cast<void>(require_open());
  const UpdateRule::Config& config = rule.config();
  require_outside(config.name, parameter, "parameter");
  require_fit(config.name, parameter, gradient, "gradient");
  for (const Tensor* const each : state) {
    require_fit(config.name, parameter, *each, "state");
  }
  for (const Tensor& each : inputs) {
    require_input(config.name, parameter, each);
  }
  if (state.size() != static_cast<std::size_t>(config.state_count) ||
      scalars.size() != static_cast<std::size_t>(config.scalar_count) ||
      inputs.size() != static_cast<std::size_t>(config.input_count)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format(
                          "{}: takes {} states, {} scalars and {} inputs, was given {}, {} and {}",
                          config.name,
                          config.state_count,
                          config.scalar_count,
                          config.input_count,
                          state.size(),
                          scalars.size(),
                          inputs.size()),
                      .op = config.name,
                      .location = loc_});
  }
  const UpdateRule::Captured& captured =
      rule.expression(parameter.dtype(), gradient.dtype(), condition_.is_valid());
  for (Tensor* const each : state) {
    widen(*each, parameter.dtype(), loc_);
  }
  std::vector<Arg> operands{Arg(std::move(parameter), loc_), Arg(std::move(gradient), loc_)};
  std::vector<Tensor*> replaced{&parameter};
  for (Tensor* const each : state) {
    operands.emplace_back(std::move(*each), loc_);
    replaced.push_back(each);
  }
  for (const Tensor& each : inputs) {
    operands.emplace_back(each, loc_);
  }
  std::vector<double> numbers;
  for (const std::uint8_t used : captured.scalars) {
    numbers.push_back(scalars[used]);
  }
  run_update(*open_, captured.expression, operands, condition_, numbers, replaced, loc_);
}

PendingOptions UpdateGroup::pending_options() const {
  return {.subject = "an update", .helper = helper_of(device_.endpoint()), .location = loc_};
}

void UpdateGroup::commit(UniqueFunction<void(ErrorRef error)> finish, JointUpdate joint) {
  StreamState& stream = require_open();
  const bool is_joint = joint.decision != nullptr;
  if (is_joint && !joint.prepared) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "update group: it has a decision to wait for, but no function to "
                              "call once it is prepared",
                      .location = loc_});
  }
  if (joint.more) {
    std::exchange(joint.more, {})(*this);
  }
  auto ticket = std::make_unique<GroupTicket>(GroupTicket{std::move(finish), std::move(joint)});
  OpRecord record;
  record.kind = OpKind::group_end;
  record.source = stream.source(loc_);
  submit_ticket(stream, record, std::move(ticket));
  stream.set_open_group(nullptr);
  open_ = nullptr;
  if (is_joint) {
    stream.endpoint().wake_if_free();  // other devices wait for this one
  }
}

Pending<void> UpdateGroup::commit() {
  Promise<void> promise(pending_options());
  Pending<void> pending = promise.pending();
  commit([promise = std::move(promise)](ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value();
    }
  });
  return pending;
}

}  // namespace hearth
