#include <hearth/runtime/base/file.hpp>

#include "file_descriptor.hpp"
#include "file_error.hpp"
#include "regular_file.hpp"

#include <hearth/runtime/base/host_memory.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hearth {
namespace {

using detail::file_error;
using detail::FileDescriptor;
namespace fs = std::filesystem;

using detail::kMaxTransferBytes;

// Returns 0, or the errno of a failed sync.
int sync(const FileDescriptor& file) noexcept {
  while (::fsync(file.number()) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Error no_folder(const fs::path& path, const fs::path& folder) {
  return Error{.code = ErrorCode::io_error,
               .text = fmt::format(
                   "file {}: cannot write: there is no folder {}", path.string(), folder.string())};
}

// Makes a rename durable, which needs a sync of its folder.
Status sync_folder(const fs::path& path) {
  const FileDescriptor file = FileDescriptor::open(folder_of(path), O_RDONLY | O_DIRECTORY);
  if (!file.is_open()) {
    return file_error("open its folder", path, errno);
  }
  // Some network file systems cannot sync a folder and return EINVAL, which is ignored.
  if (const int error_number = sync(file); error_number != 0 && error_number != EINVAL) {
    return file_error("sync its folder", path, error_number);
  }
  return {};
}

// Returns false if another process holds the lock. The lock ends with the descriptor, so also with
// a killed process.
bool try_lock(const FileDescriptor& file) noexcept {
  return ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
}

// Returns whether the path still names this file.
bool is_name_of(const fs::path& path, const FileDescriptor& file) noexcept {
  struct stat named {};
  struct stat open {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(file.number(), &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

// Removes a temporary file whose writer was killed. A living writer holds its lock.
void remove_leftover(const fs::path& path) noexcept {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file.is_open() && try_lock(file) && is_name_of(path, file)) {
    ::unlink(path.c_str());
  }
}

// Target of a path, after all links.
struct Target {
  fs::path path;
  bool exists = false;
  struct stat facts {};

  [[nodiscard]] bool is_device() const noexcept { return exists && S_ISCHR(facts.st_mode); }
};

const char* kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a device";
    default:
      return "a disk";
  }
}

// Returns the end of a chain of links, which need not exist.
Result<fs::path> follow_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path end = path;
  for (int i = 0; i <= kMostLinks; ++i) {
    struct stat facts {};
    if (::lstat(end.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) {
      return end;
    }
    std::error_code error;
    const fs::path next = fs::read_symlink(end, error);
    if (error) {
      return file_error("follow the link", path, error.value());
    }
    end = folder_of(end) / next;  // an absolute link replaces the folder
  }
  return file_error("follow the link", path, ELOOP);
}

// Errors: io_error if the target can be neither replaced nor written.
Result<Target> find_target(const fs::path& path) {
  Target target;
  if (::stat(path.c_str(), &target.facts) == 0) {
    target.exists = true;
  } else if (errno != ENOENT) {
    return file_error("look at it", path, errno);
  }
  const mode_t mode = target.facts.st_mode;
  if (target.exists && S_ISDIR(mode)) {
    return file_error("write a file", path, EISDIR);
  }
  if (target.exists && !S_ISREG(mode) && !S_ISCHR(mode)) {
    return Error{.code = ErrorCode::io_error,
                 .text = fmt::format("file {}: is {}; only regular files can be replaced as a "
                                     "whole, and only devices like /dev/null written to instead",
                                     path.string(),
                                     kind_of(mode))};
  }
  if (target.is_device()) {
    target.path = path;
    return target;
  }
  HEARTH_TRY(target.path, follow_links(path));
  return target;
}

// Writes the bytes in sequence to a device. Fails if the device accepts none for
// kPatienceMilliseconds.
Status write_to_device(const fs::path& path, std::span<const std::byte> bytes) {
  constexpr int kPatienceMilliseconds = 10'000;
  const FileDescriptor file = FileDescriptor::open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK);
  if (!file.is_open()) {
    return file_error("open", path, errno);
  }
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(file.number(), bytes.data(), std::min(bytes.size(), kMaxTransferBytes));
    if (count == 0) {
      return file_error("write", path, EIO);  // accepts nothing and reports no error
    }
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd room{.fd = file.number(), .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, kPatienceMilliseconds) == 0) {
        return file_error("write", path, ETIMEDOUT);
      }
    } else if (errno != EINTR) {
      return file_error("write", path, errno);
    }
  }
  return {};
}

