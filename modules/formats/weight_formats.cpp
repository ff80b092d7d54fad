#include "weight_formats.hpp"

#include <hearth/modules/safetensors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace hearth {
namespace detail {
namespace {

namespace fs = std::filesystem;

// Enough for the mark of a tar archive, which comes last.
constexpr std::size_t kMarkBytes = 262;

// Whether a file that begins with `mark` may be of safetensors. The first byte of its length may be
// that of a text.
bool may_be_safetensors(const std::filesystem::path& path, std::string_view mark) {
  constexpr std::size_t kLengthBytes = 8;
  return path.extension() == ".safetensors" ||
         (mark.size() > kLengthBytes && mark[kLengthBytes] == '{');
}

std::string first_bytes(const FileReader& reader, SourceLoc loc) {
  std::string mark(std::min<std::uint64_t>(kMarkBytes, reader.size_bytes()), '\0');
  const Status status = reader.read_at(0, std::as_writable_bytes(std::span(mark)));
  if (!status.has_value()) {
    throw_file_error(status.error(), loc);
  }
  return mark;
}

FileReader open_file(const fs::path& path, SourceLoc loc) {
  Result<FileReader> reader = FileReader::open(path);
  if (!reader.has_value()) {
    throw_file_error(reader.error(), loc);
  }
  return std::move(reader).value();
}

// A safetensors file may begin with the same bytes, which are the length of its header: then byte 8
// is the header's first.
bool is_zip(std::string_view mark) {
  return mark.starts_with(std::string_view("PK\x03\x04", 4)) && (mark.size() < 9 || mark[8] != '{');
}

// The number that torch.save() writes first, as a pickle of protocol 2.
bool is_legacy_torch(std::string_view mark) {
  return mark.starts_with(
      std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14));
}

// The first bytes, for an error.
std::vector<unsigned> begin_of(std::string_view mark) {
  constexpr std::size_t kMost = 8;
  std::vector<unsigned> bytes;
  for (const char byte : mark.substr(0, kMost)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return bytes;
}

// Formats of weights that this library does not read, by their first bytes.
struct OtherFormat {
  std::size_t at;
  std::string_view mark;
  std::string_view words;
};
constexpr std::array<OtherFormat, 7> kOtherFormats{
    {{0, "\x80\x04\x95", "a plain pickle of Python: save it with torch.save() or as safetensors"},
     {0, "GGUF", "a GGUF file, which is not read here"},
     {0, "\x89HDF\r\n", "an HDF5 file (Keras), which is not read here"},
     {0, "\x93NUMPY", "a NumPy array, which is not read here"},
     {0, "\x1f\x8b", "compressed by gzip: unpack it first"},
     {0, "<", "a text that begins with '<': perhaps a web page in place of the file"},
     {257, "ustar", "a tar archive, as PyTorch before 0.1.2 wrote it: save it again there"}}};

void require_known(const fs::path& path, std::string_view mark, SourceLoc loc) {
  for (const OtherFormat& other : kOtherFormats) {
    if (mark.size() >= other.at && mark.substr(other.at).starts_with(other.mark)) {
      refuse_file(ErrorCode::bad_format, path, fmt::format("it is {}", other.words), loc);
    }
  }
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (mark.starts_with(kPointer)) {
    refuse_file(ErrorCode::bad_format,
                path,
                "it is a pointer of Git LFS in place of the file: fetch it with 'git lfs pull'",
                loc);
  }
}

}  // namespace

WeightFileContent read_one_file(const fs::path& path, SourceLoc loc) {
  FileReader reader = open_file(path, loc);
  const std::string mark = first_bytes(reader, loc);
  if (is_zip(mark)) {
    return read_torch_file(std::move(reader), TorchForm::zip, loc);
  }
  if (is_legacy_torch(mark)) {
    return read_torch_file(std::move(reader), TorchForm::legacy, loc);
  }
  require_known(path, mark, loc);
  if (!may_be_safetensors(path, mark)) {
    refuse_file(ErrorCode::bad_format,
                path,
                fmt::format("it is none of the files of weights that are read here: safetensors, "
                            "an index of such files, or a file of torch.save(); it begins with the "
                            "bytes {:02x}",
                            fmt::join(begin_of(mark), " ")),
                loc);
  }
  return read_safetensors(path, loc).file;
}

}  // namespace detail

WeightFile read_weights(const std::filesystem::path& path, SourceLoc loc) {
  const std::string mark = detail::first_bytes(detail::open_file(path, loc), loc);
  const std::size_t first = mark.find_first_not_of(" \t\r\n");
  const bool is_index =
      first != mark.npos && mark[first] == '{' && !detail::may_be_safetensors(path, mark);
  return WeightFile(is_index ? detail::read_weight_index(path, loc)
                             : detail::read_one_file(path, loc));
}

}  // namespace hearth
