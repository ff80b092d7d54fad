#include <hearth/runtime/base/checked_file.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxHash asks for it
#ifndef NDEBUG
// At -Og the compiler refuses to inline functions that xxHash marks as always inline.
#define XXH_NO_INLINE_HINTS 1  // NOLINT(readability-identifier-naming)
#endif
#include <xxhash.h>

namespace hearth {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little,
              "headers are written as they lie in memory");

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t zero = 0;
  std::uint64_t payload_size_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == kCheckedHeaderBytes);

std::array<std::byte, kCheckedHeaderBytes> to_bytes(const Header& header) {
  return std::bit_cast<std::array<std::byte, kCheckedHeaderBytes>>(header);
}

Error bad(const fs::path& path, std::string_view what) {
  return Error{.code = ErrorCode::bad_format,
               .text = fmt::format("file {}: {}", path.string(), what)};
}

std::string printable(const std::array<char, 8>& magic) {
  std::string text(magic.begin(), magic.end());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  return text;
}

Status check(const fs::path& path,
             const Header& header,
             const FileFormat& format,
             std::span<const std::byte> payload) {
  if (header.magic != format.magic) {
    return bad(path,
               fmt::format("starts with '{}', not with '{}': it is another kind of file",
                           printable(header.magic),
                           printable(format.magic)));
  }
  const std::uint32_t oldest = format.oldest_version == 0 ? format.version : format.oldest_version;
  if (header.version < oldest || header.version > format.version) {
    return bad(path,
               fmt::format(
                   "has schema version {}, this program reads {}", header.version, format.version));
  }
  if (header.zero != 0) {
    return bad(path, "is damaged: bytes 12 to 15 are not 0");
  }
  if (header.payload_size_bytes != payload.size()) {
    return bad(path,
               fmt::format("has {} bytes of payload, its header states {}",
                           payload.size(),
                           header.payload_size_bytes));
  }
  if (header.checksum != xxh64(payload)) {
    return bad(path, "is damaged: its checksum is wrong");
  }
  return {};
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH64(bytes.data(), bytes.size(), seed);
}

struct Xxh3::State {
  XXH3_state_t hash;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}
Xxh3::~Xxh3() = default;

void Xxh3::add(std::span<const std::byte> piece) noexcept {
  XXH3_64bits_update(&state_->hash, piece.data(), piece.size());
}

std::uint64_t Xxh3::value() const noexcept {
  return XXH3_64bits_digest(&state_->hash);
}

std::uint64_t xxh3_64(std::span<const std::span<const std::byte>> pieces) noexcept {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const std::span<const std::byte> piece : pieces) {
    XXH3_64bits_update(&state, piece.data(), piece.size());
  }
  return XXH3_64bits_digest(&state);
}

struct CheckedWriter::State {
  XXH64_state_t hash;
};

CheckedWriter::CheckedWriter(FileWriter& file) : file_(file), state_(std::make_unique<State>()) {
  XXH64_reset(&state_->hash, 0);
}

CheckedWriter::~CheckedWriter() = default;

Status CheckedWriter::write(std::span<const std::byte> bytes) {
  HEARTH_TRY_STATUS(file_.write(bytes));
  XXH64_update(&state_->hash, bytes.data(), bytes.size());
  return {};
}

std::uint64_t CheckedWriter::payload_size_bytes() const noexcept {
  return file_.size_bytes() - kCheckedHeaderBytes;
}

std::uint64_t CheckedWriter::checksum() const noexcept {
  return XXH64_digest(&state_->hash);
}

namespace {

// Writes a blank header first to reserve its place, then the payload, then the final header.
Status write_checked(FileWriter& file,
                     const FileFormat& format,
                     const std::function<Status(CheckedWriter&)>& write) {
  HEARTH_TRY_STATUS(file.write(to_bytes(Header{})));
  CheckedWriter writer(file);
  HEARTH_TRY_STATUS(write(writer));
  const Header header{.magic = format.magic,
                      .version = format.version,
                      .payload_size_bytes = writer.payload_size_bytes(),
                      .checksum = writer.checksum()};
  return file.write_at(0, to_bytes(header));
}

}  // namespace

Status write_checked_file(const fs::path& path,
                          const FileFormat& format,
                          std::span<const std::byte> payload) {
  return write_checked_file(
      path, format, [&](CheckedWriter& writer) { return writer.write(payload); });
}

Status write_checked_file(const fs::path& path,
                          const FileFormat& format,
                          const std::function<Status(CheckedWriter&)>& write) {
  return write_file_atomically(
      path, [&](FileWriter& file) { return write_checked(file, format, write); });
}

Status write_cache_file(const fs::path& path,
                        const FileFormat& format,
                        std::span<const std::byte> payload) {
  return write_file_unsynced(path, [&](FileWriter& file) {
    return write_checked(
        file, format, [&](CheckedWriter& writer) { return writer.write(payload); });
  });
}

Result<std::vector<std::byte>> read_checked_file(const fs::path& path, const FileFormat& format) {
  HEARTH_TRY(std::vector<std::byte> bytes, read_file(path));
  if (bytes.size() < kCheckedHeaderBytes) {
    return bad(
        path,
        fmt::format("has {} bytes, its header alone needs {}", bytes.size(), kCheckedHeaderBytes));
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  HEARTH_TRY_STATUS(check(path, header, format, std::span(bytes).subspan(sizeof(Header))));
  bytes.erase(bytes.begin(), bytes.begin() + sizeof(Header));
  return bytes;
}

}  // namespace hearth
