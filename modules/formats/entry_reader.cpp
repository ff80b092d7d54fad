#include "entry_reader.hpp"

#include <hearth/runtime/base/host_memory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hearth::detail {
namespace {

template <class... Args>
Error bad_element(fmt::format_string<Args...> format, Args&&... args) {
  return Error{.code = ErrorCode::bad_format,
               .text = fmt::format(format, std::forward<Args>(args)...)};
}

template <class From, class To>
void widen(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    const auto wide = static_cast<To>(value);
    std::memcpy(to.data() + i * sizeof wide, &wide, sizeof wide);
  }
}

}  // namespace

std::size_t EntryReader::size_bytes() const {
  return static_cast<std::size_t>(entry_.shape.element_count() * hearth::size_bytes(entry_.dtype));
}

Status EntryReader::read_raw(std::size_t offset_bytes, std::span<std::byte> target) const {
  return part_.reader.read_at(part_.data_begin_bytes + entry_.offset_bytes + offset_bytes, target);
}

Status EntryReader::read(std::size_t offset_bytes, std::span<std::byte> piece) {
  if (entry_.strides.empty()) {
    return read_dense(offset_bytes, piece);
  }
  return read_strided(offset_bytes, piece);
}

Status EntryReader::read_dense(std::size_t offset_bytes, std::span<std::byte> piece) {
  const auto width = static_cast<std::size_t>(hearth::size_bytes(entry_.dtype));
  if (entry_.stored == StoredType::same) {
    HEARTH_TRY_STATUS(read_raw(offset_bytes, piece));
    return check_booleans(offset_bytes / width, piece);
  }
  const std::size_t stored = stored_bytes(entry_.stored, entry_.dtype);
  HEARTH_TRY(std::vector<std::byte> raw,
             host_vector<std::byte>(piece.size() / width * stored, "a tensor of a file"));
  HEARTH_TRY_STATUS(read_raw(offset_bytes / width * stored, raw));
  return convert(offset_bytes / width, raw, piece);
}

// Phases: the bytes from the first to the last element, once; their elements in row-major order,
// from the first one of the piece; conversion.
Status EntryReader::read_strided(std::size_t offset_bytes, std::span<std::byte> piece) {
  if (extent_.empty()) {
    HEARTH_TRY(extent_, host_vector<std::byte>(entry_.size_bytes, "a tensor of a file"));
    HEARTH_TRY_STATUS(read_raw(0, extent_));
  }
  const auto width = static_cast<std::size_t>(hearth::size_bytes(entry_.dtype));
  const std::size_t stored = stored_bytes(entry_.stored, entry_.dtype);
  const std::size_t first = offset_bytes / width;
  HEARTH_TRY(std::vector<std::byte> raw,
             host_vector<std::byte>(piece.size() / width * stored, "a tensor of a file"));
  const int rank = entry_.shape.rank();
  std::vector<std::int64_t> index(static_cast<std::size_t>(rank));
  std::int64_t place = 0;
  auto rest = static_cast<std::int64_t>(first);
  for (int axis = rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    index[at] = rest % entry_.shape[axis];
    rest /= entry_.shape[axis];
    place += index[at] * entry_.strides[at];
  }
  for (std::size_t to = 0; to < raw.size(); to += stored) {
    std::memcpy(raw.data() + to, extent_.data() + static_cast<std::size_t>(place) * stored, stored);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      place += entry_.strides[at];
      if (++index[at] < entry_.shape[axis]) {
        break;
      }
      place -= index[at] * entry_.strides[at];
      index[at] = 0;
    }
  }
  return convert(first, raw, piece);
}

Status EntryReader::convert(std::size_t first,
                            std::span<const std::byte> from,
                            std::span<std::byte> to) const {
  switch (entry_.stored) {
    case StoredType::i16:
      widen<std::int16_t, std::int32_t>(from, to);
      return {};
    case StoredType::u16:
      widen<std::uint16_t, std::int32_t>(from, to);
      return {};
    case StoredType::u32:
      widen<std::uint32_t, std::int64_t>(from, to);
      return {};
    case StoredType::u64:
    case StoredType::same:
      break;
  }
  std::memcpy(to.data(), from.data(), to.size());
  if (entry_.stored == StoredType::same) {
    return check_booleans(first, to);
  }
  for (std::size_t i = 0; i < to.size() / sizeof(std::uint64_t); ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, to.data() + i * sizeof value, sizeof value);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad_element("file {}: tensor '{}': element {} of a U64 is {}, which i64 cannot hold",
                         part_.reader.path().string(),
                         entry_.name,
                         first + i,
                         value);
    }
  }
  return {};
}

// Another program may have stored other values than 0 and 1.
Status EntryReader::check_booleans(std::size_t first, std::span<const std::byte> bytes) const {
  if (entry_.dtype != DType::boolean) {
    return {};
  }
  const auto other =
      std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
  if (other == bytes.end()) {
    return {};
  }
  return bad_element("file {}: tensor '{}': byte {} of a BOOL is {}, neither 0 nor 1",
                     part_.reader.path().string(),
                     entry_.name,
                     first + static_cast<std::size_t>(other - bytes.begin()),
                     std::to_integer<int>(*other));
}

}  // namespace hearth::detail
