#include <hearth/runtime/update_group.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>

#include "runtime/client/ask.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/client/tickets.hpp"
#include "runtime/ops/op_submit.hpp"

namespace hearth {
namespace {

void require_like(
    OpKind kind, const Tensor& parameter, const Tensor& other, const char* what, SourceLoc loc) {
  if (parameter.is_empty() || other.is_empty() || parameter.dtype() != other.dtype() ||
      !(parameter.shape() == other.shape())) {
    const auto text = [](const Tensor& tensor) {
      return tensor.is_empty() ? std::string("an empty tensor")
                               : describe(tensor.dtype(), tensor.shape());
    };
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("{}: parameter {} and {} {} differ",
                                          op_info(kind).name,
                                          text(parameter),
                                          what,
                                          text(other)),
                      .op = std::string(op_info(kind).name),
                      .location = loc});
  }
  if (!is_float(parameter.dtype())) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("{}: parameters are floats, got {}",
                                          op_info(kind).name,
                                          describe(parameter.dtype(), parameter.shape())),
                      .op = std::string(op_info(kind).name),
                      .location = loc});
  }
}

// Runs one update; `replaced` are the tensors whose new values come back, in the order of the
// results.
void update(OpenGroup& group,
            OpKind kind,
            std::span<const Arg> inputs,
            std::span<const std::byte> attributes,
            std::span<Tensor* const> replaced,
            SourceLoc loc) {
  std::array<Tensor, 3> results;
  std::array<TensorSpec, 3> specs;
  const TensorImpl& parameter = *inputs[0].tensor().impl();
  const PathId path = parameter.path.load(std::memory_order_acquire);
  specs.fill(TensorSpec{parameter.dtype, parameter.layout->shape});
  detail::submit({.kind = kind,
                  .location = loc,
                  .inputs = inputs,
                  .attributes = attributes,
                  .flags = static_cast<std::uint16_t>(RecordFlag::exclusive)},
                 std::span<const TensorSpec>(specs).first(replaced.size()),
                 std::span<Tensor>(results).first(replaced.size()));
  for (std::size_t i = 0; i < replaced.size(); ++i) {
    results[i].impl()->path.store(path, std::memory_order_release);
    group.made.push_back(name_of(*results[i].impl()));
    *replaced[i] = std::move(results[i]);
  }
}

}  // namespace

// The group runs as a whole, so what one of its updates makes is not there for another.
void UpdateGroup::require_outside(const Tensor& tensor, const char* what) const {
  if (!tensor.is_empty() && open_->makes(*tensor.impl())) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("update group: {} {} was updated in this group already",
                                          what,
                                          describe(tensor.dtype(), tensor.shape())),
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
  StreamState& stream = current_stream(device_.endpoint());
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
  StreamState& stream = current_stream(device_.endpoint());
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
  open_->is_given_up = true;
  try {
    // Discards it here, where its stream is the current one; else with the next op there, or by the
    // actor when the stream ends.
    static_cast<void>(current_stream(device_.endpoint()).open_group());
  } catch (const Exception&) {
    // The device was closed meanwhile, or its lane stayed full for the whole deadline: the actor
    // discards the open group when the stream ends.
  }
}

void UpdateGroup::sgd(Tensor& parameter,
                      Tensor gradient,
                      Tensor& momentum,
                      const SgdUpdate& options) {
  static_cast<void>(require_open());
  require_outside(parameter, "parameter");
  require_outside(gradient, "gradient");
  require_like(OpKind::sgd_step, parameter, gradient, "gradient", loc_);
  const SgdAttributes attributes{.learning_rate = options.learning_rate,
                                 .momentum = options.momentum,
                                 .dampening = options.dampening,
                                 .weight_decay = options.weight_decay,
                                 .nesterov = options.nesterov ? 1 : 0,
                                 .first = options.first ? 1 : 0};
  if (options.momentum == 0) {
    const std::array<Arg, 2> inputs{Arg(std::move(parameter), loc_),
                                    Arg(std::move(gradient), loc_)};
    const std::array<Tensor*, 1> replaced{&parameter};
    update(*open_, OpKind::sgd_step, inputs, detail::bytes_of(attributes), replaced, loc_);
    return;
  }
  require_outside(momentum, "momentum");
  require_like(OpKind::sgd_step, parameter, momentum, "momentum", loc_);
  const std::array<Arg, 3> inputs{Arg(std::move(parameter), loc_),
                                  Arg(std::move(gradient), loc_),
                                  Arg(std::move(momentum), loc_)};
  const std::array<Tensor*, 2> replaced{&parameter, &momentum};
  update(*open_, OpKind::sgd_step, inputs, detail::bytes_of(attributes), replaced, loc_);
}

void UpdateGroup::adam(
    Tensor& parameter, Tensor gradient, Tensor& mean, Tensor& variance, const AdamUpdate& options) {
  static_cast<void>(require_open());
  require_outside(parameter, "parameter");
  require_outside(gradient, "gradient");
  require_outside(mean, "first moment");
  require_outside(variance, "second moment");
  require_like(OpKind::adam_step, parameter, gradient, "gradient", loc_);
  require_like(OpKind::adam_step, parameter, mean, "first moment", loc_);
  require_like(OpKind::adam_step, parameter, variance, "second moment", loc_);
  const AdamAttributes attributes{.learning_rate = options.learning_rate,
                                  .beta1 = options.beta1,
                                  .beta2 = options.beta2,
                                  .epsilon = options.epsilon,
                                  .weight_decay = options.weight_decay,
                                  .decoupled = options.decoupled ? 1 : 0,
                                  .step = options.step};
  const std::array<Arg, 4> inputs{Arg(std::move(parameter), loc_),
                                  Arg(std::move(gradient), loc_),
                                  Arg(std::move(mean), loc_),
                                  Arg(std::move(variance), loc_)};
  const std::array<Tensor*, 3> replaced{&parameter, &mean, &variance};
  update(*open_, OpKind::adam_step, inputs, detail::bytes_of(attributes), replaced, loc_);
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
