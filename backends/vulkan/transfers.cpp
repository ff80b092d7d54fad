#include "transfers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hearth::vulkan {
namespace {

constexpr std::int64_t kRingBytes = std::int64_t{64} << 20;
constexpr std::int64_t kPieceBytes =
    kRingBytes / 4;  ///< So that copies of host and device overlap.
constexpr std::uint64_t kAlignment = 64;

// Where a piece of this size begins in a ring that is filled up to `end`: never over the ring's
// end.
std::uint64_t piece_begin(std::uint64_t end, std::uint64_t size) noexcept {
  constexpr auto kSize = static_cast<std::uint64_t>(kRingBytes);
  const std::uint64_t begin = (end + kAlignment - 1) / kAlignment * kAlignment;
  return begin % kSize + size > kSize ? begin + kSize - begin % kSize : begin;
}

bool meets(const Needs& reached, const Needs& needs) noexcept {
  return reached[0] >= needs[0] && reached[1] >= needs[1] && reached[2] >= needs[2];
}

}  // namespace

Result<std::unique_ptr<Transfers>> Transfers::make(std::shared_ptr<const VulkanDevice> device,
                                                   const CommandStream& ops,
                                                   const DevicePages& pages) {
  std::unique_ptr<Transfers> made(new Transfers(std::move(device), ops, pages));  // NOLINT
  using Work = CommandStream::Work;
  HEARTH_TRY(made->uploads_, CommandStream::make(made->device_, Work::uploads, VK_NULL_HANDLE));
  HEARTH_TRY(made->downloads_, CommandStream::make(made->device_, Work::downloads, VK_NULL_HANDLE));
  if (!made->device_->is_unified()) {
    made->pinned_ = std::make_shared<PinnedMemory>(made->device_);
    HEARTH_TRY(made->up_, made->device_->make_buffer(kRingBytes, BufferPlace::host_write));
    HEARTH_TRY(made->down_, made->device_->make_buffer(kRingBytes, BufferPlace::host_read));
  }
  return made;
}

HostBytes Transfers::host_bytes(std::size_t size) {
  return pinned_ ? pinned_->take(size) : HostBytes::make(size);
}

std::int64_t Transfers::pinned_bytes() const noexcept {
  return pinned_ ? pinned_->size_bytes() : 0;
}

std::int64_t Transfers::trim() noexcept {
  return pinned_ ? pinned_->trim() : 0;
}

// ---- time ----

Result<Needs> Transfers::reached() const {
  HEARTH_TRY(const std::uint64_t ops, ops_.completed());
  HEARTH_TRY(const std::uint64_t uploads, uploads_->completed());
  HEARTH_TRY(const std::uint64_t downloads, downloads_->completed());
  return Needs{ops, uploads, downloads};
}

Result<std::uint64_t> Transfers::settle() {
  HEARTH_TRY(const Needs reached, this->reached());
  const MutexLock lock(mutex_);
  while (!pending_.empty() && meets(reached, pending_.front().needs)) {
    const Download& download = pending_.front();
    if (!download.to.empty()) {
      std::memcpy(download.to.data(), download.from, download.to.size());
    }
    ended_downloads_ = download.value;
    down_begin_ = std::max(down_begin_, download.ring_end);
    pending_.pop_front();
  }
  return ended_downloads_;
}

Needs Transfers::needs_of(std::uint64_t value) {
  const MutexLock lock(mutex_);
  Needs needs{};
  for (const Download& download : pending_) {  // those before it end first
    if (download.value > value) {
      break;
    }
    for (std::size_t i = 0; i < needs.size(); ++i) {
      needs[i] = std::max(needs[i], download.needs[i]);
    }
  }
  return needs;
}

// Where the host reads the device's bytes by itself no queue can wait for it.
Status Transfers::bring_down(std::uint64_t value) {
  const auto is_read_by_host = [&] {
    const MutexLock lock(mutex_);
    return std::ranges::any_of(pending_, [&](const Download& download) {
      return download.value <= value && download.ring_end == 0 && !download.to.empty();
    });
  };
  if (!is_read_by_host()) {
    return {};
  }
  const Needs needs = needs_of(value);
  HEARTH_TRY_STATUS(device_->wait_until(ops_.semaphore(), needs[kOpStream]));
  HEARTH_TRY_STATUS(device_->wait_until(uploads_->semaphore(), needs[kUploadStream]));
  HEARTH_TRY_STATUS(device_->wait_until(downloads_->semaphore(), needs[kDownloadStream]));
  return settle().status();
}

