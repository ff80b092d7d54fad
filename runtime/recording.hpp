// Recording: part of a program in a file that can be run again on any device. The file has every op
// of every thread and, optionally, the bytes that were uploaded and read. `replay.hpp` runs it. A
// RecordScope belongs to the thread that made it; it records all threads of the runtime.
// Invariants: (1) one recording at a time in a runtime; (2) the file is complete or absent; (3)
// without a recording, an op pays one load.
// The file is written when the scope or the runtime ends. Recordings by RuntimeOptions::record_file
// and HEARTH_RECORD_FILE are also written if the program dies of an uncaught exception. Those of
// your own scope are not, since nothing is unwound then.
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
class Tensor;
struct OpTrace;

/// The bytes that a recording keeps.
enum class RecordedBytes : std::uint8_t {
  none,     ///< Only ops. Replays generate the inputs.
  uploads,  ///< Uploads that the recording saw. Replays generate older tensors.
  /// Uploads, and tensors that existed before the recording, so that a replay computes the same.
  inputs,
  all,  ///< Inputs, and the bytes that the program read, so that a replay can compare.
};

struct RecordOptions {
  RecordedBytes bytes = RecordedBytes::all;  ///< Bytes of values that the recording keeps.
  /// Memory limit of ops and bytes. The recording ends there, and its notes and the log report it.
  std::int64_t limit_bytes = std::int64_t{1} << 30;
  /// After a failure, read or not, also writes `FILE.min`: the smallest program found that fails in
  /// the same way on the runtime's first device. Costs a few replays of the program up to the
  /// failure, and up to reduce_limit for smaller ones.
  bool reduces_failures = true;
  /// Time limit of that reduction.
  std::chrono::nanoseconds reduce_limit = std::chrono::seconds(10);
  /// Notes stored in the recording: seeds, versions, anything useful to a reader. The environment's
  /// settings are always noted.
  std::map<std::string, std::string> notes = {};
};

class RecordScope final {
 public:
  /// Starts a recording. Tensors that exist already count as inputs when an op first uses them.
  /// Errors: ArgumentError if another recording is under way.
  explicit RecordScope(const Runtime& runtime, RecordOptions options = {});
  /// Starts a recording that the destructor writes to `file`.
  RecordScope(const Runtime& runtime, std::filesystem::path file, RecordOptions options = {});
  /// Starts a recording of one device's ops.
  explicit RecordScope(const Device& device, RecordOptions options = {});
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;
  /// Ends the recording, if stop() did not. A file that cannot be written is logged as an error.
  ~RecordScope();

  /// Ends the recording; waits for pending reads. Writes the file, if there is one.
  /// Errors: io_error; invalid_argument if the recording had ended.
  [[nodiscard]] Status stop();
  /// Like stop(), but waits no longer than `limit` for each device. If one does not answer, the
  /// file holds what was recorded up to then, and no reduced program is written.
  [[nodiscard]] Status stop_within(std::chrono::nanoseconds limit);
  /// Ends the recording and returns it instead of writing it. Errors: invalid_argument if it had
  /// ended.
  [[nodiscard]] Result<OpTrace> take();
  /// Returns the number of a tensor's value in the recording: the slot of its operands. A tensor
  /// that no recorded op has used joins the recording as an input, without its bytes.
  ///
  /// Errors: invalid_argument for an empty tensor, one of a device that is not recorded, or if the
  /// recording has ended.
  [[nodiscard]] Result<std::uint32_t> value_of(const Tensor& tensor) const;

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
