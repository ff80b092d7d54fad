#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

#include "fuzz_targets.hpp"
#include "op_stream_program.hpp"

namespace hearth::fuzz {
namespace {

void require(bool is_true, const std::string& what) {
  if (!is_true) {
    throw FuzzFailure(what);
  }
}

void require_whole(const StreamRun& run, const std::string& where) {
  const Status valid = check_trace(run.trace);
  require(valid.has_value(),
          where + ": its recording is not valid: " + (valid.has_value() ? "" : valid.error().text));
  require(run.leaked_tensors == 0,
          fmt::format("{}: {} tensors are left behind", where, run.leaked_tensors));
  require(run.leaked_bytes == 0,
          fmt::format("{}: {} bytes are left behind", where, run.leaked_bytes));
}

void require_equal(const StreamRun& got, const StreamRun& want, const std::string& where) {
  require(got.outcomes.size() == want.outcomes.size(), where + ": other tensors");
  for (std::size_t i = 0; i < want.outcomes.size(); ++i) {
    const Outcome& a = got.outcomes[i];
    const Outcome& b = want.outcomes[i];
    require(!a.error,
            fmt::format("{}: tensor {}: {}", where, i, a.error ? a.error->to_string() : ""));
    require(std::ranges::equal(a.values, b.values),
            fmt::format("{}: tensor {} has other values", where, i));
  }
}

// Which of the final reads depend on an op that failed: a tensor is poisoned exactly when it does.
void require_exact_poison(const StreamRun& run) {
  using Name = std::tuple<std::string, std::uint64_t, std::uint64_t>;
  std::set<Name> roots;
  for (const Outcome& outcome : run.outcomes) {
    if (outcome.error) {
      const Error* first = outcome.error.get();
      while (first->cause) {
        first = first->cause.get();
      }
      roots.insert({first->device, first->lane, first->sequence});
    }
  }
  std::vector<bool> is_poisoned(1);
  std::vector<bool> reads;
  const OpTrace& trace = run.trace;
  std::vector<bool> by_op;
  for (const TraceOp& op : trace.ops) {
    bool is_bad = roots.contains({trace.devices[op.device], op.lane, op.record.sequence});
    for (int i = 0; i < op.record.input_count; ++i) {
      is_bad = is_bad || is_poisoned[op.view().input(i).slot.value];
    }
    is_bad = is_bad || (op.copied_from != 0 && by_op[op.copied_from - 1]);
    by_op.push_back(is_bad);
    is_poisoned.insert(is_poisoned.end(), op.record.output_count, is_bad);
    if (op.record.kind == OpKind::readback) {
      reads.push_back(is_bad);
    }
  }
  require(reads.size() >= run.outcomes.size(), "the recording lacks reads");
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    const bool expected = reads[reads.size() - run.outcomes.size() + i];
    const ErrorRef& error = run.outcomes[i].error;
    require(static_cast<bool>(error) == expected,
            fmt::format("tensor {} is {}poisoned, its recording says otherwise: {}",
                        i,
                        error ? "" : "not ",
                        error ? error->to_string() : ""));
  }
}

// With faults: what is there is right, what is not says why.
void check_faults(Input bytes, std::uint64_t schedule, int which, const StreamRun& reference) {
  FaultPlan faults;
  const auto number = static_cast<std::uint64_t>(which / 4 + 1);
  switch (which % 4) {
    case 0:
      faults.failing_submits = {number};
      break;
    case 1:
      faults.failing_submits = {number, number + 3, number + 4};
      break;
    case 2:
      faults.failing_allocation = 1;
      faults.failing_allocation_count = which / 4;
      break;
    default:
      faults.lost_at_submit = number;
  }
  const StreamRun run = run_stream_program(
      {.bytes = bytes, .schedule = schedule, .has_groups = false}, "sim", faults);
  const Status valid = check_trace(run.trace);
  require(
      valid.has_value(),
      "with faults: the recording is not valid: " + (valid.has_value() ? "" : valid.error().text));
  if (run.was_cut_short) {
    require(which % 4 == 3, "with faults: a device is lost that was not to be");
    return;
  }
  require(run.outcomes.size() == reference.outcomes.size(), "with faults: other tensors");
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    const Outcome& outcome = run.outcomes[i];
    if (outcome.error) {
      require(outcome.error->code != ErrorCode::internal &&
                  outcome.error->code != ErrorCode::deadline_exceeded,
              "with faults: " + outcome.error->to_string());
    } else {
      require(std::ranges::equal(outcome.values, reference.outcomes[i].values),
              fmt::format("with faults: tensor {} has other values", i));
    }
  }
  require(run.leaked_tensors == 0,
          fmt::format("with faults: {} tensors are left behind", run.leaked_tensors));
  if (which % 4 != 3) {
    require_exact_poison(run);
  }
}

void check_replay(const StreamRun& run) {
  const Runtime runtime({.devices = {{.name = "reference:0", .memory_budget_bytes = 64 << 20}}});
  const ReplayReport report = replay(run.trace, runtime.device("reference:0"));
  require(report.count(Verdict::same_bits) + report.count(Verdict::close) == report.rows.size(),
          "replayed, it differs:\n" + report.to_string());
}

}  // namespace

void fuzz_op_stream(Input input) {
  constexpr std::size_t kHead = 3;
  constexpr std::size_t kMostBytes = 600;
  if (input.size() < kHead) {
    return;
  }
  const auto schedule = static_cast<std::uint64_t>(input[0]);
  const int fault = static_cast<int>(input[1]);
  const int mode = static_cast<int>(input[2]) % 4;
  const Input bytes = input.subspan(kHead, std::min(input.size() - kHead, kMostBytes));
  const bool has_faults = mode >= 2;
  const StreamProgram program{.bytes = bytes, .schedule = schedule, .has_groups = !has_faults};
  const StreamRun reference = run_stream_program(program, "reference", {});
  require_whole(reference, "reference");
  for (const Outcome& outcome : reference.outcomes) {
    require(!outcome.error, "reference: " + (outcome.error ? outcome.error->to_string() : ""));
  }
  if (has_faults) {
    check_faults(bytes, schedule, fault, reference);
    return;
  }
  const std::string type = mode == 0 ? "cpu" : "sim";
  const StreamRun run = run_stream_program(program, type, {});
  require_whole(run, type);
  require_equal(run, reference, type);
  if ((fault & 7) == 0) {
    check_replay(run);
  }
}

}  // namespace hearth::fuzz
