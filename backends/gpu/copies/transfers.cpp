#include "transfers.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::gpu {
namespace {

constexpr std::uint64_t kPieceAlignment = 64;

bool meets(const Needs& reached, const Needs& needs) noexcept {
  return reached[0] >= needs[0] && reached[1] >= needs[1] && reached[2] >= needs[2];
}

}  // namespace

Result<std::unique_ptr<Transfers>> Transfers::make(std::shared_ptr<const GpuDevice> device,
                                                   const LaunchStream& ops,
                                                   const DevicePages& pages,
                                                   const StagingOptions& staging) {
  HEARTH_ASSERT(staging.piece_bytes > 0 &&
                    2 * (staging.piece_bytes + static_cast<std::int64_t>(kPieceAlignment)) <=
                        staging.ring_bytes,
                "a ring that is empty has room for a piece, wherever it begins");
  std::unique_ptr<Transfers> made(  // NOLINT
      new Transfers(std::move(device), ops, pages, staging));
  const GpuDevice& own = *made->device_;
  HEARTH_TRY(std::shared_ptr<Queue> uploads, own.make_queue(QueueWork::uploads));
  made->uploads_ = std::make_unique<LaunchStream>(std::move(uploads));
  HEARTH_TRY(std::shared_ptr<Queue> downloads, own.make_queue(QueueWork::downloads));
  made->downloads_ = std::make_unique<LaunchStream>(std::move(downloads));
  if (!own.facts().is_unified) {
    made->pinned_ = std::make_shared<PinnedMemory>();
    HEARTH_TRY(made->up_, own.make_memory(staging.ring_bytes, MemoryPlace::host_write));
    HEARTH_TRY(made->down_, own.make_memory(staging.ring_bytes, MemoryPlace::host_read));
  }
  return made;
}

