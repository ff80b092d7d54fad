#include <hearth/autotune/tune_store.hpp>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/file.hpp>

namespace hearth::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLockWait{10};
constexpr int kMostMarks = 64;  ///< First runs at the same time, of all processes.

Error io_error(const fs::path& path, std::string_view step, const std::error_code& error) {
  return Error{.code = ErrorCode::io_error,
               .text = fmt::format("file {}: cannot {}: {}", path.string(), step, error.message())};
}

Status remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);  // a file that does not exist is no error
  return error ? Status(io_error(path, "remove it", error)) : Status();
}

bool is_file(const fs::path& path) noexcept {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

fs::path with_ending(fs::path path, std::string_view ending) {
  path += ending;
  return path;
}

// The entry that takes a remark of this key.
TuneEntry& entry_of(TuneFile& file, const TuneEntry& like) {
  const auto found = std::ranges::find(file.entries, like.key, &TuneEntry::key);
  return found != file.entries.end()
             ? *found
             : file.entries.emplace_back(TuneEntry{.key = like.key, .label = like.label});
}

}  // namespace

TryingMark::~TryingMark() {
  if (!path_.empty()) {
    // A mark that cannot be removed quarantines the candidate, which costs speed alone.
    static_cast<void>(remove_file(path_));
  }
}

Result<TuneStore> TuneStore::open(TuneStoreOptions options, Log& log) {
  fs::path path = options.folder / fmt::format("{:016x}.tune", options.fingerprint.hash);
  TuneStore store(std::move(options), std::move(path), log);
  if (store.options_.access == TuneAccess::read) {
    HEARTH_TRY(store.content_, store.read());
    return store;
  }
  HEARTH_TRY_STATUS(make_folder(store.options_.folder));
  HEARTH_TRY(const FileLock held, store.lock());
  HEARTH_TRY(store.content_, store.read());
  HEARTH_TRY_STATUS(store.collect_marks());
  return store;
}

fs::path TuneStore::beside(std::string_view ending) const {
  return with_ending(path_, ending);
}

fs::path TuneStore::mark_path(int number) const {
  return beside(fmt::format(".trying-{}", number));
}

Result<FileLock> TuneStore::lock() const {
  return FileLock::acquire(beside(".lock"), Deadline::in(kLockWait));
}

Status TuneStore::check_access() const {
  if (options_.access == TuneAccess::read_write) {
    return {};
  }
  return Error{.code = ErrorCode::unsupported,
               .text = fmt::format("tuning store {}: opened for reading only", path_.string())};
}

// Reads the file; an unusable one is set aside. Writers hold the lock.
Result<TuneFile> TuneStore::read() const {
  TuneFile empty{.fingerprint = options_.fingerprint.text};
  Result<TuneFile> file = read_tune_file(path_);
  if (file.has_value() && file.value().fingerprint == empty.fingerprint) {
    return file;
  }
  if (!file.has_value() && file.error().code == ErrorCode::not_found) {
    return empty;
  }
  if (!file.has_value() && file.error().code != ErrorCode::bad_format) {
    return file;
  }
  HEARTH_TRY_STATUS(set_aside(file.has_value() ? fmt::format("file {}: is of another machine: {}",
                                                             path_.string(),
                                                             file.value().fingerprint)
                                               : file.error().text));
  return empty;
}

Status TuneStore::set_aside(const std::string& reason) const {
  if (options_.access == TuneAccess::read) {
    log_->warn(fmt::format("tuning store: {}; its picks are not used", reason));
    return {};
  }
  const fs::path bad = beside(".bad");
  std::error_code error;
  fs::rename(path_, bad, error);
  if (error) {
    return io_error(path_, fmt::format("rename it to {}", bad.string()), error);
  }
  log_->warn(fmt::format("tuning store: {}; set aside as {}", reason, bad.string()));
  return {};
}

