// Replay: runs a recording (recording.hpp, or HEARTH_RECORD_FILE) again, on any device, and
// compares its reads with those of the program, or of another device. Stateless. Threads: any; a
// replay takes its caller's thread until it is done.
// Invariant: a replay refuses or runs any file content; it never does what no program could do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

struct OpTrace;

/// The `file` in the location of a replayed op; its line is the index in the recording's own table
/// (OpTrace::places), up to 16,384. Ops from later places have none.
inline constexpr char kRecordedPlace[] = "place of the recording";

struct ReplayOptions {
  /// Device whose replay the results are compared with, instead of the program's reads.
  std::optional<Device> against = {};
  /// Largest |a - b| / (1 + |b|) that passes; 0 = 1e-4 for f32, 1e-10 for f64, 1e-2 for f16, 1e-1
  /// for bf16. Integers must be equal.
  double tolerance = 0;
  /// Whether all live tensors at the end of the recording are read, too.
  bool reads_all_at_end = false;
  /// Memory limit; a recording that needs more is refused.
  std::int64_t memory_limit_bytes = std::int64_t{1} << 36;
  double work_limit = 1e15;  ///< Limit in flops and bytes, by the op table.
  /// Largest number of runs of a reduction; then it returns the smallest program found.
  int max_runs = 2000;
  Deadline reduce_until = Deadline::never();  ///< When reducing ends with the best so far.
};

enum class Verdict : std::uint8_t {
  same_bits,     ///< Equal, bit for bit.
  close,         ///< Within the tolerance.
  differs,       ///< Values beyond the tolerance.
  same_error,    ///< Both failed, with the same code.
  other_error,   ///< Only one failed, or both with different codes.
  not_compared,  ///< No reference: the bytes, or bytes that they depend on, were not recorded.
};
[[nodiscard]] std::string_view name(Verdict verdict) noexcept;

/// One value that the program read.
struct ReplayRow {
  std::size_t op = 0;        ///< The number of the read in the recording, from 1; 0 at its end.
  std::string value = {};    ///< "f32[4, 8]"
  std::string made_by = {};  ///< The producer: "matmul f32[4, 8], f32[8, 3] -> f32[4, 3]".
  std::string place = {};    ///< The call that made it, "model.cpp:31", or empty.
  Verdict verdict = Verdict::not_compared;
  double difference = 0;
  double tolerance = 0;
  std::string detail = {};   ///< The elements that differ most, or the error.
  ErrorRef error = nullptr;  ///< Why the replay could not read it.
};

struct ReplayReport {
  std::map<std::string, std::string> notes;
  std::size_t op_count = 0;
  std::vector<ReplayRow> rows;

  /// True if nothing differs.
  [[nodiscard]] bool agrees() const noexcept;
  [[nodiscard]] std::size_t count(Verdict verdict) const noexcept;
  /// Formats a table of the rows that differ or failed (all with `every_row`), and a line with the
  /// counts.
  [[nodiscard]] std::string to_string(bool every_row = false) const;
};

/// Runs a recording on a device and compares its reads.
/// Errors: FileError not_found, io_error, bad_format (with the byte and the rule); DeviceError
/// out_of_memory beyond the limits.
[[nodiscard]] ReplayReport replay(const std::filesystem::path& file,
                                  const Device& device,
                                  const ReplayOptions& options = {});
[[nodiscard]] ReplayReport replay(const OpTrace& trace,
                                  const Device& device,
                                  const ReplayOptions& options = {});

/// Identifies how a replay failed: by the first row that differs, else the first that could not be
/// read; its code and op.
struct ReplayFailure {
  Verdict verdict = Verdict::not_compared;
  ErrorCode code = ErrorCode::internal;
  std::string op;  ///< The op that failed, or that made the differing value.

  friend bool operator==(const ReplayFailure&, const ReplayFailure&) = default;
  [[nodiscard]] std::string to_string() const;
};
[[nodiscard]] std::optional<ReplayFailure> failure_of(const ReplayReport& report);

/// Finds a small program that fails in the same way on that device; nothing if the recording does
/// not fail there. Errors: as replay(). Cost: up to max_runs replays.
[[nodiscard]] std::optional<OpTrace> reduce_recording(const OpTrace& trace,
                                                      const Device& device,
                                                      const ReplayOptions& options = {});
/// Reduces a recording from file to file. Errors: also io_error.
[[nodiscard]] std::optional<ReplayFailure> reduce_recording(const std::filesystem::path& from,
                                                            const std::filesystem::path& to,
                                                            const Device& device,
                                                            const ReplayOptions& options = {});

}  // namespace hearth
