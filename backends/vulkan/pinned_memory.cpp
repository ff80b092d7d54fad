#include "pinned_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hearth::vulkan {

// A block's deleter shares ownership of this memory, which therefore outlives its blocks.
HostBytes PinnedMemory::take(std::size_t size) {
  const auto log = std::max<std::uint32_t>(
      kLeastLog, static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(size, 1) - 1)));
  Buffer buffer;
  {
    const hearth::detail::MutexLock lock(mutex_);
    if (!free_[log].empty()) {
      buffer = std::move(free_[log].back());
      free_[log].pop_back();
    }
  }
  if (buffer.is_empty()) {
    Result<Buffer> made = device_->make_buffer(std::int64_t{1} << log, BufferPlace::host_read);
    if (!made.has_value() || made.value().host() == nullptr) {
      return HostBytes::make(size);
    }
    buffer = std::move(made).value();
  }
  std::byte* const first = buffer.host();
  {
    const hearth::detail::MutexLock lock(mutex_);
    held_.emplace(first, std::move(buffer));
  }
  return {std::shared_ptr<std::byte>(
              first, [memory = shared_from_this()](std::byte* each) { memory->give_back(each); }),
          size};
}

std::optional<gpu::CopyPlace> PinnedMemory::find(std::span<const std::byte> bytes) const {
  const hearth::detail::MutexLock lock(mutex_);
  auto behind = held_.upper_bound(bytes.data());
  if (behind == held_.begin()) {
    return std::nullopt;
  }
  const auto& [first, buffer] = *--behind;
  const std::ptrdiff_t offset = bytes.data() - first;
  if (offset + static_cast<std::ptrdiff_t>(bytes.size()) > buffer.size_bytes()) {
    return std::nullopt;
  }
  return gpu::CopyPlace{piece_of(buffer.handle()), offset};
}

std::int64_t PinnedMemory::size_bytes() const noexcept {
  const hearth::detail::MutexLock lock(mutex_);
  std::int64_t size = free_bytes();
  for (const auto& [first, buffer] : held_) {
    size += buffer.size_bytes();
  }
  return size;
}

std::int64_t PinnedMemory::free_bytes() const noexcept {
  std::int64_t size = 0;
  for (const std::vector<Buffer>& buffers : free_) {
    for (const Buffer& buffer : buffers) {
      size += buffer.size_bytes();
    }
  }
  return size;
}

std::int64_t PinnedMemory::trim() noexcept {
  std::array<std::vector<Buffer>, 64> free;
  const hearth::detail::MutexLock lock(mutex_);
  const std::int64_t size = free_bytes();
  std::swap(free, free_);
  return size;
}

// Frees the buffer if there is no host memory for its list entry.
void PinnedMemory::give_back(const std::byte* first) noexcept {
  Buffer buffer;
  const hearth::detail::MutexLock lock(mutex_);
  const auto found = held_.find(first);
  buffer = std::move(found->second);
  held_.erase(found);
  const auto log = std::bit_width(static_cast<std::uint64_t>(buffer.size_bytes())) - 1;
  try {
    free_[static_cast<std::size_t>(log)].push_back(std::move(buffer));
  } catch (...) {
    // The buffer's destructor frees it.
  }
}

}  // namespace hearth::vulkan