HostBytes Transfers::host_bytes(std::size_t size) {
  return pinned_ ? pinned_->take(*device_, size) : HostBytes::make(size);
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

// Releases the lock between two downloads, so an owner with a copy waits for one at most.
Result<std::uint64_t> Transfers::settle(std::size_t most_bytes) {
  HEARTH_TRY(const Needs reached, this->reached());
  while (settle_next(reached, most_bytes)) {
  }
  const hearth::detail::MutexLock lock(mutex_);
  return ended_downloads_;
}

bool Transfers::settle_next(const Needs& reached, std::size_t& bytes_left) {
  const hearth::detail::MutexLock lock(mutex_);
  if (pending_.empty() || bytes_left == 0 || !meets(reached, pending_.front().needs)) {
    return false;
  }
  const Download& download = pending_.front();
  bytes_left -= std::min(bytes_left, download.to.size());
  if (!download.to.empty()) {
    copier_.copy(download.to.data(), {download.from, download.to.size()});
  }
  ended_downloads_ = download.value;
  down_begin_ = std::max(down_begin_, download.ring_end);
  pending_.pop_front();
  return true;
}

Needs Transfers::needs_of(std::uint64_t value) {
  const hearth::detail::MutexLock lock(mutex_);
  Needs needs{};
  for (const Download& download : pending_) {  // earlier downloads end first
    if (download.value > value) {
      break;
    }
    for (std::size_t i = 0; i < needs.size(); ++i) {
      needs[i] = std::max(needs[i], download.needs[i]);
    }
  }
  return needs;
}

// No queue can wait for bytes that the host itself reads.
Status Transfers::bring_down(std::uint64_t value) {
  const auto is_read_by_host = [&] {
    const hearth::detail::MutexLock lock(mutex_);
    return std::ranges::any_of(pending_, [&](const Download& download) {
      return download.value <= value && download.ring_end == 0 && !download.to.empty();
    });
  };
  if (!is_read_by_host()) {
    return {};
  }
  const Needs needs = needs_of(value);
  HEARTH_TRY_STATUS(ops_.queue().wait_until(needs[kOpStream]));
  HEARTH_TRY_STATUS(uploads_->queue().wait_until(needs[kUploadStream]));
  HEARTH_TRY_STATUS(downloads_->queue().wait_until(needs[kDownloadStream]));
  return settle().status();
}

Result<std::optional<TimelinePoint>> Transfers::first_open(std::span<const TimelinePoint> points) {
  HEARTH_TRY(const std::uint64_t ended_downloads, settle_piece());
  HEARTH_TRY(const Needs reached, this->reached());
  const auto open = std::ranges::find_if(points, [&](const TimelinePoint& point) {
    return point.value >
           (point.stream == kDownloadStream ? ended_downloads : reached[point.stream]);
  });
  return open == points.end() ? std::optional<TimelinePoint>() : *open;
}

// Makes the stream's next batch wait. For the queues a download ends with its device copy, though
// the host's copy may come later.
Status Transfers::wait_for(LaunchStream& stream, std::span<const TimelinePoint> after) {
  for (const TimelinePoint& point : after) {
    if (point.is_done()) {
      continue;
    }
    if (point.stream == kOpStream) {
      stream.wait_for(ops_.queue(), point.value);
    } else if (point.stream == kUploadStream) {
      stream.wait_for(uploads_->queue(), point.value);
    } else {
      const Needs needs = needs_of(point.value);
      stream.wait_for(ops_.queue(), needs[kOpStream]);
      stream.wait_for(uploads_->queue(), needs[kUploadStream]);
      stream.wait_for(downloads_->queue(), needs[kDownloadStream]);
    }
  }
  return {};
}

CopyPart Transfers::add(Download download, std::size_t size) {
  download.value = ++issued_downloads_;
  const hearth::detail::MutexLock lock(mutex_);
  pending_.push_back(download);
  return {.point = {.value = download.value, .stream = kDownloadStream}, .size_bytes = size};
}

// Device copies to the target go on, and return their room in the ring at their end. The pieces
// therefore stay in order; only their bytes are not copied out.
void Transfers::forget_target(std::span<std::byte> target) noexcept {
  const std::less<const std::byte*> is_before;
  const hearth::detail::MutexLock lock(mutex_);
  for (Download& download : pending_) {
    if (!is_before(download.to.data(), target.data()) &&
        is_before(download.to.data(), target.data() + target.size())) {
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

// ---- rings ----

// Begin of a piece of this size in a ring that is filled up to `end`. A piece never crosses the end
// of the ring.
std::uint64_t Transfers::piece_begin(std::uint64_t end, std::uint64_t size) const noexcept {
  const std::uint64_t begin = (end + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  const std::uint64_t place = begin % ring_bytes_;
  return place + size > ring_bytes_ ? begin + ring_bytes_ - place : begin;
}

Result<bool> Transfers::has_room_up(std::uint64_t end) {
  if (end - up_begin_ <= ring_bytes_) {
    return true;
  }
  HEARTH_TRY(const std::uint64_t ended, uploads_->completed());
  while (!up_pieces_.empty() && up_pieces_.front().value <= ended) {
    up_begin_ = up_pieces_.front().end;
    up_pieces_.pop_front();
  }
  return end - up_begin_ <= ring_bytes_;
}

Result<bool> Transfers::has_room_down(std::uint64_t end) {
  const auto has_room = [&] {
    const hearth::detail::MutexLock lock(mutex_);
    return end - down_begin_ <= ring_bytes_;
  };
  if (has_room()) {
    return true;
  }
  HEARTH_TRY_STATUS(settle_piece().status());
  return has_room();
}

// Returns 0, which has always ended, if another thread has just copied the piece out.
std::uint64_t Transfers::oldest_in_ring() {
  const hearth::detail::MutexLock lock(mutex_);
  const auto oldest = std::ranges::find_if(
      pending_, [](const Download& download) { return download.ring_end != 0; });
  return oldest == pending_.end() ? 0 : oldest->value;
}

// ---- uploads ----

Result<CopyPart> Transfers::upload(std::byte* to,
                                   std::span<const std::byte> from,
                                   std::span<const TimelinePoint> after) {
  if (from.empty()) {
    return CopyPart{.point = {.value = 0, .stream = kUploadStream}};
  }
  HEARTH_TRY(const PageBytes bytes, pages_.find(to));
  const auto piece = from.first(std::min(from.size(), piece_bytes_));
  if (bytes.host != nullptr) {
    return write_by_host(bytes.host, piece, after);
  }
  const auto place = pinned_->find(from);
  return place ? bring_from(*place, from.size(), bytes, after) : stage_up(piece, bytes, after);
}

// The host writes once all earlier uses of these bytes have ended.
Result<CopyPart> Transfers::write_by_host(std::byte* to,
                                          std::span<const std::byte> from,
                                          std::span<const TimelinePoint> after) {
  HEARTH_TRY(const std::optional<TimelinePoint> open, first_open(after));
  if (open) {
    return CopyPart{.point = *open};
  }
  copier_.copy(to, from);
  return CopyPart{.point = {.value = 0, .stream = kUploadStream}, .size_bytes = from.size()};
}

// Uploads all bytes at once, from pinned memory; the host copies nothing.
Result<CopyPart> Transfers::bring_from(const CopyPlace& from,
                                       std::size_t size,
                                       const PageBytes& to,
                                       std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(wait_for(*uploads_, after));
  HEARTH_TRY_STATUS(uploads_->copy(from, to.place, static_cast<std::int64_t>(size)));
  HEARTH_TRY_STATUS(uploads_->flush());
  return CopyPart{.point = {.value = uploads_->submitted(), .stream = kUploadStream},
                  .size_bytes = size};
}

// While the device copies one piece, the host fills the next. Each piece waits for `after`, because
// batches of a queue may overlap.
Result<CopyPart> Transfers::stage_up(std::span<const std::byte> from,
                                     const PageBytes& to,
                                     std::span<const TimelinePoint> after) {
  const std::uint64_t begin = piece_begin(up_end_, from.size());
  HEARTH_TRY(const bool has_room, has_room_up(begin + from.size()));
  if (!has_room) {
    return CopyPart{.point = {.value = up_pieces_.front().value, .stream = kUploadStream}};
  }
  const auto place = static_cast<std::int64_t>(begin % ring_bytes_);
  copier_.copy(up_->host() + place, from);
  HEARTH_TRY_STATUS(wait_for(*uploads_, after));
  HEARTH_TRY_STATUS(
      uploads_->copy(up_->at(place), to.place, static_cast<std::int64_t>(from.size())));
  up_end_ = begin + from.size();
  up_pieces_.push_back({uploads_->open_value(), up_end_});
  HEARTH_TRY_STATUS(uploads_->flush());
  return CopyPart{.point = {.value = uploads_->submitted(), .stream = kUploadStream},
                  .size_bytes = from.size()};
}

// ---- downloads ----

Result<CopyPart> Transfers::download(std::span<std::byte> to,
                                     const std::byte* from,
                                     std::span<const TimelinePoint> after) {
  if (to.empty()) {
    return add({.needs = {}, .from = nullptr, .to = {}}, 0);
  }
  HEARTH_TRY(const PageBytes bytes, pages_.find(from));
  const auto piece = to.first(std::min(to.size(), piece_bytes_));
  if (bytes.host != nullptr) {
    return read_by_host(piece, bytes.host, after);
  }
  const auto place = pinned_->find(to);
  return place ? bring_to(*place, to.size(), bytes, after) : stage_down(piece, bytes, after);
}

// The host copies later, when it settles ended downloads.
CopyPart Transfers::read_by_host(std::span<std::byte> to,
                                 const std::byte* from,
                                 std::span<const TimelinePoint> after) {
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
  return add({.needs = needs, .from = from, .to = to}, to.size());
}

// Downloads straight to pinned memory; the host copies nothing.
Result<CopyPart> Transfers::bring_to(const CopyPlace& to,
                                     std::size_t size,
                                     const PageBytes& from,
                                     std::span<const TimelinePoint> after) {
  HEARTH_TRY_STATUS(wait_for(*downloads_, after));
  HEARTH_TRY_STATUS(downloads_->copy(from.place, to, static_cast<std::int64_t>(size)));
  const std::uint64_t value = downloads_->open_value();
  HEARTH_TRY_STATUS(downloads_->flush());
  return add({.needs = {0, 0, value}, .from = nullptr, .to = {}}, size);
}

Result<CopyPart> Transfers::stage_down(std::span<std::byte> to,
                                       const PageBytes& from,
                                       std::span<const TimelinePoint> after) {
  const std::uint64_t begin = piece_begin(down_end_, to.size());
  HEARTH_TRY(const bool has_room, has_room_down(begin + to.size()));
  if (!has_room) {
    return CopyPart{.point = {.value = oldest_in_ring(), .stream = kDownloadStream}};
  }
  const auto place = static_cast<std::int64_t>(begin % ring_bytes_);
  HEARTH_TRY_STATUS(wait_for(*downloads_, after));
  HEARTH_TRY_STATUS(
      downloads_->copy(from.place, down_->at(place), static_cast<std::int64_t>(to.size())));
  down_end_ = begin + to.size();
  const std::uint64_t value = downloads_->open_value();
  HEARTH_TRY_STATUS(downloads_->flush());
  return add(
      {.needs = {0, 0, value}, .from = down_->host() + place, .to = to, .ring_end = down_end_},
      to.size());
}

}  // namespace hearth::gpu
