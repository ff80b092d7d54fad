// A file of tuning results: the entries and the wanted keys of one fingerprint, as bytes.
// A checked file (magic HTUNE): a wrong checksum is detected before a byte of the payload is used.
// Values and pure functions. Threads: any; calls with a path block on the disk.
// Invariants: (1) reading allocates a small multiple of the bytes that are there, whatever lengths
// they state; (2) a decoded entry has only values that its types name; (3) a written file keeps the
// limits below.
#pragma once

#include <hearth/autotune/tune_entry.hpp>
#include <hearth/autotune/tune_queue.hpp>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::detail {

struct TuneFile {
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;  ///< With the header.
  static constexpr std::size_t kMostEntries = 4096;
  static constexpr std::size_t kMostWanted = TuneQueue::kMostKeys;
  static constexpr std::size_t kMostFingerprint = 4096;  ///< Characters.

  std::string fingerprint = {};  ///< Fingerprint::text.
  std::vector<TuneEntry> entries = {};
  std::vector<WantedKey> wanted = {};

  friend bool operator==(const TuneFile&, const TuneFile&) = default;
};

/// Adds `more` to `file`. Entries of one key are merged(), and the heavier wish of a key counts. An
/// entry of `more` that settles its key removes the wish that `file` has for it.
///
/// Cost: O(entries of both).
void merge_into(TuneFile& file, const TuneFile& more);

/// Returns the payload. Limits are not applied.
[[nodiscard]] std::vector<std::byte> encode(const TuneFile& file);
/// Errors: bad_format.
[[nodiscard]] Result<TuneFile> decode(std::span<const std::byte> payload);

/// Reads a file.
///
/// Errors: not_found; io_error; bad_format, also for more than kMostBytes.
[[nodiscard]] Result<TuneFile> read_tune_file(const std::filesystem::path& path);
/// Writes a file with write_file_atomically(). Beyond the limits, the wanted keys are dropped from
/// the lightest on, then the entries from the oldest on.
///
/// Errors: io_error.
[[nodiscard]] Status write_tune_file(const std::filesystem::path& path, TuneFile file);

}  // namespace hearth::detail
