#include <hearth/backends/sim/shadow_memory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace hearth::sim {
namespace {

std::uintptr_t begin_of(const ByteRange& range) noexcept {
  return std::bit_cast<std::uintptr_t>(range.data);
}
std::uintptr_t end_of(const ByteRange& range) noexcept {
  return begin_of(range) + static_cast<std::uintptr_t>(range.size_bytes);
}

std::string who(std::uint64_t command) {
  return command == ShadowMemory::kHost ? "the host" : fmt::format("command {}", command);
}

}  // namespace

const char* name(ShadowFault fault) noexcept {
  switch (fault) {
    case ShadowFault::out_of_bounds:
      return "out_of_bounds";
    case ShadowFault::uninitialised_read:
      return "uninitialised_read";
    case ShadowFault::read_before_produce:
      return "read_before_produce";
    case ShadowFault::host_bytes_changed:
      return "host_bytes_changed";
    case ShadowFault::reuse_before_timeline:
      return "reuse_before_timeline";
  }
  return "";
}

Error to_error(const ShadowReport& report, const std::string& device) {
  return {.code = ErrorCode::internal,
          .text = fmt::format("{}: shadow memory: {}: {}", device, name(report.fault), report.text),
          .device = device};
}

void ShadowMemory::add_page(ByteRange page) {
  pages_[begin_of(page)] = end_of(page);
  if (page.size_bytes > 0) {
    cells_[begin_of(page)] = Cell{.end = end_of(page), .writer = 0, .readers = {}};
  }
}

std::optional<ShadowReport> ShadowMemory::resize_page(ByteRange page,
                                                      std::int64_t size_bytes,
                                                      const IsOrderedFn& has_ended) {
  const std::int64_t more_bytes = size_bytes - page.size_bytes;
  pages_[begin_of(page)] = begin_of(page) + static_cast<Address>(size_bytes);
  if (more_bytes > 0) {
    cells_[end_of(page)] =
        Cell{.end = end_of(page) + static_cast<Address>(more_bytes), .writer = 0, .readers = {}};
    return std::nullopt;
  }
  return forget({page.data + size_bytes, -more_bytes}, has_ended);
}

std::optional<ShadowReport> ShadowMemory::remove_page(ByteRange page,
                                                      const IsOrderedFn& has_ended) {
  pages_.erase(begin_of(page));
  return forget(page, has_ended);
}

std::optional<ShadowReport> ShadowMemory::forget(const ByteRange& range,
                                                 const IsOrderedFn& command_has_ended) {
  const auto has_ended = [&](std::uint64_t command) {
    return command == kHost || command_has_ended(command);
  };
  std::optional<ShadowReport> fault;
  auto cell = cut(range);
  while (cell != cells_.end() && cell->first < end_of(range)) {
    std::uint64_t user =
        cell->second.writer != 0 && !has_ended(cell->second.writer) ? cell->second.writer : 0;
    for (const std::uint64_t reader : cell->second.readers) {
      user = has_ended(reader) ? user : reader;
    }
    if (user != 0 && !fault) {
      fault = ShadowReport{.fault = ShadowFault::reuse_before_timeline,
                           .command = 0,
                           .earlier = user,
                           .text = fmt::format("a page of {} bytes was freed while command {} may "
                                               "still use it",
                                               range.size_bytes,
                                               user)};
    }
    cell = cells_.erase(cell);
  }
  return fault;
}

std::optional<ShadowReport> ShadowMemory::access(std::uint64_t command,
                                                 std::span<const ByteRange> reads,
                                                 std::span<const ByteRange> writes,
                                                 const IsOrderedFn& is_command_ordered) {
  const IsOrderedFn is_ordered = [&](std::uint64_t earlier) {
    return earlier == kHost || is_command_ordered(earlier);
  };
  std::optional<ShadowReport> first;
  const auto note = [&first](std::optional<ShadowReport> fault) {
    if (fault && !first) {
      first = std::move(fault);
    }
  };
  for (const ByteRange& range : reads) {
    note(read(command, range, is_ordered));
  }
  for (const ByteRange& range : writes) {
    note(write(command, range, is_ordered));
  }
  return first;
}

