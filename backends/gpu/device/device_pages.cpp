#include "device_pages.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/encoder/parameter_block.hpp"

namespace hearth::gpu {

Result<Page> DevicePages::allocate_page(std::int64_t size_bytes) {
  const DeviceFacts& facts = device_->facts();
  if (size_bytes > facts.largest_piece_bytes) {
    return Error{.code = ErrorCode::out_of_memory,
                 .text = fmt::format("{}: {} bytes in one piece, and its driver gives {} at most",
                                     facts.name,
                                     size_bytes,
                                     facts.largest_piece_bytes),
                 .device = facts.name};
  }
  HEARTH_TRY(std::unique_ptr<MemoryPiece> piece,
             device_->make_memory(size_bytes, MemoryPlace::device));
  const std::uint64_t address = piece->address();
  const Page page{.data = reinterpret_cast<std::byte*>(address),  // NOLINT: never followed here
                  .size_bytes = size_bytes};
  pages_.emplace(address, std::move(piece));
  allocated_bytes_ += size_bytes;
  return page;
}

std::int64_t DevicePages::early_page_bytes() const noexcept {
  constexpr std::int64_t kPart = 2048;
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  const DeviceFacts& facts = device_->facts();
  return facts.limits.is_cpu ? 0 : std::min(facts.memory_bytes / kPart, kMostBytes);
}

void DevicePages::free_page(Page page) noexcept {
  const auto found = pages_.find(address_of(page.data));
  if (found != pages_.end() && !keeps_all_) {
    allocated_bytes_ -= found->second->size_bytes();
    pages_.erase(found);
  }
}

Result<PageBytes> DevicePages::find(const std::byte* address) const {
  const std::uint64_t number = address_of(address);
  auto after = pages_.upper_bound(number);
  if (after != pages_.begin()) {
    const MemoryPiece& page = *std::prev(after)->second;
    const auto offset = static_cast<std::int64_t>(number - page.address());
    if (offset < page.size_bytes()) {
      return PageBytes{.place = page.at(offset),
                       .host = page.host() == nullptr ? nullptr : page.host() + offset};
    }
  }
  const std::string& name = device_->facts().name;
  return Error{.code = ErrorCode::internal,
               .text = fmt::format("{}: the address {:#x} lies in no page", name, number),
               .device = name};
}

}  // namespace hearth::gpu
