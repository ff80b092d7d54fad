#include <hearth/runtime/replay.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "runtime/record/trace_player.hpp"

namespace hearth {
namespace {

TraceLimits limits_of(const ReplayOptions& options) {
  return {.value_bytes = options.memory_limit_bytes,
          .live_bytes = options.memory_limit_bytes,
          .work = options.work_limit};
}

PlayedTrace play(const OpTrace& trace, const Device& device, const ReplayOptions& options) {
  return play_trace(trace,
                    {&device, 1},
                    {.limits = limits_of(options), .reads_all_at_end = options.reads_all_at_end})
      .value();
}

/// The reference of one read.
struct Expected {
  bool is_there = false;
  std::span<const std::byte> bytes = {};
  std::optional<ErrorCode> error = {};
};

Expected as_recorded(const OpTrace& trace, const PlayedRead& read) {
  if (read.op >= trace.ops.size()) {
    return {};
  }
  const TraceOp& op = trace.ops[read.op];
  if (op.outcome == TraceOutcome::failed) {
    return {.is_there = true, .error = op.error};
  }
  if (op.data == 0 || !read.is_known) {
    return {};
  }
  return {.is_there = true, .bytes = trace.data[op.data - 1]};
}

Expected as_played(const PlayedRead& other) {
  return {.is_there = true,
          .bytes = other.bytes,
          .error = other.error ? std::optional(other.error->code) : std::nullopt};
}

void judge(ReplayRow& row, const PlayedRead& read, const Expected& expected) {
  if (read.error) {
    row.detail = read.error->text;
  }
  if (!expected.is_there) {
    return;
  }
  if (read.error || expected.error) {
    const bool are_same = read.error && expected.error && read.error->code == *expected.error;
    row.verdict = are_same ? Verdict::same_error : Verdict::other_error;
    if (!read.error) {
      row.detail = fmt::format("failed with {}, now it does not", name(*expected.error));
    } else if (expected.error && !are_same) {
      row.detail += fmt::format(" (was: {})", name(*expected.error));
    }
    return;
  }
  if (std::ranges::equal(read.bytes, expected.bytes)) {
    row.verdict = Verdict::same_bits;
    return;
  }
  const Difference apart = difference(read.operand.dtype, read.bytes, expected.bytes);
  row.difference = apart.largest;
  row.verdict = apart.largest <= row.tolerance ? Verdict::close : Verdict::differs;
  if (row.verdict == Verdict::differs) {
    row.detail = fmt::format("element {}: {:g}, was {:g}", apart.at, apart.a, apart.b);
  }
}

ReplayRow row_of(const OpTrace& trace, const PlayedRead& read, const ReplayOptions& options) {
  const TraceOp& producer = trace.ops[read.producer];
  ReplayRow row{.op = read.op < trace.ops.size() ? read.op + 1 : 0,
                .value = trace.describe(read.operand),
                .made_by = trace.describe(producer),
                .place = trace.place_of(producer)};
  row.tolerance = options.tolerance > 0 && is_float(read.operand.dtype)
                      ? options.tolerance
                      : replay_tolerance(read.operand.dtype);
  row.error = read.error;
  return row;
}

bool is_bad(Verdict verdict) noexcept {
  return verdict == Verdict::differs || verdict == Verdict::other_error;
}

std::string_view first_word(std::string_view text) noexcept {
  return text.substr(0, text.find(' '));
}

OpTrace read_checked(const std::filesystem::path& file, const ReplayOptions& options) {
  return read_trace(file, limits_of(options)).value();
}

}  // namespace

std::string_view name(Verdict verdict) noexcept {
  constexpr std::string_view kNames[] = {
      "same bits", "close", "differs", "same error", "other error", "not compared"};
  return kNames[static_cast<std::size_t>(verdict)];
}

bool ReplayReport::agrees() const noexcept {
  return std::ranges::none_of(rows, [](const ReplayRow& row) { return is_bad(row.verdict); });
}

std::size_t ReplayReport::count(Verdict verdict) const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const ReplayRow& row) { return row.verdict == verdict; }));
}