std::optional<ShadowReport> ShadowMemory::find_bounds_fault(std::uint64_t command,
                                                            const ByteRange& range) const {
  auto page = pages_.upper_bound(begin_of(range));
  if (page != pages_.begin() && end_of(range) <= std::prev(page)->second) {
    return std::nullopt;
  }
  return ShadowReport{
      .fault = ShadowFault::out_of_bounds,
      .command = command,
      .earlier = 0,
      .text = fmt::format(
          "{} touches {} bytes that belong to no page", who(command), range.size_bytes)};
}

std::optional<ShadowReport> ShadowMemory::read(std::uint64_t command,
                                               const ByteRange& range,
                                               const IsOrderedFn& is_ordered) {
  if (range.size_bytes == 0) {
    return std::nullopt;
  }
  if (auto fault = find_bounds_fault(command, range)) {
    return fault;
  }
  std::optional<ShadowReport> found;
  for (auto cell = cut(range); cell != cells_.end() && cell->first < end_of(range); ++cell) {
    Cell& bytes = cell->second;
    if (bytes.writer == 0 && !found) {
      found = ShadowReport{
          .fault = ShadowFault::uninitialised_read,
          .command = command,
          .earlier = 0,
          .text = fmt::format(
              "{} reads {} bytes that were never written", who(command), bytes.end - cell->first)};
    } else if (bytes.writer != 0 && bytes.writer != command && !is_ordered(bytes.writer) &&
               !found) {
      found = ShadowReport{
          .fault = ShadowFault::read_before_produce,
          .command = command,
          .earlier = bytes.writer,
          .text = fmt::format("{} reads bytes of command {}, for which it does not wait",
                              who(command),
                              bytes.writer)};
    }
    std::erase_if(bytes.readers, is_ordered);
    bytes.readers.push_back(command);
  }
  return found;
}

std::optional<ShadowReport> ShadowMemory::write(std::uint64_t command,
                                                const ByteRange& range,
                                                const IsOrderedFn& is_ordered) {
  if (range.size_bytes == 0) {
    return std::nullopt;
  }
  if (auto fault = find_bounds_fault(command, range)) {
    return fault;
  }
  std::optional<ShadowReport> found;
  for (auto cell = cut(range); cell != cells_.end() && cell->first < end_of(range);) {
    Cell& bytes = cell->second;
    const auto check = [&](std::uint64_t earlier) {
      if (earlier != 0 && earlier != command && !found && !is_ordered(earlier)) {
        found = ShadowReport{
            .fault = ShadowFault::reuse_before_timeline,
            .command = command,
            .earlier = earlier,
            .text = fmt::format("{} writes over bytes of command {}, for which it does not wait",
                                who(command),
                                earlier)};
      }
    };
    check(bytes.writer);
    std::ranges::for_each(bytes.readers, check);
    cell = cells_.erase(cell);
  }
  cells_[begin_of(range)] = Cell{.end = end_of(range), .writer = command, .readers = {}};
  return found;
}

void ShadowMemory::cut_at(Address address) {
  auto after = cells_.upper_bound(address);
  if (after == cells_.begin()) {
    return;
  }
  auto cell = std::prev(after);
  if (cell->first < address && address < cell->second.end) {
    Cell right = cell->second;
    cell->second.end = address;
    cells_.emplace(address, std::move(right));
  }
}

ShadowMemory::Cells::iterator ShadowMemory::cut(const ByteRange& range) {
  cut_at(begin_of(range));
  cut_at(end_of(range));
  return cells_.lower_bound(begin_of(range));
}

}  // namespace hearth::sim