// A file in the folder of `target` that is removed unless it is renamed.
class TemporaryFile final {
 public:
  explicit TemporaryFile(const Target& target) {
    // A file that only its owner may read must not be readable by others for a moment either.
    const mode_t mode = target.exists ? 0600 : 0666;
    for (int i = 0;; ++i) {  // one for each concurrent writer and each file that cannot be removed
      path_ = target.path;
      path_ += ".hearth-tmp-" + std::to_string(i);
      remove_leftover(path_);
      file_ = FileDescriptor::open(path_, O_WRONLY | O_CREAT | O_EXCL, mode);
      if (!file_.is_open() && errno != EEXIST) {
        error_number_ = errno;
        return;
      }
      if (file_.is_open() && is_mine()) {
        return;
      }
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (error_number_ == 0 && !is_renamed_) {
      ::unlink(path_.c_str());
    }
  }

  // 0, or the errno of the failed creation.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  [[nodiscard]] const FileDescriptor& file() const noexcept { return file_; }
  /// Copies owner, group and mode of the file to be replaced.
  [[nodiscard]] Status become_like(const Target& target) const {
    const struct stat& old = target.facts;
    struct stat now {};
    if (::fstat(file_.number(), &now) != 0) {
      return file_error("read the mode of the new file beside it", target.path, errno);
    }
    const bool is_owner_other = now.st_uid != old.st_uid || now.st_gid != old.st_gid;
    // Only root may change owners (EPERM), and only to users of its namespace (EINVAL). In these
    // cases the new file keeps its writer as owner.
    if (is_owner_other && ::fchown(file_.number(), old.st_uid, old.st_gid) != 0 && errno != EPERM &&
        errno != EINVAL) {
      return file_error("keep its owner", target.path, errno);
    }
    // Some file systems have one mode for all files and refuse to change it.
    constexpr mode_t kAll = 07777;
    if ((now.st_mode & kAll) != (old.st_mode & kAll) &&
        ::fchmod(file_.number(), old.st_mode & kAll) != 0) {
      return file_error("keep its mode", target.path, errno);
    }
    return {};
  }
  [[nodiscard]] Status rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      return file_error("rename the new file to it", target, errno);
    }
    is_renamed_ = true;
    return {};
  }

 private:
  // False if another writer removed the file as a leftover before it was locked. A file system
  // without locks has no such writers.
  [[nodiscard]] bool is_mine() const noexcept {
    return (try_lock(file_) || errno != EWOULDBLOCK) && is_name_of(path_, file_);
  }

  fs::path path_;
  FileDescriptor file_;  // open, and so locked, until the file is renamed
  int error_number_ = 0;
  bool is_renamed_ = false;
};

}  // namespace

// O_NONBLOCK, because opening a pipe would wait for its writer. Devices are refused: they have no
// end.
Result<FileDescriptor> detail::open_regular(const fs::path& path, std::size_t& size_bytes) {
  FileDescriptor file = FileDescriptor::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.is_open()) {
    const int error_number = errno;
    Error error = file_error("open", path, error_number);
    error.code = error_number == ENOENT ? ErrorCode::not_found : ErrorCode::io_error;
    return error;
  }
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) {
    return file_error("read its size", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{.code = ErrorCode::io_error,
                 .text = fmt::format("file {}: is {}; only regular files are read as a whole",
                                     path.string(),
                                     kind_of(status.st_mode))};
  }
  size_bytes = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  return file;
}

Result<std::vector<std::byte>> read_file(const fs::path& path) {
  std::size_t size_bytes = 0;
  HEARTH_TRY(const FileDescriptor file, detail::open_regular(path, size_bytes));
  // The size is only a hint: a file may grow, and kernel files (/proc) report 0.
  const std::string what = "file " + path.string();
  HEARTH_TRY(std::vector<std::byte> bytes, host_vector<std::byte>(size_bytes + 1, what));
  std::size_t filled = 0;
  for (;;) {
    const ssize_t count = ::read(
        file.number(), bytes.data() + filled, std::min(bytes.size() - filled, kMaxTransferBytes));
    if (count < 0 && errno != EINTR) {
      return file_error("read", path, errno);
    }
    if (count == 0) {
      bytes.resize(filled);
      return bytes;
    }
    filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    if (filled == bytes.size()) {
      HEARTH_TRY_STATUS(resize_on_host(bytes, bytes.size() * 2, what));
    }
  }
}