Result<bool> Transfers::have_ended(std::span<const TimelinePoint> points) {
  HEARTH_TRY(const std::uint64_t ended_downloads, settle());
  HEARTH_TRY(const Needs reached, this->reached());
  return std::ranges::all_of(points, [&](const TimelinePoint& point) {
    return point.value <=
           (point.stream == kDownloadStream ? ended_downloads : reached[point.stream]);
  });
}

// Before the stream's next batch. A download has ended for the queues when its copy has, though the
// host's bytes may come later.
Status Transfers::wait_for(CommandStream& stream, std::span<const TimelinePoint> after) {
  for (const TimelinePoint& point : after) {
    if (point.is_done()) {
      continue;
    }
    if (point.stream == kOpStream) {
      stream.wait_for(ops_.semaphore(), point.value);
    } else if (point.stream == kUploadStream) {
      stream.wait_for(uploads_->semaphore(), point.value);
    } else {
      const Needs needs = needs_of(point.value);
      stream.wait_for(ops_.semaphore(), needs[kOpStream]);
      stream.wait_for(uploads_->semaphore(), needs[kUploadStream]);
      stream.wait_for(downloads_->semaphore(), needs[kDownloadStream]);
    }
  }
  return {};
}

void Transfers::add(Download download) {
  const MutexLock lock(mutex_);
  pending_.push_back(download);
}

// Their copies on the device go on, and their room in the ring comes back when those have ended, so
// the pieces stay in their order: only nobody takes their bytes any more.
void Transfers::forget_targets(std::uint64_t behind) {
  const MutexLock lock(mutex_);
  for (Download& download : pending_) {
    if (download.value > behind) {
      download.to = {};
    }
  }
}

TimelinePoint Transfers::newest(std::uint8_t stream) const noexcept {
  return {.value = stream == kUploadStream     ? uploads_->submitted()
                   : stream == kDownloadStream ? issued_downloads_
                                               : 0,
          .stream = stream};
}

// ---- up ----

Result<TimelinePoint> Transfers::upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) {
  if (from.empty()) {
    return TimelinePoint{.value = 0, .stream = kUploadStream};
  }
  HEARTH_TRY(const PageBytes bytes, pages_.find(to));
  if (bytes.host != nullptr) {
    // The host writes by itself once everybody else has done with these bytes.
    HEARTH_TRY(const bool is_free, have_ended(after));
    if (!is_free) {
      for (const TimelinePoint& point : after) {
        const Needs needs = point.stream == kDownloadStream ? needs_of(point.value) : Needs{};
        HEARTH_TRY_STATUS(device_->wait_until(
            ops_.semaphore(), point.stream == kOpStream ? point.value : needs[kOpStream]));
      }
      HEARTH_TRY_STATUS(settle().status());
    }
    std::memcpy(bytes.host, from.data(), from.size());
    return TimelinePoint{.value = 0, .stream = kUploadStream};
  }
  if (const auto place = pinned_->find(from)) {
    HEARTH_TRY_STATUS(wait_for(*uploads_, after));
    HEARTH_TRY_STATUS(uploads_->copy(place->buffer,
                                     place->offset_bytes,
                                     bytes.buffer,
                                     bytes.offset_bytes,
                                     static_cast<std::int64_t>(from.size())));
    HEARTH_TRY_STATUS(uploads_->flush());
  } else {
    HEARTH_TRY_STATUS(stage_up(bytes, from, after));
  }
  return TimelinePoint{.value = uploads_->submitted(), .stream = kUploadStream};
}

// Piece by piece: while the device copies one, the host fills the next. Each waits, as batches of
// a queue may overlap.
Status Transfers::stage_up(const PageBytes& to,
                           std::span<const std::byte> from,
                           std::span<const TimelinePoint> after) {
  std::int64_t offset = 0;
  while (!from.empty()) {
    HEARTH_TRY_STATUS(wait_for(*uploads_, after));
    const std::size_t size = std::min(from.size(), static_cast<std::size_t>(kPieceBytes));
    const std::uint64_t begin = piece_begin(up_end_, size);
    while (begin + size - up_begin_ > static_cast<std::uint64_t>(kRingBytes)) {
      HEARTH_TRY_STATUS(device_->wait_until(uploads_->semaphore(), up_pieces_.front().value));
      up_begin_ = up_pieces_.front().end;
      up_pieces_.pop_front();
    }
    const auto place = static_cast<std::int64_t>(begin % static_cast<std::uint64_t>(kRingBytes));
    std::memcpy(up_.host() + place, from.data(), size);
    HEARTH_TRY_STATUS(uploads_->copy(
        up_.handle(), place, to.buffer, to.offset_bytes + offset, static_cast<std::int64_t>(size)));
    up_end_ = begin + size;
    up_pieces_.push_back({uploads_->open_value(), up_end_});
    HEARTH_TRY_STATUS(uploads_->flush());
    from = from.subspan(size);
    offset += static_cast<std::int64_t>(size);
  }
  return {};
}

