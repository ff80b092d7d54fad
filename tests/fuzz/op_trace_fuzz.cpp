#include <algorithm>
#include <string>
#include <vector>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "fuzz_targets.hpp"

namespace hearth::fuzz {
namespace {

constexpr TraceLimits kSmall{.value_bytes = 1 << 16, .live_bytes = 1 << 20, .work = 1e6};

void require(bool is_true, const std::string& what) {
  if (!is_true) {
    throw FuzzFailure(what);
  }
}

// Every trace that the reducer makes of a valid trace is valid.
void require_valid_parts(const OpTrace& trace) {
  int questions = 0;
  const auto answer = [&](const OpTrace& part) {
    const Status valid = check_trace(part);
    require(valid.has_value(),
            "a part is not valid: " + (valid.has_value() ? "" : valid.error().text));
    return ++questions % 3 == 0;
  };
  static_cast<void>(reduce_trace(trace, answer, {.max_runs = 30}));
}

// Every valid trace must run: a replay may only report errors of ops.
void run(const OpTrace& trace) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime(
        {.devices = {{.name = "cpu:0", .memory_budget_bytes = 64 << 20}}, .executor = &executor});
    const Device device = runtime.device("cpu:0");
    const ReplayReport report = replay(trace,
                                       device,
                                       {.reads_all_at_end = true,
                                        .memory_limit_bytes = kSmall.live_bytes,
                                        .work_limit = kSmall.work});
    for (const ReplayRow& row : report.rows) {
      require(!row.error || row.error->code != ErrorCode::internal,
              "an internal error: " + (row.error ? row.error->to_string() : ""));
      require(!row.error || row.error->code != ErrorCode::deadline_exceeded,
              "a replay waits for ever: " + (row.error ? row.error->to_string() : ""));
    }
    require(device.memory().live_tensor_count == 0, "a replay leaves tensors behind");
  });
}

}  // namespace

void fuzz_op_trace(Input input) {
  if (input.empty()) {
    return;
  }
  std::vector<std::byte> payload(input.begin() + 1, input.end());
  if ((input[0] & std::byte{1}) == std::byte{0}) {
    repair_checksums(payload);
  }
  const Result<OpTrace> trace = decode_trace(payload, kSmall);
  if (!trace.has_value()) {
    require(trace.error().code == ErrorCode::bad_format && trace.error().text.starts_with("byte "),
            "refused without the byte: " + trace.error().text);
    return;
  }
  const Status valid = check_trace(trace.value(), kSmall);
  require(valid.has_value(), "decoded, but not valid");
  require(encode_trace(trace.value()) == payload, "written again, it is another file");
  require_valid_parts(trace.value());
  run(trace.value());
}

}  // namespace hearth::fuzz
