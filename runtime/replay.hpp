// Replay: runs a recording (recording.hpp, or HEARTH_RECORD_FILE) again, on any device, and says
// how what it reads differs from what the program read, or from another device. Stateless. Threads:
// any; a replay takes its caller's thread until it is done. Invariant: whatever is in the file, it
// is refused or it runs; it never does what no program could do.
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

/// The `file` of an op that a replay runs: its line is the number of its place in the recording's
/// own table (OpTrace::places), up to 16,384; ops from later ones have none.
inline constexpr char kRecordedPlace[] = "place of the recording";

struct ReplayOptions {
  /// Compare with a replay on this device instead of with what the program read.
  std::optional<Device> against = {};
  /// Largest |a - b| / (1 + |b|) that passes; 0 = 1e-4 for f32, 1e-10 for f64, 1e-2 for f16, 1e-1
  /// for bf16. Integers must be equal.
  double tolerance = 0;
  /// Reads what is alive at the end of the recording too.
  bool reads_all_at_end = false;
  /// A recording that needs more is refused.
  std::int64_t memory_limit_bytes = std::int64_t{1} << 36;
  double work_limit = 1e15;  ///< Flops and bytes, by the op table.
  /// How often a reduction may run the program, and until when: then it gives the smallest program
  /// that it has found.
  int max_runs = 2000;
  Deadline reduce_until = Deadline::never();  ///< When reducing ends with the best so far.
};

enum class Verdict : std::uint8_t {
  same_bits,     ///< Equal, bit for bit.
  close,         ///< Within the tolerance.
  differs,       ///< Values beyond it.
  same_error,    ///< Both failed, with the same code.
  other_error,   ///< One failed and the other did not, or in another way.
  not_compared,  ///< Nothing to compare with: the bytes were not recorded, or depend on some that
                 ///< were not.
};
[[nodiscard]] std::string_view name(Verdict verdict) noexcept;

/// One value that the program read.
struct ReplayRow {
  std::size_t op = 0;        ///< The number of the read in the recording, from 1; 0 at its end.
  std::string value = {};    ///< "f32[4, 8]"
  std::string made_by = {};  ///< "matmul f32[4, 8], f32[8, 3] -> f32[4, 3]"
  std::string place = {};    ///< "model.cpp:31", the call that made it, or empty.
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

  /// Whether nothing differs.
  [[nodiscard]] bool agrees() const noexcept;
  [[nodiscard]] std::size_t count(Verdict verdict) const noexcept;
  /// A table of what differs or failed (all with `every_row`), and a line with the counts.
  [[nodiscard]] std::string to_string(bool every_row = false) const;
};

/// Errors: FileError not_found, io_error, bad_format (the byte and the rule); DeviceError
/// out_of_memory beyond the limits.
[[nodiscard]] ReplayReport replay(const std::filesystem::path& file,
                                  const Device& device,
                                  const ReplayOptions& options = {});
[[nodiscard]] ReplayReport replay(const OpTrace& trace,
                                  const Device& device,
                                  const ReplayOptions& options = {});

/// What makes a replay a failing one: the first row that differs, else the first that could not be
/// read; its code and op.
struct ReplayFailure {
  Verdict verdict = Verdict::not_compared;
  ErrorCode code = ErrorCode::internal;
  std::string op;  ///< The op that failed, or that made what differs.

  friend bool operator==(const ReplayFailure&, const ReplayFailure&) = default;
  [[nodiscard]] std::string to_string() const;
};
[[nodiscard]] std::optional<ReplayFailure> failure_of(const ReplayReport& report);

/// A small program that fails in the same way on that device, or nothing when the recording does
/// not fail there. Errors: as replay(). Cost: up to max_runs replays.
[[nodiscard]] std::optional<OpTrace> reduce_recording(const OpTrace& trace,
                                                      const Device& device,
                                                      const ReplayOptions& options = {});
/// The same from file to file. Errors: also io_error.
[[nodiscard]] std::optional<ReplayFailure> reduce_recording(const std::filesystem::path& from,
                                                            const std::filesystem::path& to,
                                                            const Device& device,
                                                            const ReplayOptions& options = {});

}  // namespace hearth