// ---- down ----

Result<TimelinePoint> Transfers::download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) {
  if (to.empty()) {
    add({.value = ++issued_downloads_, .needs = {}, .from = nullptr, .to = {}});
    return TimelinePoint{.value = issued_downloads_, .stream = kDownloadStream};
  }
  HEARTH_TRY(const PageBytes bytes, pages_.find(from));
  if (bytes.host == nullptr) {
    const auto place = pinned_->find(to);
    const std::uint64_t before = issued_downloads_;
    const Result<std::uint64_t> value =
        place ? bring_to(*place, to.size(), bytes, after) : stage_down(to, bytes, after);
    if (!value.has_value()) {
      forget_targets(before);  // the caller frees them
      return value.status();
    }
    return TimelinePoint{.value = value.value(), .stream = kDownloadStream};
  }
  Needs needs{};
  for (const TimelinePoint& point : after) {
    const Needs of_point = point.stream == kDownloadStream ? needs_of(point.value) : Needs{};
    for (std::size_t i = 0; i < needs.size(); ++i) {
      needs[i] = std::max(needs[i], of_point[i]);
    }
    if (point.stream != kDownloadStream) {
      needs[point.stream] = std::max(needs[point.stream], point.value);
    }
  }
  add({.value = ++issued_downloads_, .needs = needs, .from = bytes.host, .to = to});
  return TimelinePoint{.value = issued_downloads_, .stream = kDownloadStream};
}

// The bytes come to where they are wanted: the host has nothing to copy.
Result<std::uint64_t> Transfers::bring_to(const PinnedMemory::Place& to,
                                          std::size_t size,
                                          const PageBytes& from,
                                          std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(wait_for(*downloads_, after));
  HEARTH_TRY_STATUS(downloads_->copy(
      from.buffer, from.offset_bytes, to.buffer, to.offset_bytes, static_cast<std::int64_t>(size)));
  const std::uint64_t value = downloads_->open_value();
  HEARTH_TRY_STATUS(downloads_->flush());
  add({.value = ++issued_downloads_, .needs = {0, 0, value}, .from = nullptr, .to = {}});
  return issued_downloads_;
}

Result<std::uint64_t> Transfers::stage_down(std::span<std::byte> to,
                                            const PageBytes& from,
                                            std::span<const TimelinePoint> after) {
  std::int64_t offset = 0;
  while (!to.empty()) {
    HEARTH_TRY_STATUS(wait_for(*downloads_, after));
    const std::size_t size = std::min(to.size(), static_cast<std::size_t>(kPieceBytes));
    const std::uint64_t begin = piece_begin(down_end_, size);
    const auto has_room = [&] {
      const MutexLock lock(mutex_);
      return begin + size - down_begin_ <= static_cast<std::uint64_t>(kRingBytes);
    };
    while (!has_room()) {
      const Needs next = [&] {
        const MutexLock lock(mutex_);
        return pending_.empty() ? Needs{} : pending_.front().needs;
      }();
      HEARTH_TRY_STATUS(device_->wait_until(downloads_->semaphore(), next[kDownloadStream]));
      HEARTH_TRY_STATUS(settle().status());
    }
    const auto place = static_cast<std::int64_t>(begin % static_cast<std::uint64_t>(kRingBytes));
    HEARTH_TRY_STATUS(downloads_->copy(from.buffer,
                                       from.offset_bytes + offset,
                                       down_.handle(),
                                       place,
                                       static_cast<std::int64_t>(size)));
    down_end_ = begin + size;
    const std::uint64_t value = downloads_->open_value();
    HEARTH_TRY_STATUS(downloads_->flush());
    add({.value = ++issued_downloads_,
         .needs = {0, 0, value},
         .from = down_.host() + place,
         .to = to.first(size),
         .ring_end = down_end_});
    to = to.subspan(size);
    offset += static_cast<std::int64_t>(size);
  }
  return issued_downloads_;
}

}  // namespace hearth::vulkan
