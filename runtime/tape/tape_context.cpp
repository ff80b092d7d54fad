#include "tape_context.hpp"

#include "tape.hpp"

#include <hearth/runtime/base/thread_context.hpp>

#include <utility>
#include <vector>

namespace hearth::detail {
namespace {

struct CurrentTapes final : ContextAttachment {
  std::vector<IntrusivePtr<Tape>> open;  ///< Counted, since another thread may close a tape.
  std::shared_ptr<RecomputeState> state;
  TrafficLimits limits;
};

// Devices use small keys, counted from 1; this one is "opentape".
constexpr std::uint64_t kTapesKey = 0x6f70656e74617065U;

CurrentTapes& current_tapes() {
  ThreadContext& context = current_context();
  auto* current = context.find<CurrentTapes>(kTapesKey);
  return current != nullptr ? *current
                            : context.attach(kTapesKey, std::make_unique<CurrentTapes>());
}

void forget_closed(CurrentTapes& tapes) {
  std::erase_if(tapes.open, [](const IntrusivePtr<Tape>& tape) { return !tape->is_open(); });
}

}  // namespace

void record_open(Tape& tape) {
  CurrentTapes& tapes = current_tapes();
  forget_closed(tapes);
  tapes.open.emplace_back(&tape);
}

void forget_closed_tapes() {
  forget_closed(current_tapes());
}

IntrusivePtr<Tape> innermost_tape() {
  CurrentTapes& tapes = current_tapes();
  forget_closed(tapes);
  return tapes.open.empty() ? IntrusivePtr<Tape>() : tapes.open.back();
}

std::shared_ptr<RecomputeState> recompute_state() {
  return current_tapes().state;
}

std::shared_ptr<RecomputeState> exchange_recompute_state(std::shared_ptr<RecomputeState> state) {
  return std::exchange(current_tapes().state, std::move(state));
}

TrafficLimits traffic_limits() {
  return current_tapes().limits;
}

TrafficLimits exchange_traffic_limits(TrafficLimits limits) {
  return std::exchange(current_tapes().limits, limits);
}

}  // namespace hearth::detail

namespace hearth {

RecomputeScope::RecomputeScope(RecomputeOptions options, SourceLoc loc)
    : state_(std::make_shared<detail::RecomputeState>()) {
  if (options.kept_bytes < 0) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = "RecomputeScope: kept_bytes is " + std::to_string(options.kept_bytes) + ", below 0",
        .op = "RecomputeScope",
        .location = loc});
  }
  state_->kept_bytes = options.kept_bytes;
  previous_ = detail::exchange_recompute_state(state_);
}
RecomputeScope::~RecomputeScope() {
  static_cast<void>(detail::exchange_recompute_state(std::move(previous_)));
}

RecomputeReport RecomputeScope::report() const noexcept {
  return state_->report;
}

}  // namespace hearth