// Quarantines the candidates of marks whose process has died. The file is written before the marks
// leave, so that a crash in between repeats the step.
Status TuneStore::collect_marks() {
  std::vector<std::pair<fs::path, FileLock>> dead;
  for (int i = 0; i < kMostMarks; ++i) {
    fs::path mark = mark_path(i);
    if (!is_file(mark)) {
      continue;
    }
    HEARTH_TRY(std::optional<FileLock> lock, FileLock::try_acquire(with_ending(mark, ".lock")));
    if (lock.has_value() && is_file(mark)) {
      HEARTH_TRY_STATUS(collect_mark(mark, content_));
      dead.emplace_back(std::move(mark), std::move(*lock));
    }
  }
  if (dead.empty()) {
    return {};
  }
  HEARTH_TRY_STATUS(write_tune_file(path_, content_));
  for (const auto& [mark, lock] : dead) {
    HEARTH_TRY_STATUS(remove_file(mark));
  }
  return {};
}

Status TuneStore::collect_mark(const fs::path& mark, TuneFile& found) {
  const Result<TuneFile> read = read_tune_file(mark);
  if (!read.has_value() && read.error().code != ErrorCode::bad_format) {
    return read.status();
  }
  if (!read.has_value()) {
    log_->warn(
        fmt::format("tuning store: a candidate ended its process in its first run; it is "
                    "unknown which: {}",
                    read.error().text));
    return {};
  }
  for (const TuneEntry& marked : read.value().entries) {
    TuneEntry& entry = entry_of(found, marked);
    for (const Quarantined& each : marked.quarantined) {
      quarantine(entry, each.id, each.text_hash, each.reason);
      log_->warn(
          fmt::format("tuning store: {}: {}; it is not tried again", marked.label, each.reason));
    }
  }
  return {};
}

Status TuneStore::merge(std::vector<TuneEntry> entries, std::vector<WantedKey> wanted) {
  HEARTH_TRY_STATUS(check_access());
  HEARTH_TRY(const FileLock held, lock());
  HEARTH_TRY(TuneFile file, read());
  merge_into(file, {.entries = std::move(entries), .wanted = std::move(wanted)});
  HEARTH_TRY_STATUS(write_tune_file(path_, file));
  content_ = std::move(file);
  return {};
}

// The mark is a tuning file whose one entry has the candidate in quarantine. A number whose mark is
// there belongs to a process that died: the next opening collects it.
Result<TryingMark> TuneStore::begin_trying(const TuneKey& key,
                                           std::string label,
                                           const Candidate& candidate) const {
  HEARTH_TRY_STATUS(check_access());
  TuneEntry entry{.key = key, .label = std::move(label)};
  entry.label.resize(std::min(entry.label.size(), TuneEntry::kMostText));
  quarantine(entry,
             candidate.id,
             candidate.text_hash,
             fmt::format("{} ended the process in its first run", candidate.name));
  for (int i = 0; i < kMostMarks; ++i) {
    const fs::path mark = mark_path(i);
    HEARTH_TRY(std::optional<FileLock> lock, FileLock::try_acquire(with_ending(mark, ".lock")));
    if (!lock.has_value() || is_file(mark)) {
      continue;
    }
    TryingMark result(mark, std::move(*lock));
    HEARTH_TRY_STATUS(write_tune_file(
        mark, {.fingerprint = options_.fingerprint.text, .entries = {std::move(entry)}}));
    return result;
  }
  return Error{.code = ErrorCode::io_error,
               .text = fmt::format("tuning store {}: {} first runs are marked: open it once more",
                                   path_.string(),
                                   kMostMarks)};
}

Status TuneStore::clear() {
  HEARTH_TRY_STATUS(check_access());
  HEARTH_TRY(const FileLock held, lock());
  HEARTH_TRY_STATUS(remove_file(path_));
  content_ = {.fingerprint = options_.fingerprint.text};
  return {};
}

Status TuneStore::export_to(const fs::path& bundle) const {
  return write_tune_file(bundle, content_);
}

Status TuneStore::import_from(const fs::path& bundle) {
  HEARTH_TRY(TuneFile file, read_tune_file(bundle));
  if (file.fingerprint != options_.fingerprint.text) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("file {}: holds picks of {}; this one is {}",
                                     bundle.string(),
                                     file.fingerprint,
                                     options_.fingerprint.text)};
  }
  return merge(std::move(file.entries), std::move(file.wanted));
}

}  // namespace hearth::detail
