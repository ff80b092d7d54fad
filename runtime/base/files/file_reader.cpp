#include <hearth/runtime/base/file_reader.hpp>

#include "file_descriptor.hpp"
#include "file_error.hpp"
#include "regular_file.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hearth {

using detail::file_error;
using detail::FileDescriptor;

namespace {

Error changed(const std::filesystem::path& path, std::string_view what) {
  return Error{.code = ErrorCode::bad_format,
               .text = fmt::format("file {}: it changed while it was read: {}; another program "
                                   "writes to it",
                                   path.string(),
                                   what)};
}

}  // namespace

FileReader::FileReader(FileDescriptor file, std::filesystem::path path)
    : file_(std::make_unique<FileDescriptor>(std::move(file))), path_(std::move(path)) {}
FileReader::FileReader(FileReader&&) noexcept = default;
FileReader& FileReader::operator=(FileReader&&) noexcept = default;
FileReader::~FileReader() = default;

Result<FileReader> FileReader::open(const std::filesystem::path& path) {
  std::size_t size_bytes = 0;
  HEARTH_TRY(FileDescriptor file, detail::open_regular(path, size_bytes));
  FileReader reader(std::move(file), path);
  HEARTH_TRY_STATUS(reader.note_facts());
  return reader;
}

Status FileReader::note_facts() {
  struct stat facts {};
  if (::fstat(file_->number(), &facts) != 0) {
    return file_error("read its size", path_, errno);
  }
  size_bytes_ = static_cast<std::uint64_t>(std::max<off_t>(facts.st_size, 0));
  modified_ = facts.st_mtim;
  return {};
}

Status FileReader::check_unchanged() const {
  struct stat facts {};
  if (::fstat(file_->number(), &facts) != 0) {
    return file_error("read its size", path_, errno);
  }
  if (static_cast<std::uint64_t>(facts.st_size) != size_bytes_) {
    return changed(path_,
                   fmt::format("it had {} bytes and has {} now", size_bytes_, facts.st_size));
  }
  if (facts.st_mtim.tv_sec != modified_.tv_sec || facts.st_mtim.tv_nsec != modified_.tv_nsec) {
    return changed(path_,
                   fmt::format("its time of modification is another, at {} bytes", size_bytes_));
  }
  return {};
}

Status FileReader::read_at(std::uint64_t offset_bytes, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t count = ::pread(file_->number(),
                                  target.data(),
                                  std::min(target.size(), detail::kMaxTransferBytes),
                                  static_cast<off_t>(offset_bytes));
    if (count < 0 && errno != EINTR) {
      return file_error("read", path_, errno);
    }
    if (count == 0) {
      HEARTH_TRY_STATUS(check_unchanged());
      return Error{
          .code = ErrorCode::bad_format,
          .text = fmt::format("file {}: it has {} bytes, but {} more are wanted at byte {}",
                              path_.string(),
                              size_bytes_,
                              target.size(),
                              offset_bytes)};
    }
    const auto filled = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    target = target.subspan(filled);
    offset_bytes += filled;
  }
  return check_unchanged();
}

}  // namespace hearth
