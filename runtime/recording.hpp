// Recording: a stretch of a program kept in a file that can be run again, on any device: every op
// of every thread, and, where wanted, the bytes that went in and came out. `replay.hpp` runs it. A
// RecordScope belongs to the thread that made it; what it records are all threads of the runtime.
// Invariants: (1) one recording at a time in a runtime; (2) the file is whole or not there; (3)
// while nothing is recorded, an op pays one load for the possibility. The file is written where the
// scope or the runtime ends. RuntimeOptions::record_file and HEARTH_RECORD_FILE are also kept when
// the program dies of an exception that nobody catches; a scope of your own is not, as nothing is
// unwound then.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

class Runtime;
struct OpTrace;

/// Which bytes a recording keeps.
enum class RecordedBytes : std::uint8_t {
  none,    ///< Ops alone. Replays make up the inputs.
  inputs,  ///< What the program uploaded, and tensors that were there before the recording, so that
           ///< a replay computes the same.
  all,     ///< What the program read as well, so that a replay has something to compare with.
};

struct RecordOptions {
  RecordedBytes bytes = RecordedBytes::all;  ///< Kept bytes of values.
  /// When ops and bytes take this much memory, the recording ends there; its notes and the log say
  /// so.
  std::int64_t limit_bytes = std::int64_t{1} << 30;
  /// When something has failed, read or not, the file gets a second one beside it, `FILE.min`: the
  /// smallest program found that fails in the same way on the runtime's first device, as the first
  /// failure that fails again there. Costs a few replays of what came before it, and up to
  /// reduce_limit for smaller ones.
  bool reduces_failures = true;
  std::chrono::nanoseconds reduce_limit = std::chrono::seconds(10);  ///< How long that may take.
  /// Kept with it: seeds, versions, whatever a reader should know. The settings of the environment
  /// are noted anyway.
  std::map<std::string, std::string> notes = {};
};

class RecordScope final {
 public:
  /// Begins. Tensors of before count as inputs when an op takes them.
  /// Errors: ArgumentError when another recording is under way.
  explicit RecordScope(const Runtime& runtime, RecordOptions options = {});
  /// The same, with the file that the destructor writes.
  RecordScope(const Runtime& runtime, std::filesystem::path file, RecordOptions options = {});
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;
  /// Ends, if stop() did not. A file that cannot be written is logged as an error.
  ~RecordScope();

  /// Ends; waits until what was read has come. Writes the file, if there is one.
  /// Errors: io_error; invalid_argument when it had ended.
  [[nodiscard]] Status stop();
  /// The same, but waits no longer than `limit` for each device; when one does not answer, the file
  /// has what came before, and no smaller program beside it.
  [[nodiscard]] Status stop_within(std::chrono::nanoseconds limit);
  /// Ends, and gives what was recorded instead of writing it. Errors: invalid_argument when it had
  /// ended.
  [[nodiscard]] Result<OpTrace> take();

 private:
  [[nodiscard]] bool wait_for_reads(std::optional<std::chrono::nanoseconds> limit);
  [[nodiscard]] Status finish(std::optional<std::chrono::nanoseconds> limit);
  [[nodiscard]] Status write_reduced(const OpTrace& trace) const;

  std::vector<Device> devices_;
  std::filesystem::path file_;
  bool is_open_ = false;
  bool reduces_failures_ = false;
  std::chrono::nanoseconds reduce_limit_{};
};

}  // namespace hearth
