#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/update_group.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace hearth {
namespace {

struct CurrentUpdates final : detail::ContextAttachment {
  StateUpdates* updates = nullptr;
  StateUpdates ignored;  ///< Used after the scope has ended, when checkpoint() recomputes.
};

// Devices use small keys, counted from 1. This one is "stateupd".
constexpr std::uint64_t kUpdatesKey = 0x7374617465757064U;

StateUpdates* exchange_updates(StateUpdates* updates) {
  detail::ThreadContext& context = detail::current_context();
  auto* current = context.find<CurrentUpdates>(kUpdatesKey);
  if (current == nullptr) {
    current = &context.attach(kUpdatesKey, std::make_unique<CurrentUpdates>());
  }
  return std::exchange(current->updates, updates);
}

// parameter + (value - parameter)*share
std::vector<Tensor> blended(const UpdateRule::Operands& given) {
  return {given.parameter + (given.gradient - given.parameter) * given.scalars[0]};
}

[[noreturn]] void refuse(ErrorCode code, const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = code, .text = "StateUpdates: " + text, .location = loc});
}

const TensorRef& owner_among(const std::vector<TensorRef>& buffers,
                             const Tensor& buffer,
                             SourceLoc loc) {
  const auto is_it = [&](const TensorRef& ref) {
    return detail::TensorAccess::impl(*ref.tensor) == detail::TensorAccess::impl(buffer);
  };
  const auto owner = std::ranges::find_if(buffers, is_it);
  if (owner == buffers.end()) {
    refuse(ErrorCode::invalid_argument,
           "an update is of a buffer that the model does not have: commit to the model of the "
           "forward pass, and once",
           loc);
  }
  const auto twin = std::find_if(owner + 1, buffers.end(), is_it);
  if (twin != buffers.end()) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("{} and {} are one tensor, of a layer that was copied: fork() each",
                       owner->path,
                       twin->path),
           loc);
  }
  return *owner;
}

}  // namespace

Buffer running_statistic(const Tensor& values, SourceLoc loc) {
  Buffer buffer(values.to(accumulation_dtype(values.dtype(loc)), loc));
  detail::TensorAccess::set_mark(buffer, detail::MemberMark::wide);
  return buffer;
}

StateUpdates::StateUpdates() : rule_({.name = "blend", .scalar_count = 1}, blended) {}

void StateUpdates::blend(const Buffer& buffer, const Tensor& value, double share, SourceLoc loc) {
  const bool has_type =
      buffer.dtype() == value.dtype() || buffer.dtype() == accumulation_dtype(value.dtype());
  if (buffer.shape() != value.shape() || !has_type) {
    refuse(has_type ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
           fmt::format("a buffer {} cannot become {}",
                       describe(buffer.dtype(), buffer.shape()),
                       describe(value.dtype(), value.shape())),
           loc);
  }
  if (!(share >= 0 && share <= 1)) {
    refuse(ErrorCode::invalid_argument, fmt::format("the share {} is not in 0 to 1", share), loc);
  }
  if (is_recomputing() ||  // already recorded by the first run
      detail::TensorAccess::has_mark(buffer, detail::MemberMark::frozen)) {
    return;
  }
  const Tensor next = value.detach().to(buffer.dtype(), loc);
  const auto known = std::ranges::find_if(updates_, [&](const Update& update) {
    return detail::TensorAccess::impl(update.buffer) == detail::TensorAccess::impl(buffer);
  });
  if (known == updates_.end()) {
    updates_.push_back({.buffer = buffer, .value = next, .share = share});
    return;
  }
  const detail::VectorEnvironment environment;
  // Two moves equal one move to the mean of both values, weighted by the remaining share of each.
  const double added_share = detail::pinned(share);
  const double first = known->share * (1 - added_share);
  const double whole = detail::pinned(first + added_share);
  if (whole > 0) {
    Tensor before = mul(Arg(known->value, loc), Arg(first / whole, loc));
    Tensor added = mul(Arg(next, loc), Arg(added_share / whole, loc));
    known->value = add(Arg(std::move(before), loc), Arg(std::move(added), loc));
  }
  known->share = whole;
}

Pending<void> StateUpdates::commit_to(const std::vector<TensorRef>& buffers, SourceLoc loc) {
  if (updates_.empty()) {
    Promise<void> nothing;
    Pending<void> done = nothing.pending();
    nothing.set_value();
    return done;
  }
  const std::vector<const TensorRef*> owners = owners_among(buffers, loc);
  UpdateGroup group(owners.front()->tensor->device(), loc);
  add_to(group, buffers, loc);
  return group.commit();
}

std::vector<const TensorRef*> StateUpdates::owners_among(const std::vector<TensorRef>& buffers,
                                                         SourceLoc loc) const {
  std::vector<const TensorRef*> owners;
  for (const Update& update : updates_) {
    owners.push_back(&owner_among(buffers, update.buffer, loc));
    if (owners.back()->tensor->device() != owners.front()->tensor->device()) {
      refuse(ErrorCode::device_mismatch,
             fmt::format(
                 "{} and {} are on several devices", owners.front()->path, owners.back()->path),
             loc);
    }
  }
  return owners;
}

void StateUpdates::add_to(UpdateGroup& group,
                          const std::vector<TensorRef>& buffers,
                          SourceLoc loc) {
  const std::vector<const TensorRef*> owners = owners_among(buffers, loc);
  for (std::size_t i = 0; i < updates_.size(); ++i) {
    Update& update = updates_[i];
    update.buffer = Tensor();  // drops the reference, so that the update is in place
    const double scalars[] = {update.share};
    group.update(rule_, *owners[i]->tensor, std::move(update.value), {}, scalars);
    owners[i]->tensor->set_path(owners[i]->path);
  }
  updates_.clear();
}

std::vector<Tensor> StateUpdates::take_moves(const std::vector<TensorRef>& buffers,
                                             double factor,
                                             SourceLoc loc) {
  std::vector<Tensor> moves(buffers.size());
  for (const Update& update : updates_) {
    const TensorRef& owner = owner_among(buffers, update.buffer, loc);
    if (!is_float(update.buffer.dtype())) {
      refuse(ErrorCode::invalid_argument,
             fmt::format("{} is {}, and only floats are moved on several ranks",
                         owner.path,
                         describe(update.buffer.dtype(), update.buffer.shape())),
             loc);
    }
    Tensor way = sub(Arg(update.value, loc), Arg(update.buffer, loc));
    moves[static_cast<std::size_t>(&owner - buffers.data())] =
        mul(Arg(std::move(way), loc), Arg(update.share * factor, loc));
  }
  updates_.clear();
  return moves;
}

StateScope::StateScope(StateUpdates& updates) : previous_(exchange_updates(&updates)) {}
StateScope::~StateScope() {
  exchange_updates(previous_);
}

StateUpdates& current_state_updates(std::string_view user, SourceLoc loc) {
  auto* current = detail::current_context().find<CurrentUpdates>(kUpdatesKey);
  if (current != nullptr && current->updates == nullptr && is_recomputing()) {
    return current->ignored;
  }
  if (current == nullptr || current->updates == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: training changes running statistics, which need a "
                                          "place: pass StateUpdates to forward(), or open a "
                                          "StateScope around it",
                                          user),
                      .location = loc});
  }
  return *current->updates;
}

}  // namespace hearth
