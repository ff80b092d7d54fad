#include <hearth/runtime/recording.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "runtime/client/ask.hpp"
#include "runtime/client/tensor_impl.hpp"

namespace hearth {
namespace {

Recorder& recorder_of(const std::vector<Device>& devices) {
  return devices.front().endpoint().tables().recorder;
}

// The trace up to and including this op: later ops have no part in its failure.
OpTrace until(const OpTrace& trace, std::size_t place) {
  std::vector<bool> keep(trace.ops.size(), false);
  std::fill_n(keep.begin(), place + 1, true);
  return select_ops(trace, keep);
}

// Finds the smallest program whose read fails like the last one of `trace`; nothing if that read
// does not fail again.
std::optional<OpTrace> reduced(const OpTrace& trace, const Device& device, Deadline deadline) {
  // No limits: the ops are the program's own, and one that was too large for the device then must
  // fail again.
  const ReplayOptions options{.memory_limit_bytes = std::int64_t{1} << 61,
                              .work_limit = std::numeric_limits<double>::infinity()};
  const ReplayReport report = replay(trace, device, options);
  if (report.rows.empty() || report.rows.back().verdict != Verdict::same_error) {
    return std::nullopt;
  }
  const Error& wanted = *report.rows.back().error;
  const auto still_fails = [&](const OpTrace& candidate) {
    return std::ranges::any_of(replay(candidate, device, options).rows, [&](const ReplayRow& row) {
      return row.verdict == Verdict::same_error && row.error->code == wanted.code &&
             row.error->op == wanted.op;
    });
  };
  return reduce_trace(trace, still_fails, {.until = deadline});
}

}  // namespace

RecordScope::RecordScope(const Runtime& runtime, RecordOptions options)
    : RecordScope(runtime, std::filesystem::path(), std::move(options)) {}

RecordScope::RecordScope(const Runtime& runtime, std::filesystem::path file, RecordOptions options)
    : devices_(runtime.every_device()), file_(std::move(file)) {
  recorder_of(devices_).start(devices_, options).value();
  reduces_failures_ = options.reduces_failures;
  reduce_limit_ = options.reduce_limit;
  is_open_ = true;
}

RecordScope::RecordScope(const Device& device, RecordOptions options) : devices_{device} {
  recorder_of(devices_).start(devices_, options).value();
  is_open_ = true;
}

RecordScope::~RecordScope() {
  if (!is_open_) {
    return;
  }
  if (const Status status = stop(); !status.has_value()) {
    devices_.front().endpoint().tables().log.error(status.error().to_string());
  }
}

bool RecordScope::wait_for_reads(std::optional<std::chrono::nanoseconds> limit) {
  is_open_ = false;
  bool have_all_answered = true;
  for (const Device& device : devices_) {
    // Read bytes reach the trace by themselves; a closed device has delivered all that it will.
    if (!device.endpoint().is_closed()) {
      try {
        ask<AwaitIdle>(device.endpoint(), limit, SourceLoc{});
      } catch (const Exception& error) {
        device.endpoint().tables().log.warn("record: " + error.error().to_string());
        have_all_answered = false;
      }
    }
  }
  return have_all_answered;
}

Result<OpTrace> RecordScope::take() {
  static_cast<void>(wait_for_reads(std::nullopt));
  return recorder_of(devices_).stop();
}

Result<std::uint32_t> RecordScope::value_of(const Tensor& tensor) const {
  const TensorImpl* const impl = detail::TensorAccess::impl(tensor);
  if (impl == nullptr) {
    return Error{.code = ErrorCode::invalid_argument, .text = "record: the tensor is empty"};
  }
  return recorder_of(devices_).value_of(*impl->endpoint, impl->home, impl->operand(Use::read));
}

Status RecordScope::stop() {
  return finish(std::nullopt);
}

Status RecordScope::stop_within(std::chrono::nanoseconds limit) {
  return finish(limit);
}

Status RecordScope::finish(std::optional<std::chrono::nanoseconds> limit) {
  const bool have_all_answered = wait_for_reads(limit);
  HEARTH_TRY(const OpTrace trace, recorder_of(devices_).stop());
  const auto ended = trace.notes.find("ended early");
  if (ended != trace.notes.end()) {
    devices_.front().endpoint().tables().log.warn("the recording ended early " + ended->second);
  }
  if (file_.empty()) {
    return {};
  }
  HEARTH_TRY_STATUS(write_trace(file_, trace));
  return reduces_failures_ && have_all_answered ? write_reduced(trace) : Status();
}

Status RecordScope::write_reduced(const OpTrace& trace) const {
  const bool has_failed = std::ranges::any_of(
      trace.ops, [](const TraceOp& op) { return op.outcome == TraceOutcome::failed; });
  const Device& device = devices_.front();
  // Writes no second file beside a device file such as /dev/null.
  if (!std::filesystem::is_regular_file(file_)) {
    return {};
  }
  if (!has_failed || device.endpoint().is_closed()) {
    return {};
  }
  detail::Log& log = device.endpoint().tables().log;
  if (device.is_lost()) {
    log.warn("record: " + device.name() + " is lost; there is no smaller program");
    return {};
  }
  std::filesystem::path path = file_;
  path += ".min";
  constexpr int kMostTried = 8;
  int tried = 0;
  ErrorRef refused;
  for (std::size_t place = 0; place < trace.ops.size() && tried < kMostTried; ++place) {
    const TraceOp& op = trace.ops[place];
    if (op.record.kind != OpKind::readback || op.outcome != TraceOutcome::failed) {
      continue;
    }
    ++tried;
    try {
      if (const std::optional<OpTrace> small =
              reduced(until(trace, place), device, Deadline::in(reduce_limit_))) {
        return write_trace(path, *small);
      }
    } catch (const Exception& error) {
      refused = error.shared_error();
    }
  }
  if (refused) {
    return refused;
  }
  if (tried == 0) {
    log.warn(
        "record: an update failed before any of it ran, and no read did; a smaller program "
        "has to end with a read that fails, so there is none");
    return {};
  }
  log.warn("record: what failed does not fail again in a replay; there is no smaller program");
  return {};
}

}  // namespace hearth
