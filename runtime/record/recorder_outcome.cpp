// Outcomes of the ops that a recording has noted: answers of their tickets, their failures, and the
// final trace.
#include "recorder.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "recorder_state.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

using detail::ticket_of;

// Called before the push, which passes the ticket on: later only the token holder may access it.
void Recorder::listen(const OpView& op, const Mark& mark) {
  if (op.kind() == OpKind::readback) {
    auto* ticket = ticket_of<ReadTicket>(op);
    ticket->finish = [this, mark, original = std::move(ticket->finish)](ReadTicket& done,
                                                                        ErrorRef error) mutable {
      finish(mark, done.transfer == nullptr ? done.target : std::span<std::byte>(), error);
      original(done, std::move(error));
    };
  } else if (op.kind() == OpKind::group_end) {
    auto* ticket = ticket_of<GroupTicket>(op);
    if (ticket != nullptr) {
      ticket->finish = [this, mark, original = std::move(ticket->finish)](ErrorRef error) mutable {
        finish(mark, {}, error);
        original(std::move(error));
      };
    }
  }
}

namespace {

// Returns whether an op was cancelled by its stream's limits, or by the end of the device. Such an
// error is no failure of the op whose result was to be read.
bool is_cancellation(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::cancelled:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::device_closed:
      return detail::find_failure(error) == nullptr;
    default:
      return false;
  }
}

}  // namespace

void Recorder::finish(const Mark& mark,
                      std::span<const std::byte> bytes,
                      const ErrorRef& error) noexcept {
  try {
    const RecordedBytes wanted = wanted_bytes();
    std::vector<std::byte> copy;  // before the lock, which streams take for each op
    if (!error && wanted != RecordedBytes::none) {
      copy.assign(bytes.begin(), bytes.end());
    }
    const detail::MutexLock lock(mutex_);
    if (!state_ || recording_ != mark.recording) {
      return;
    }
    State& state = *state_;
    TraceOp& op = state.trace.ops[mark.op];
    if (error && op.record.kind == OpKind::readback && is_cancellation(*error)) {
      return;  // its outcome stays unknown
    }
    op.outcome = error ? TraceOutcome::failed : TraceOutcome::ok;
    op.error = error ? error->code : ErrorCode::internal;
    const bool is_input = op.record.kind == OpKind::upload;
    const auto loan =
        is_input ? state.loans.end() : state.loans.find(op.record.operands[0].slot.value);
    const bool is_wanted = is_input || loan != state.loans.end() || wanted == RecordedBytes::all;
    if (error || op.record.kind == OpKind::group_end || !is_wanted ||
        wanted == RecordedBytes::none ||
        static_cast<std::int64_t>(copy.size()) !=
            value_size_bytes(state.trace, op.record.operands[0])) {
      return;
    }
    op.data = state.add_data(std::move(copy));
    if (loan != state.loans.end()) {
      state.trace.ops[loan->second].data = op.data;  // the bytes that the borrower wrote
      state.loans.erase(loan);
    }
  } catch (const std::bad_alloc&) {
    // The outcome stays unknown in the trace.
  }
}

void Recorder::register_failure(const DeviceEndpoint& endpoint,
                                LaneId lane,
                                std::uint64_t sequence,
                                const Error& error) noexcept {
  constexpr std::size_t kMostFailures = 16;
  try {
    const detail::MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    detail::Failure* const failure = detail::find_failure(error);
    if (!device || failure == nullptr || state_->failed.size() == kMostFailures) {
      return;
    }
    const std::vector<TraceOp>& ops = state_->trace.ops;
    for (std::size_t i = ops.size(); i-- > 0;) {  // from the end: it was noted recently
      const TraceOp& op = ops[i];
      if (op.device == *device && op.lane == lane.value && op.record.sequence == sequence) {
        if (op.record.output_count > 0) {
          state_->failed.push_back({i, error.code, failure->shared_from_this()});
        }
        return;
      }
    }
  } catch (const std::bad_alloc&) {
    // The failure is not noted.
  }
}

// ---- the trace ----

namespace {

// The op after which the first result of a failed op can be read: an update group's results exist
// only at its end.
std::size_t place_to_read(const OpTrace& trace, std::size_t failed) {
  const TraceOp& op = trace.ops[failed];
  bool is_in_group = false;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& other = trace.ops[i];
    if (other.device != op.device || other.lane != op.lane) {
      continue;
    }
    is_in_group = other.record.kind == OpKind::group_begin || is_in_group;
    if (i >= failed && (!is_in_group || other.record.kind == OpKind::group_end)) {
      return i;
    }
    is_in_group = other.record.kind != OpKind::group_end && is_in_group;
  }
  return failed;
}

TraceOp failed_read_of(const TraceOp& failed, ErrorCode code) {
  TraceOp read{.record = {}, .device = failed.device, .lane = failed.lane};
  read.record.kind = OpKind::readback;
  read.record.input_count = 1;
  read.record.sequence = failed.record.sequence;
  read.record.source = failed.record.source;
  read.record.path = failed.record.path;
  read.record.operands[0] = failed.view().output(0);
  read.record.operands[0].use = Use::read;
  read.outcome = TraceOutcome::failed;
  read.error = code;
  return read;
}

}  // namespace

// A failure that was read is in the trace as a failed read. Without such a read the program learned
// of it by sync() or step(), which no trace repeats: then each failure gets a read.
OpTrace Recorder::finished(State& state) {
  OpTrace& trace = state.trace;
  const bool was_read = std::ranges::any_of(trace.ops, [](const TraceOp& op) {
    return op.record.kind == OpKind::readback && op.outcome == TraceOutcome::failed;
  });
  std::multimap<std::size_t, TraceOp> reads;  // by the op that they follow
  for (const State::FailedOp& each : state.failed) {
    if (!was_read || !each.failure->is_read()) {
      reads.emplace(place_to_read(trace, each.op), failed_read_of(trace.ops[each.op], each.code));
    }
  }
  if (reads.empty() && state.cancelled.empty()) {
    return std::move(trace);
  }
  std::vector<bool> keep;
  std::vector<TraceOp> ops;
  std::vector<std::uint32_t> places(1, 0);  // from 1, as copied_from counts
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    ops.push_back(std::move(trace.ops[i]));
    ops.back().copied_from = places[ops.back().copied_from];
    places.push_back(static_cast<std::uint32_t>(ops.size()));
    keep.push_back(!state.cancelled.contains(i));
    const auto [begin, end] = reads.equal_range(i);
    for (auto read = begin; read != end; ++read) {
      ops.push_back(std::move(read->second));
      keep.push_back(true);
    }
  }
  trace.ops = std::move(ops);
  return select_ops(trace, keep);
}

}  // namespace hearth
