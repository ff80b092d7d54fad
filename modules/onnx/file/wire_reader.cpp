#include "wire_reader.hpp"

#include <google/protobuf/wire_format_lite.h>

#include <fmt/format.h>

#include <bit>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth::onnx {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr int kVarint = WireFormatLite::WIRETYPE_VARINT;
constexpr int kFixed64 = WireFormatLite::WIRETYPE_FIXED64;
constexpr int kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
constexpr int kFixed32 = WireFormatLite::WIRETYPE_FIXED32;
constexpr std::size_t kMostNameBytes = 4096;

}  // namespace

void refuse_bytes(std::string text) {
  throw_error(Error{.code = ErrorCode::bad_format, .text = std::move(text)});
}

WireReader::WireReader(std::span<const std::byte> file, ByteRange part)
    : file_(file),
      part_(part),
      stream_(reinterpret_cast<const std::uint8_t*>(file.data()) + part.begin,
              static_cast<int>(part.size)) {}

bool WireReader::next() {
  tag_ = stream_.ReadTag();
  if (tag_ != 0) {
    return true;
  }
  if (!stream_.ConsumedEntireMessage()) {
    refuse_bytes(fmt::format("byte {} is no field of a protobuf message",
                             part_.begin + static_cast<std::size_t>(stream_.CurrentPosition())));
  }
  return false;
}

void WireReader::skip() {
  // A group is obsolete, and the library follows nested ones without a limit of ours.
  const bool is_group = wire_type() == WireFormatLite::WIRETYPE_START_GROUP ||
                        wire_type() == WireFormatLite::WIRETYPE_END_GROUP;
  if (is_group || !WireFormatLite::SkipField(&stream_, tag_)) {
    refuse_bytes(fmt::format("field {} of a message is cut off", field()));
  }
}

void WireReader::require_type(int wanted) const {
  if (wire_type() != wanted) {
    refuse_bytes(fmt::format(
        "field {} of a message has wire type {}, not {}", field(), wire_type(), wanted));
  }
}

std::int64_t WireReader::integer() {
  require_type(kVarint);
  std::uint64_t value = 0;
  if (!stream_.ReadVarint64(&value)) {
    refuse_bytes(fmt::format("the number in field {} is cut off", field()));
  }
  return static_cast<std::int64_t>(value);
}

float WireReader::real() {
  require_type(kFixed32);
  std::uint32_t value = 0;
  if (!stream_.ReadLittleEndian32(&value)) {
    refuse_bytes(fmt::format("the number in field {} is cut off", field()));
  }
  return std::bit_cast<float>(value);
}

ByteRange WireReader::bytes() {
  require_type(kBytes);
  std::uint32_t size = 0;
  const bool has_size = stream_.ReadVarint32(&size);
  const auto at = static_cast<std::size_t>(stream_.CurrentPosition());
  if (!has_size || size > part_.size - at || !stream_.Skip(static_cast<int>(size))) {
    refuse_bytes(
        fmt::format("field {} at byte {} reaches beyond its message", field(), part_.begin + at));
  }
  return {part_.begin + at, size};
}

std::string WireReader::text() {
  const ByteRange range = bytes();
  if (range.size > kMostNameBytes) {
    refuse_bytes(fmt::format("a name has {} bytes, more than {}", range.size, kMostNameBytes));
  }
  const std::span<const std::byte> part = file_.subspan(range.begin, range.size);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

template <class T, class Read>
void WireReader::repeated(std::vector<T>& to, int single_type, const Read& read) {
  if (wire_type() == single_type) {
    to.push_back(read(stream_));
    return;
  }
  const ByteRange range = bytes();
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(file_.data()) + range.begin;
  google::protobuf::io::CodedInputStream packed(begin, static_cast<int>(range.size));
  while (static_cast<std::size_t>(packed.CurrentPosition()) < range.size) {
    to.push_back(read(packed));
  }
}

void WireReader::integers(std::vector<std::int64_t>& to) {
  repeated(to, kVarint, [this](google::protobuf::io::CodedInputStream& stream) {
    std::uint64_t value = 0;
    if (!stream.ReadVarint64(&value)) {
      refuse_bytes(fmt::format("a number in field {} is cut off", field()));
    }
    return static_cast<std::int64_t>(value);
  });
}

void WireReader::reals(std::vector<float>& to) {
  repeated(to, kFixed32, [this](google::protobuf::io::CodedInputStream& stream) {
    std::uint32_t value = 0;
    if (!stream.ReadLittleEndian32(&value)) {
      refuse_bytes(fmt::format("a number in field {} is cut off", field()));
    }
    return std::bit_cast<float>(value);
  });
}

void WireReader::doubles(std::vector<double>& to) {
  repeated(to, kFixed64, [this](google::protobuf::io::CodedInputStream& stream) {
    std::uint64_t value = 0;
    if (!stream.ReadLittleEndian64(&value)) {
      refuse_bytes(fmt::format("a number in field {} is cut off", field()));
    }
    return std::bit_cast<double>(value);
  });
}

}  // namespace hearth::onnx
