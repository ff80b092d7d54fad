#include "pickle.hpp"

#include <hearth/runtime/base/host_memory.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace hearth::detail {

Status PickleStream::fill() {
  constexpr std::uint64_t kBufferBytes = 1U << 16U;
  if (used_ < buffer_.size()) {
    return {};
  }
  if (place_ >= end_) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("file {}: the pickle is truncated: it goes on at byte {}, "
                                     "where it ends",
                                     reader_.path().string(),
                                     place_)};
  }
  buffer_.resize(std::min(kBufferBytes, end_ - place_));
  used_ = 0;
  return reader_.read_at(place_, buffer_);
}

Result<std::string> PickleStream::take(std::uint64_t count) {
  if (count > end_ - std::min(place_, end_) || count > kMostPickleBytes) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("file {}: the pickle has a value of {} bytes at byte {}, and "
                                     "{} bytes follow (at most {} are allowed)",
                                     reader_.path().string(),
                                     count,
                                     place_,
                                     end_ - std::min(place_, end_),
                                     kMostPickleBytes)};
  }
  std::string text;
  while (text.size() < count) {
    HEARTH_TRY_STATUS(fill());
    const std::size_t part = std::min<std::size_t>(count - text.size(), buffer_.size() - used_);
    text.append(reinterpret_cast<const char*>(buffer_.data()) + used_, part);
    used_ += part;
    place_ += part;
  }
  return text;
}

Result<std::uint8_t> PickleStream::take_byte() {
  HEARTH_TRY_STATUS(fill());
  ++place_;
  return std::to_integer<std::uint8_t>(buffer_[used_++]);
}

Result<std::uint64_t> PickleStream::take_number(int byte_count) {
  std::uint64_t number = 0;
  for (int i = 0; i < byte_count; ++i) {
    HEARTH_TRY(const std::uint8_t byte, take_byte());
    number |= std::uint64_t{byte} << static_cast<unsigned>(8 * i);
  }
  return number;
}

Result<std::string> PickleStream::take_line() {
  constexpr std::size_t kMostLineBytes = 1U << 20U;
  std::string line;
  for (;;) {
    HEARTH_TRY(const std::uint8_t byte, take_byte());
    if (byte == '\n') {
      return line;
    }
    if (line.size() == kMostLineBytes) {
      return Error{.code = ErrorCode::bad_format,
                   .text = fmt::format("file {}: the pickle has a line of more than {} bytes, up "
                                       "to byte {}",
                                       reader_.path().string(),
                                       kMostLineBytes,
                                       place_)};
    }
    line += static_cast<char>(byte);
  }
}

}  // namespace hearth::detail