Status FileWriter::write(std::span<const std::byte> bytes) {
  if (memory_ != nullptr) {
    HEARTH_TRY_STATUS(
        resize_on_host(*memory_, memory_->size() + bytes.size(), "file " + path_.string()));
  }
  HEARTH_TRY_STATUS(write_at(size_bytes_, bytes));
  size_bytes_ += bytes.size();
  return {};
}

Status FileWriter::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  if (memory_ != nullptr) {
    std::ranges::copy(bytes, memory_->begin() + static_cast<std::ptrdiff_t>(offset_bytes));
    return {};
  }
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_,
                                   bytes.data(),
                                   std::min(bytes.size(), kMaxTransferBytes),
                                   static_cast<off_t>(offset_bytes));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return file_error("write", path_, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset_bytes += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  return write_file_atomically(path, [&](FileWriter& writer) { return writer.write(bytes); });
}

namespace {

Status write_whole(const fs::path& path,
                   const std::function<Status(FileWriter&)>& write,
                   bool is_synced) {
  HEARTH_TRY(const Target target, find_target(path));
  if (target.is_device()) {
    std::vector<std::byte> content;
    FileWriter writer(content, path);
    HEARTH_TRY_STATUS(write(writer));
    return write_to_device(path, content);
  }
  TemporaryFile temporary(target);
  if (temporary.error_number() != 0) {
    const fs::path folder = folder_of(target.path);
    if (temporary.error_number() == ENOENT && ::access(folder.c_str(), F_OK) != 0) {
      return no_folder(path, folder);
    }
    return file_error("create a temporary file beside it", path, temporary.error_number());
  }
  if (target.exists) {
    HEARTH_TRY_STATUS(temporary.become_like(target));
  }
  FileWriter writer(temporary.file().number(), path);
  HEARTH_TRY_STATUS(write(writer));
  if (!is_synced) {
    return temporary.rename_to(target.path);
  }
  if (const int error_number = sync(temporary.file()); error_number != 0) {
    return file_error("sync", path, error_number);
  }
  HEARTH_TRY_STATUS(temporary.rename_to(target.path));
  return sync_folder(target.path);
}

}  // namespace

Status write_file_atomically(const fs::path& path,
                             const std::function<Status(FileWriter&)>& write) {
  return write_whole(path, write, true);
}

Status write_file_unsynced(const fs::path& path, const std::function<Status(FileWriter&)>& write) {
  return write_whole(path, write, false);
}

Status check_writable(const fs::path& path) {
  HEARTH_TRY(const Target target, find_target(path));
  if (target.is_device()) {
    return ::access(path.c_str(), W_OK) == 0 ? Status() : file_error("write", path, errno);
  }
  const fs::path folder = folder_of(target.path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return errno == ENOENT ? no_folder(path, folder)
                           : file_error("write into its folder", path, errno);
  }
  return {};
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return file_error("make the folder", path, error.value());
  }
  return {};
}

Result<fs::path> cache_dir(const detail::Settings& settings) {
  HEARTH_TRY(std::optional<fs::path> chosen, settings.path(detail::Setting::cache_dir));
  if (chosen) {
    return std::move(*chosen);
  }
  // The XDG standard requires that a relative path is ignored here.
  const Result<std::optional<fs::path>> xdg = settings.path(detail::Setting::xdg_cache_home);
  if (xdg.has_value() && xdg.value()) {
    return *xdg.value() / "hearth";
  }
  const Result<std::optional<fs::path>> home = settings.path(detail::Setting::home);
  if (home.has_value() && home.value()) {
    return *home.value() / ".cache" / "hearth";
  }
  return Error{.code = ErrorCode::not_found,
               .text =
                   "cache folder: none of HEARTH_CACHE_DIR, XDG_CACHE_HOME and HOME is an "
                   "absolute path"};
}

}  // namespace hearth
