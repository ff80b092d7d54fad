#include <hearth/runtime/recording.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/op_trace_file.hpp>

#include "readback.hpp"

namespace hearth {
namespace {

Recorder& recorder_of(const std::vector<Device>& devices) {
  return devices.front().endpoint().tables().recorder;
}

}  // namespace

RecordScope::RecordScope(const Runtime& runtime, RecordOptions options)
    : RecordScope(runtime, std::filesystem::path(), std::move(options)) {}

RecordScope::RecordScope(const Runtime& runtime, std::filesystem::path file, RecordOptions options)
    : devices_(runtime.devices()), file_(std::move(file)) {
  recorder_of(devices_).start(devices_, options).value();
  reduces_failures_ = options.reduces_failures;
  reduce_limit_ = options.reduce_limit;
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

bool RecordScope::wait_for_reads(std::optional<Duration> limit) {
  is_open_ = false;
  bool have_all_answered = true;
  for (const Device& device : devices_) {
    // What was read comes into the trace by itself; a device that is closed has answered all it will.
    if (!device.endpoint().is_closed()) {
      try {
        static_cast<void>(ask_actor<bool>(
            device.endpoint(), [](DeviceActor&) { return true; }, limit));
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

Status RecordScope::stop() {
  return finish(std::nullopt);
}

Status RecordScope::stop_within(Duration limit) {
  return finish(limit);
}

Status RecordScope::finish(std::optional<Duration> limit) {
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
  if (!has_failed || device.endpoint().is_closed()) {
    return {};
  }
  Log& log = device.endpoint().tables().log;
  if (device.is_lost()) {
    log.warn("record: " + device.name() + " is lost; there is no smaller program");
    return {};
  }
  try {
    const std::optional<ReplayFailure> failure = failure_of(replay(trace, device));
    if (!failure || failure->verdict != Verdict::same_error) {
      log.warn("record: what failed does not fail again in a replay; there is no smaller program");
      return {};
    }
    const std::optional<OpTrace> small =
        reduce_recording(trace, device, {.reduce_until = Deadline::in(reduce_limit_)});
    std::filesystem::path path = file_;
    path += ".min";
    return small ? write_trace(path, *small) : Status();
  } catch (const Exception& error) {
    return error.shared_error();
  }
}

}  // namespace hearth
