#include <hearth/memory/device_pool.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>

namespace hearth {
namespace {

// Beyond any machine; keeps all sums of sizes far from overflow.
constexpr std::int64_t kLargestRequestBytes = std::int64_t{1} << 47;

void raise_peaks(MemoryUsage& usage) noexcept {
  usage.peak_live_bytes = std::max(usage.peak_live_bytes, usage.live_bytes);
  usage.peak_reserved_bytes = std::max(usage.peak_reserved_bytes, usage.reserved_bytes);
}

void add_live(MemoryUsage& usage, std::int64_t bytes, std::int64_t count) noexcept {
  usage.live_bytes += bytes;
  usage.live_count += count;
}

// The order that makes the standard heap functions keep the earliest value in front.
struct IsLater {
  template <class Release>
  bool operator()(const Release& a, const Release& b) const noexcept {
    return a.value > b.value;
  }
};

}  // namespace

DevicePool::DevicePool(PageProvider& provider, PoolOptions options)
    : provider_(provider),
      options_(options),
      granule_bytes_(std::max<std::int64_t>(64, provider.alignment_bytes())),
      heaps_{detail::BlockHeap{granule_bytes_},
             detail::BlockHeap{granule_bytes_},
             detail::BlockHeap{granule_bytes_}} {
  counts_.budget_bytes = options_.budget_bytes;
}

DevicePool::~DevicePool() {
  for (detail::BlockHeap& heap : heaps_) {
    heap.free_all_pages(provider_);
  }
}

std::uint32_t DevicePool::heap_for(std::int64_t size_bytes, PoolKind kind) const noexcept {
  if (kind == PoolKind::exclusive) {
    return kExclusiveHeap;
  }
  return size_bytes < options_.small_bytes ? kSmallHeap : kLargeHeap;
}

MemoryUsage& DevicePool::usage_of(std::uint32_t heap) noexcept {
  return heap == kExclusiveHeap ? counts_.exclusive : counts_.temporary;
}

Acquire DevicePool::acquire(std::int64_t size_bytes, PoolKind kind, Block& out) {
  HEARTH_ASSERT(size_bytes >= 0, "a block has a size of at least 0");
  if (size_bytes > options_.budget_bytes) {
    return Acquire::over_budget;
  }
  if (size_bytes > kLargestRequestBytes) {
    return Acquire::exhausted;
  }
  const std::int64_t rounded_bytes =
      (std::max<std::int64_t>(size_bytes, 1) + granule_bytes_ - 1) & -granule_bytes_;
  const std::uint32_t heap = heap_for(size_bytes, kind);
  std::uint32_t index = heaps_[heap].take(rounded_bytes);
  if (index == detail::BlockHeap::kNone) {
    if (const Acquire answer = grow(heap, rounded_bytes); answer != Acquire::ok) {
      return answer;
    }
    // The new page stands first in its size class, where the search begins.
    index = heaps_[heap].take(rounded_bytes);
    HEARTH_ASSERT(index != detail::BlockHeap::kNone, "a fresh page fits what it was had for");
  }
  const detail::BlockHeap::Piece& piece = heaps_[heap].piece(index);
  out = Block{.data = piece.data,
              .size_bytes = size_bytes,
              .ready_after = piece.ready_after,
              .index = index,
              .heap = heap};
  for (MemoryUsage* usage : {&counts_.total, &usage_of(heap)}) {
    add_live(*usage, rounded_bytes, 1);
    ++usage->acquire_count;
    raise_peaks(*usage);
  }
  return Acquire::ok;
}

Acquire DevicePool::grow(std::uint32_t heap, std::int64_t size_bytes) {
  const std::int64_t usual_bytes =
      size_bytes > options_.page_bytes / 2
          ? size_bytes
          : std::clamp(
                heaps_[heap].reserved_bytes(), options_.first_page_bytes, options_.page_bytes);
  const std::int64_t wanted_bytes = std::max(size_bytes, usual_bytes);
  Acquire answer = add_page(heap, wanted_bytes);
  if (answer != Acquire::ok && wanted_bytes > size_bytes) {
    answer = add_page(heap, size_bytes);
  }
  if (answer != Acquire::ok && trim() > 0) {
    answer = add_page(heap, size_bytes);
  }
  if (answer != Acquire::ok && can_wait()) {
    return Acquire::needs_wait;
  }
  return answer;
}

Acquire DevicePool::add_page(std::uint32_t heap, std::int64_t page_bytes) {
  const std::int64_t room_bytes = options_.budget_bytes - counts_.total.reserved_bytes;
  if (page_bytes > room_bytes) {
    return Acquire::over_budget;
  }
  const Result<Page> page = provider_.allocate_page(page_bytes);
  if (!page.has_value()) {
    return Acquire::exhausted;
  }
  if (page.value().size_bytes > room_bytes) {
    // Providers round up; the last page of a tight budget may not.
    provider_.free_page(page.value());
    return Acquire::over_budget;
  }
  heaps_[heap].add_page(page.value());
  ++counts_.page_acquire_count;
  count_reserved(heap, page.value().size_bytes, 1);
  return Acquire::ok;
}

void DevicePool::count_reserved(std::uint32_t heap,
                                std::int64_t bytes,
                                std::int64_t pages) noexcept {
  for (MemoryUsage* usage : {&counts_.total, &usage_of(heap)}) {
    usage->reserved_bytes += bytes;
    usage->page_count += pages;
    raise_peaks(*usage);
  }
}

// Waiting helps when a release stands in a queue, or when a page is free but the home stream is not
// done with it.
bool DevicePool::can_wait() const noexcept {
  return counts_.total.waiting_bytes > 0 ||
         std::any_of(heaps_.begin(), heaps_.end(), [this](const detail::BlockHeap& heap) {
           return heap.has_page_in_flight(completed_[0]);
         });
}

void DevicePool::release(const Block& block, const LastUse& last_use) noexcept {
  const std::int64_t bytes = heaps_[block.heap].piece(block.index).size_bytes;
  HEARTH_ASSERT(block.data == heaps_[block.heap].piece(block.index).data,
                "the released block is not one that is out");
  for (MemoryUsage* usage : {&counts_.total, &usage_of(block.heap)}) {
    add_live(*usage, -bytes, -1);
    usage->waiting_bytes += bytes;
  }
  settle({.value = 0, .last_use = last_use, .heap = block.heap, .index = block.index});
}

// Frees the bytes, or queues them behind the first stream that is not done with them.
void DevicePool::settle(WaitingRelease release) noexcept {
  for (std::size_t stream = 1; stream < kMaxPhysicalStreams; ++stream) {
    if (release.last_use.values[stream] > completed_[stream]) {
      release.value = release.last_use.values[stream];
      waiting_[stream].push_back(release);
      std::push_heap(waiting_[stream].begin(), waiting_[stream].end(), IsLater{});
      return;
    }
  }
  const std::int64_t bytes = heaps_[release.heap].piece(release.index).size_bytes;
  counts_.total.waiting_bytes -= bytes;
  usage_of(release.heap).waiting_bytes -= bytes;
  heaps_[release.heap].give(release.index, release.last_use.values[0]);
}

void DevicePool::retire(std::size_t stream, std::uint64_t value) noexcept {
  HEARTH_ASSERT(stream < kMaxPhysicalStreams && value >= completed_[stream],
                "timeline values of a stream never fall");
  completed_[stream] = value;
  std::vector<WaitingRelease>& queue = waiting_[stream];
  while (!queue.empty() && queue.front().value <= value) {
    std::pop_heap(queue.begin(), queue.end(), IsLater{});
    const WaitingRelease ready = queue.back();
    queue.pop_back();
    settle(ready);
  }
}

void DevicePool::count_in_place(std::int64_t size_bytes) noexcept {
  ++counts_.in_place_count;
  counts_.in_place_bytes += size_bytes;
}

MemoryReport DevicePool::report() const {
  MemoryReport report = counts_;
  report.temporary.largest_free_bytes =
      std::max(heaps_[kSmallHeap].largest_free_bytes(), heaps_[kLargeHeap].largest_free_bytes());
  report.exclusive.largest_free_bytes = heaps_[kExclusiveHeap].largest_free_bytes();
  report.total.largest_free_bytes =
      std::max(report.temporary.largest_free_bytes, report.exclusive.largest_free_bytes);
  for (MemoryUsage* usage : {&report.total, &report.temporary, &report.exclusive}) {
    usage->free_bytes = usage->reserved_bytes - usage->live_bytes - usage->waiting_bytes;
  }
  return report;
}

void DevicePool::reset_peak() noexcept {
  for (MemoryUsage* usage : {&counts_.total, &counts_.temporary, &counts_.exclusive}) {
    usage->peak_live_bytes = usage->live_bytes;
    usage->peak_reserved_bytes = usage->reserved_bytes;
  }
}

std::int64_t DevicePool::trim() noexcept {
  std::int64_t trimmed_bytes = 0;
  for (std::uint32_t i = 0; i < kHeapCount; ++i) {
    const std::int64_t pages_before = heaps_[i].page_count();
    const std::int64_t bytes = heaps_[i].trim(provider_, completed_[0]);
    count_reserved(i, -bytes, heaps_[i].page_count() - pages_before);
    trimmed_bytes += bytes;
  }
  return trimmed_bytes;
}

}  // namespace hearth
