#include "zip_archive.hpp"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::detail {
namespace {

constexpr std::size_t kMostMembers = 1'000'000;

// File of minizip's callbacks: a reader and a place in it. minizip reads single bytes, so they come
// from a window of the file.
struct OpenFile {
  const FileReader* reader;
  std::uint64_t place = 0;
  Status failure = {};
  std::vector<std::byte> window = {};
  std::uint64_t window_begin = 0;

  // Copies bytes from `place` on. Returns their number; fewer at the end or after a failure.
  std::size_t copy(std::byte* to, std::size_t count) {
    std::size_t copied = 0;
    while (copied < count && place < reader->size_bytes() && failure.has_value()) {
      if (place < window_begin || place >= window_begin + window.size()) {
        move_window();
        continue;
      }
      const std::uint64_t skipped = place - window_begin;
      const auto part = std::min<std::uint64_t>(count - copied, window.size() - skipped);
      std::copy_n(window.begin() + static_cast<std::ptrdiff_t>(skipped), part, to + copied);
      copied += part;
      place += part;
    }
    return copied;
  }

 private:
  void move_window() {
    constexpr std::uint64_t kWindowBytes = 4096;
    window_begin = place;
    window.resize(std::min(kWindowBytes, reader->size_bytes() - place));
    failure = reader->read_at(place, window);
  }
};

template <class... Args>
Error bad_zip(const FileReader& reader, fmt::format_string<Args...> format, Args&&... args) {
  return Error{
      .code = ErrorCode::bad_format,
      .text = fmt::format(
          "file {}: {}", reader.path().string(), fmt::format(format, std::forward<Args>(args)...))};
}

// ---- the callbacks of minizip; none throws ----

OpenFile& opened(voidpf stream) {
  return *static_cast<OpenFile*>(stream);
}
voidpf open_stream(voidpf opaque, const void* /*name*/, int /*mode*/) {
  return opaque;
}
uLong read_stream(voidpf /*opaque*/, voidpf stream, void* buffer, uLong size) {
  return opened(stream).copy(static_cast<std::byte*>(buffer), size);
}
uLong write_stream(voidpf /*opaque*/, voidpf /*stream*/, const void* /*bytes*/, uLong /*size*/) {
  return 0;
}
ZPOS64_T tell_stream(voidpf /*opaque*/, voidpf stream) {
  return opened(stream).place;
}
long seek_stream(voidpf /*opaque*/, voidpf stream, ZPOS64_T offset, int origin) {
  OpenFile& file = opened(stream);
  std::uint64_t from = 0;
  if (origin == ZLIB_FILEFUNC_SEEK_CUR) {
    from = file.place;
  } else if (origin == ZLIB_FILEFUNC_SEEK_END) {
    from = file.reader->size_bytes();
  }
  file.place = from + offset;
  return 0;
}
int close_stream(voidpf /*opaque*/, voidpf /*stream*/) {
  return 0;
}
int error_of_stream(voidpf /*opaque*/, voidpf stream) {
  return opened(stream).failure.has_value() ? 0 : 1;
}

struct CloseZip {
  void operator()(void* zip) const noexcept { unzClose(zip); }
};
using Zip = std::unique_ptr<void, CloseZip>;

Zip open_zip(OpenFile& file) {
  zlib_filefunc64_def calls{.zopen64_file = open_stream,
                            .zread_file = read_stream,
                            .zwrite_file = write_stream,
                            .ztell64_file = tell_stream,
                            .zseek64_file = seek_stream,
                            .zclose_file = close_stream,
                            .zerror_file = error_of_stream,
                            .opaque = &file};
  return Zip(unzOpen2_64("", &calls));
}

// Adds the archive's current member.
Status add_member(const Zip& zip,
                  const FileReader& reader,
                  std::map<std::string, ZipMember>& members) {
  std::array<char, 4097> name{};
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(
          zip.get(), &info, name.data(), name.size() - 1, nullptr, 0, nullptr, 0) != UNZ_OK) {
    return bad_zip(
        reader, "damaged zip archive: the entry of member {} is unreadable", members.size());
  }
  if (info.size_filename >= name.size()) {
    return bad_zip(reader,
                   "zip archive: the name of member {} has {} bytes (at most {} are "
                   "allowed)",
                   members.size(),
                   info.size_filename,
                   name.size() - 1);
  }
  const std::string text(name.data(), info.size_filename);
  ZipMember member{.size_bytes = info.uncompressed_size};
  int method = 0;
  int level = 0;
  if (unzOpenCurrentFile2(zip.get(), &method, &level, 1) != UNZ_OK) {
    return bad_zip(reader, "damaged zip archive: the header of '{}' is unreadable", text);
  }
  member.offset_bytes = unzGetCurrentFileZStreamPos64(zip.get());
  unzCloseCurrentFile(zip.get());
  constexpr uLong kEncrypted = 1;
  if (method != 0 || (info.flag & kEncrypted) != 0) {
    member.unreadable =
        fmt::format("its member '{}' is {}: torch.save() stores members as they are",
                    text,
                    method != 0 ? "compressed" : "encrypted");
    member.size_bytes = info.compressed_size;
  }
  if (member.size_bytes > reader.size_bytes() ||
      member.offset_bytes > reader.size_bytes() - member.size_bytes) {
    return bad_zip(reader,
                   "damaged zip archive: '{}' has {} bytes at byte {}, but the file has {}",
                   text,
                   member.size_bytes,
                   member.offset_bytes,
                   reader.size_bytes());
  }
  if (!members.emplace(text, std::move(member)).second) {
    return bad_zip(reader, "damaged zip archive: the name '{}' stands twice", text);
  }
  return {};
}

}  // namespace

Result<std::map<std::string, ZipMember>> read_zip_directory(const FileReader& reader) {
  OpenFile file{.reader = &reader};
  const Zip zip = open_zip(file);
  HEARTH_TRY_STATUS(file.failure);
  if (zip == nullptr) {
    return bad_zip(reader,
                   "no zip archive, or a truncated one: it begins as one, and has no "
                   "directory at its end");
  }
  std::map<std::string, ZipMember> members;
  int state = unzGoToFirstFile(zip.get());
  while (state == UNZ_OK) {
    if (members.size() == kMostMembers) {
      return bad_zip(reader, "zip archive: it has more than {} members", kMostMembers);
    }
    const Status added = add_member(zip, reader, members);
    HEARTH_TRY_STATUS(file.failure);
    HEARTH_TRY_STATUS(added);
    state = unzGoToNextFile(zip.get());
  }
  if (state != UNZ_END_OF_LIST_OF_FILE) {
    return bad_zip(
        reader, "damaged zip archive: its directory ends after {} members", members.size());
  }
  return members;
}

}  // namespace hearth::detail
