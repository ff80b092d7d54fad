#include "pinned_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hearth::gpu {

// A block's deleter shares ownership of this memory, which therefore outlives its blocks.
HostBytes PinnedMemory::take(const GpuDevice& device, std::size_t size) {
  const auto log = std::max<std::uint32_t>(
      kLeastLog, static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(size, 1) - 1)));
  std::unique_ptr<MemoryPiece> piece;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (!free_[log].empty()) {
      piece = std::move(free_[log].back());
      free_[log].pop_back();
    }
  }
  if (piece == nullptr) {
    Result<std::unique_ptr<MemoryPiece>> made =
        device.make_memory(std::int64_t{1} << log, MemoryPlace::host_read);
    if (!made.has_value() || made.value()->host() == nullptr) {
      return HostBytes::make(size);
    }
    piece = std::move(made).value();
  }
  std::byte* const first = piece->host();
  {
    const hearth::detail::MutexLock lock(mutex_);
    held_.emplace(first, std::move(piece));
  }
  return {std::shared_ptr<std::byte>(
              first, [memory = shared_from_this()](std::byte* each) { memory->release(each); }),
          size};
}

std::optional<CopyPlace> PinnedMemory::find(std::span<const std::byte> bytes) const {
  const hearth::detail::MutexLock lock(mutex_);
  auto behind = held_.upper_bound(bytes.data());
  if (behind == held_.begin()) {
    return std::nullopt;
  }
  const auto& [first, piece] = *--behind;
  const std::ptrdiff_t offset = bytes.data() - first;
  if (offset + static_cast<std::ptrdiff_t>(bytes.size()) > piece->size_bytes()) {
    return std::nullopt;
  }
  return piece->at(offset);
}

std::int64_t PinnedMemory::size_bytes() const noexcept {
  const hearth::detail::MutexLock lock(mutex_);
  std::int64_t size = free_bytes();
  for (const auto& [first, piece] : held_) {
    size += piece->size_bytes();
  }
  return size;
}

std::int64_t PinnedMemory::free_bytes() const noexcept {
  std::int64_t size = 0;
  for (const Pieces& pieces : free_) {
    for (const std::unique_ptr<MemoryPiece>& piece : pieces) {
      size += piece->size_bytes();
    }
  }
  return size;
}

std::int64_t PinnedMemory::trim() noexcept {
  std::array<Pieces, 64> free;
  const hearth::detail::MutexLock lock(mutex_);
  const std::int64_t size = free_bytes();
  std::swap(free, free_);
  return size;
}

// Frees the piece if there is no host memory for its list entry.
void PinnedMemory::release(const std::byte* first) noexcept {
  std::unique_ptr<MemoryPiece> piece;
  const hearth::detail::MutexLock lock(mutex_);
  const auto found = held_.find(first);
  piece = std::move(found->second);
  held_.erase(found);
  const auto log = std::bit_width(static_cast<std::uint64_t>(piece->size_bytes())) - 1;
  try {
    free_[static_cast<std::size_t>(log)].push_back(std::move(piece));
  } catch (...) {
    // The piece's destructor frees it.
  }
}

}  // namespace hearth::gpu
