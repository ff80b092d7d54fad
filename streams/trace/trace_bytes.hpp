// Encoding of a trace file's parts: numbers as in memory, texts and lists with their lengths in
// front, frames with a checksum. Private to streams/trace. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::trace_file {

inline constexpr std::uint32_t kFrameVersion = 1;

enum class FrameKind : std::uint32_t {
  notes = 1,
  devices,
  shapes,
  places,
  paths,
  data,
  ops,
  expressions,  ///< Between paths and data, if there are any.
};
inline constexpr std::string_view kFrameNames[] = {
    "", "notes", "devices", "shapes", "places", "paths", "data", "ops", "expressions"};

struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t version = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(FrameHeader) == 24);

class ByteWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(std::as_bytes(std::span<const T>(&value, 1)));
  }
  void put_count(std::size_t count) { put(static_cast<std::uint32_t>(count)); }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_sized(std::span<const std::byte> bytes) {
    put(static_cast<std::uint64_t>(bytes.size()));
    put_bytes(bytes);
  }
  void put_text(std::string_view text) {
    put_sized(std::as_bytes(std::span(text.data(), text.size())));
  }

  /// Writes a frame, whose body `fill` appends.
  template <class Fill>
  void frame(FrameKind kind, const Fill& fill) {
    const std::size_t start = bytes_.size();
    put(FrameHeader{});
    fill();
    const std::span<const std::byte> body =
        std::span<const std::byte>(bytes_).subspan(start + sizeof(FrameHeader));
    const FrameHeader header{
        static_cast<std::uint32_t>(kind), kFrameVersion, body.size(), xxh64(body)};
    std::memcpy(bytes_.data() + start, &header, sizeof header);
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

[[nodiscard]] inline Error bad_byte(std::size_t place, std::string_view what) {
  return Error{.code = ErrorCode::bad_format, .text = fmt::format("byte {}: {}", place, what)};
}

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::size_t begin, std::size_t end) noexcept
      : bytes_(bytes), place_(begin), end_(end) {}

  [[nodiscard]] std::size_t place() const noexcept { return place_; }
  [[nodiscard]] std::size_t left() const noexcept { return end_ - place_; }
  [[nodiscard]] Error bad(std::string_view what) const { return bad_byte(place_, what); }

  template <class T>
  [[nodiscard]] Result<T> get() {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left() < sizeof(T)) {
      return bad(fmt::format("{} bytes are left, {} are needed", left(), sizeof(T)));
    }
    T value{};
    std::memcpy(&value, bytes_.data() + place_, sizeof(T));
    place_ += sizeof(T);
    return value;
  }
  /// Reads the count of a list whose entries take at least `least` bytes each.
  [[nodiscard]] Result<std::uint32_t> get_count(std::size_t least) {
    const std::size_t start = place_;
    HEARTH_TRY(const auto count, get<std::uint32_t>());
    if (count > left() / least) {
      return bad_byte(
          start,
          fmt::format("{} entries do not fit into the {} bytes that are left", count, left()));
    }
    return count;
  }
  [[nodiscard]] Result<std::span<const std::byte>> get_bytes(std::uint64_t size) {
    if (size > left()) {
      return bad(fmt::format("{} bytes are left, {} are needed", left(), size));
    }
    const std::span<const std::byte> part = bytes_.subspan(place_, static_cast<std::size_t>(size));
    place_ += part.size();
    return part;
  }
  [[nodiscard]] Result<std::span<const std::byte>> get_sized() {
    HEARTH_TRY(const auto size, get<std::uint64_t>());
    return get_bytes(size);
  }
  [[nodiscard]] Result<std::string> get_text() {
    HEARTH_TRY(const auto bytes, get_sized());
    return std::string(reinterpret_cast<const char*>(bytes.data()),
                       bytes.size());  // NOLINT: bytes of a text
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t place_;
  std::size_t end_;
};

}  // namespace hearth::trace_file
