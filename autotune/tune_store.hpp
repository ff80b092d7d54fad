// The store of tuning results on disk: one file for each fingerprint, shared by all processes.
// Files: FOLDER/HASH.tune holds the entries, HASH.tune.lock excludes other writers. A damaged file
// becomes HASH.tune.bad. HASH.tune.trying-N marks a first run, and has a lock of its own.
// Move-only. Owned by one thread, never by a device actor: calls block on the disk.
// Invariants: (1) an entry that merge() committed is lost neither to another writer nor to a killed
// one; (2) a file that cannot be used is set aside and logged, and never fails an opening; (3) with
// TuneAccess::read nothing is written; (4) a candidate whose first run ended its process is
// quarantined at the next opening.
#pragma once

#include <hearth/autotune/candidate.hpp>
#include <hearth/autotune/fingerprint.hpp>
#include <hearth/autotune/tune_file.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/file_lock.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::detail {

/// Whether a store may write.
enum class TuneAccess : std::uint8_t { read, read_write };

struct TuneStoreOptions {
  std::filesystem::path folder;  ///< Made by an opening with read_write.
  Fingerprint fingerprint;
  TuneAccess access = TuneAccess::read_write;
};

/// The mark of a candidate's first run: it stands on disk until the object ends. A process that
/// dies in between leaves it behind.
class TryingMark final {
 public:
  TryingMark(const TryingMark&) = delete;
  TryingMark& operator=(const TryingMark&) = delete;
  TryingMark(TryingMark&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  TryingMark& operator=(TryingMark&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~TryingMark();

 private:
  friend class TuneStore;
  TryingMark(std::filesystem::path path, FileLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;  ///< Empty after a move.
  FileLock lock_;               ///< Shows that the process lives.
};

class TuneStore final {
 public:
  /// Opens the store and reads its content. `log` outlives the store.
  ///
  /// Errors: io_error; deadline_exceeded if another process holds the lock for 10 s. With
  /// TuneAccess::read none but io_error.
  [[nodiscard]] static Result<TuneStore> open(TuneStoreOptions options, Log& log);

  /// Returns the entries and wanted keys as of the last opening or merge.
  [[nodiscard]] const TuneFile& content() const noexcept { return content_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Adds entries and wanted keys to the file, beside those that other processes wrote meanwhile.
  /// They are committed once the function returns success.
  ///
  /// Errors: unsupported for TuneAccess::read; io_error; deadline_exceeded as for open().
  [[nodiscard]] Status merge(std::vector<TuneEntry> entries, std::vector<WantedKey> wanted);
  /// Marks the candidate before its first run on this fingerprint.
  ///
  /// Errors: unsupported for TuneAccess::read; io_error.
  [[nodiscard]] Result<TryingMark> begin_trying(const TuneKey& key,
                                                std::string label,
                                                const Candidate& candidate) const;
  /// Removes all entries, quarantines included.
  ///
  /// Errors: as for merge().
  [[nodiscard]] Status clear();
  /// Writes the content to a file that import_from() reads on an equal machine.
  ///
  /// Errors: io_error.
  [[nodiscard]] Status export_to(const std::filesystem::path& bundle) const;
  /// Merges the content of an exported file.
  ///
  /// Errors: as for merge() and read_tune_file(); invalid_argument if the file is of another
  /// fingerprint.
  [[nodiscard]] Status import_from(const std::filesystem::path& bundle);

 private:
  TuneStore(TuneStoreOptions options, std::filesystem::path path, Log& log)
      : options_(std::move(options)), path_(std::move(path)), log_(&log) {}

  [[nodiscard]] std::filesystem::path beside(std::string_view ending) const;
  [[nodiscard]] std::filesystem::path mark_path(int number) const;
  [[nodiscard]] Result<FileLock> lock() const;
  [[nodiscard]] Status check_access() const;
  [[nodiscard]] Result<TuneFile> read() const;
  [[nodiscard]] Status set_aside(const std::string& reason) const;
  [[nodiscard]] Status collect_marks();
  [[nodiscard]] Status collect_mark(const std::filesystem::path& mark, TuneFile& found);

  TuneStoreOptions options_;
  std::filesystem::path path_;
  Log* log_;
  TuneFile content_;
};

}  // namespace hearth::detail