std::string ReplayReport::to_string(bool every_row) const {
  std::string text;
  for (const ReplayRow& row : rows) {
    if (!every_row && !is_bad(row.verdict) && !row.error) {
      continue;
    }
    if (text.empty()) {
      text = fmt::format(
          "{:>8}  {:<12} {:>10} {:>10}  {}\n", "op", "verdict", "difference", "tolerance", "what");
    }
    text += fmt::format("{:>8}  {:<12} {:>10.3g} {:>10.3g}  {}{}{}{}\n",
                        row.op == 0 ? std::string("end") : fmt::format("{}", row.op),
                        name(row.verdict),
                        row.difference,
                        row.tolerance,
                        row.made_by,
                        row.place.empty() ? "" : " at " + row.place,
                        row.detail.empty() ? "" : ": ",
                        row.detail);
  }
  const auto counted = [](std::size_t number, std::string_view what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  text += counted(op_count, "op") + ", " + counted(rows.size(), "value") + " read";
  for (const Verdict verdict : {Verdict::same_bits,
                                Verdict::close,
                                Verdict::differs,
                                Verdict::same_error,
                                Verdict::other_error,
                                Verdict::not_compared}) {
    if (const std::size_t number = count(verdict); number != 0) {
      text += fmt::format(", {} {}", number, name(verdict));
    }
  }
  return text + "\n";
}

ReplayReport replay(const std::filesystem::path& file,
                    const Device& device,
                    const ReplayOptions& options) {
  return replay(read_checked(file, options), device, options);
}

ReplayReport replay(const OpTrace& trace, const Device& device, const ReplayOptions& options) {
  const PlayedTrace played = play(trace, device, options);
  const PlayedTrace other =
      options.against ? play(trace, *options.against, options) : PlayedTrace{};
  ReplayReport report{.notes = trace.notes, .op_count = trace.ops.size(), .rows = {}};
  for (std::size_t i = 0; i < played.reads.size(); ++i) {
    const PlayedRead& read = played.reads[i];
    ReplayRow row = row_of(trace, read, options);
    judge(row, read, options.against ? as_played(other.reads[i]) : as_recorded(trace, read));
    report.rows.push_back(std::move(row));
  }
  return report;
}

std::string ReplayFailure::to_string() const {
  if (verdict == Verdict::differs) {
    return fmt::format("{}: its values differ", op);
  }
  return fmt::format("{}: {}", op, name(code));
}

std::optional<ReplayFailure> failure_of(const ReplayReport& report) {
  auto found =
      std::ranges::find_if(report.rows, [](const ReplayRow& row) { return is_bad(row.verdict); });
  if (found == report.rows.end()) {
    found = std::ranges::find_if(report.rows,
                                 [](const ReplayRow& row) { return row.error != nullptr; });
  }
  if (found == report.rows.end()) {
    return std::nullopt;
  }
  ReplayFailure failure{.verdict = found->verdict, .op = std::string(first_word(found->made_by))};
  if (found->error) {
    failure.code = found->error->code;
    failure.op = found->error->op;
  }
  return failure;
}

std::optional<OpTrace> reduce_recording(const OpTrace& trace,
                                        const Device& device,
                                        const ReplayOptions& options) {
  const std::optional<ReplayFailure> failure = failure_of(replay(trace, device, options));
  if (!failure) {
    return std::nullopt;
  }
  const auto still_fails = [&](const OpTrace& candidate) {
    return failure_of(replay(candidate, device, options)) == failure;
  };
  return reduce_trace(
      trace, still_fails, {.max_runs = options.max_runs, .until = options.reduce_until});
}

std::optional<ReplayFailure> reduce_recording(const std::filesystem::path& from,
                                              const std::filesystem::path& to,
                                              const Device& device,
                                              const ReplayOptions& options) {
  const OpTrace trace = read_checked(from, options);
  const std::optional<OpTrace> small = reduce_recording(trace, device, options);
  if (!small) {
    return std::nullopt;
  }
  write_trace(to, *small).value();
  return failure_of(replay(*small, device, options));
}

}  // namespace hearth
