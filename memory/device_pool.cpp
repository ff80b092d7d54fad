#include <hearth/memory/device_pool.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <bit>

namespace hearth {
namespace {

// Larger than any machine's memory; keeps all sums of sizes far from overflow.
constexpr std::int64_t kLargestRequestBytes = std::int64_t{1} << 47;
// Longest growing page: addresses, not memory. Each of a device's four heaps has one. A page with
// gaps is longer than its memory.
constexpr std::int64_t kLongestPageBytes = std::int64_t{1} << 40;
std::int64_t reach_for(std::int64_t budget_bytes) noexcept {
  return budget_bytes < kLongestPageBytes / 16 ? budget_bytes * 16 : kLongestPageBytes;
}
// An early page takes at most 1/256 of the budget; each heap has one.
constexpr std::int64_t kEarlyPart = 256;
constexpr std::int64_t kStepBytes = std::int64_t{2} << 20;
// Least slack. Taking and giving back memory in every step costs more than a hole of this size.
constexpr std::int64_t kLeastSlackBytes = std::int64_t{256} << 10;

}  // namespace

DevicePool::DevicePool(PageProvider& provider, PoolOptions options)
    : PagedStrategy(provider, options.budget_bytes),
      options_(options),
      granule_bytes_(std::max<std::int64_t>(64, provider.alignment_bytes())),
      heaps_{detail::BlockHeap{granule_bytes_},
             detail::BlockHeap{granule_bytes_},
             detail::BlockHeap{granule_bytes_},
             detail::BlockHeap{granule_bytes_}} {
  // A page that the provider refuses now is requested again when it is needed.
  const std::int64_t early_bytes = provider.early_page_bytes();
  const bool has_room = early_bytes <= options_.budget_bytes / kEarlyPart;
  for (std::uint32_t heap = 0; early_bytes > 0 && has_room && heap < kHeapCount; ++heap) {
    static_cast<void>(add_page(heap, early_bytes));
  }
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
  if (kind == PoolKind::scratch) {
    return kScratchHeap;
  }
  return size_bytes < options_.small_bytes ? kSmallHeap : kLargeHeap;
}

Acquire DevicePool::acquire(std::int64_t size_bytes, PoolKind kind, Block& out) {
  HEARTH_ASSERT(size_bytes >= 0, "a block has a size of at least 0");
  if (size_bytes > options_.budget_bytes) {
    return Acquire::over_budget;
  }
  if (size_bytes > kLargestRequestBytes) {
    counts_.refusal.clear();  // no provider was called
    return Acquire::exhausted;
  }
  const std::int64_t rounded_bytes =
      (std::max<std::int64_t>(size_bytes, 1) + granule_bytes_ - 1) & -granule_bytes_;
  std::uint32_t heap = heap_for(size_bytes, kind);
  std::uint32_t index = heaps_[heap].take(rounded_bytes);
  if (index == detail::BlockHeap::kNone) {
    const Acquire answer = grow(heap, rounded_bytes);
    // The added piece is first in its size class, where the search begins.
    index = answer == Acquire::ok ? heaps_[heap].take(rounded_bytes) : borrow(heap, rounded_bytes);
    if (index == detail::BlockHeap::kNone) {
      HEARTH_ASSERT(answer != Acquire::ok, "a fresh page fits its request");
      return answer != Acquire::needs_wait && can_wait() ? Acquire::needs_wait : answer;
    }
  }
  const detail::BlockHeap::Piece& piece = heaps_[heap].piece(index);
  out = Block{.data = piece.data,
              .size_bytes = size_bytes,
              .ready_after = piece.ready_after,
              .index = index,
              .heap = heap};
  count_acquired(kind_of(heap), rounded_bytes);
  return Acquire::ok;
}

Acquire DevicePool::grow(std::uint32_t heap, std::int64_t size_bytes) {
  Acquire answer = add_room(heap, size_bytes);
  if (answer != Acquire::ok &&
      (pages_grow_ ? release_pages(heap, size_bytes, kHeapCount) : trim()) > 0) {
    ++counts_.rungs.trim_count;
    answer = add_room(heap, size_bytes);
  }
  if (answer == Acquire::ok && heap != kScratchHeap) {
    most_live_bytes_ = std::max(most_live_bytes_, counts_.total.live_bytes + size_bytes);
    options_.small_bytes = std::max(options_.small_bytes, most_live_bytes_ / 64);
  }
  return answer;
}

std::int64_t DevicePool::release_pages(std::uint32_t heap,
                                       std::int64_t size_bytes,
                                       std::uint32_t heap_count) {
  std::int64_t given_bytes = 0;
  for (std::uint32_t i = 0; i < heap_count && given_bytes < size_bytes; ++i) {
    const std::uint64_t completed = waiting_.completed(0);
    const std::int64_t pages_before = heaps_[i].page_count();
    std::int64_t bytes = 0;
    if (i != heap) {
      bytes = heaps_[i].trim(provider_, size_bytes - given_bytes, completed);
    } else {
      bytes = heaps_[i].make_gaps(provider_, size_bytes - given_bytes, completed);
    }
    count_reserved(kind_of(i), -bytes, heaps_[i].page_count() - pages_before);
    given_bytes += bytes;
  }
  return given_bytes;
}

std::int64_t DevicePool::most_reserved_bytes(std::int64_t size_bytes) const noexcept {
  const std::int64_t live_bytes = std::max(most_live_bytes_, counts_.total.live_bytes + size_bytes);
  return live_bytes + std::max(live_bytes / 10, kLeastSlackBytes);
}

std::uint32_t DevicePool::borrow(std::uint32_t& heap, std::int64_t size_bytes) {
  for (std::uint32_t other = 0; other < kHeapCount; ++other) {
    const std::uint32_t index =
        other == heap ? detail::BlockHeap::kNone : heaps_[other].take(size_bytes);
    if (index != detail::BlockHeap::kNone) {
      ++counts_.rungs.borrow_count;
      heap = other;
      return index;
    }
  }
  return detail::BlockHeap::kNone;
}

Acquire DevicePool::add_room(std::uint32_t heap, std::int64_t size_bytes) {
  const std::int64_t reach_bytes = reach_for(options_.budget_bytes);
  if (pages_grow_ && heaps_[heap].growing_page().size_bytes <= reach_bytes - size_bytes) {
    const Acquire answer = lengthen(heap, size_bytes);
    if (pages_grow_) {
      return answer;
    }
  }
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
  return answer;
}

Acquire DevicePool::fill_gap(std::uint32_t heap, const detail::BlockHeap::Room& room) {
  if (room.size_bytes > room_bytes()) {
    return Acquire::over_budget;
  }
  if (const Status filled = heaps_[heap].fill_gap(provider_, room); !filled.has_value()) {
    counts_.refusal = filled.error().text;
    return Acquire::exhausted;
  }
  ++counts_.page_acquire_count;
  count_reserved(kind_of(heap), room.size_bytes, 0);
  return Acquire::ok;
}

Acquire DevicePool::lengthen(std::uint32_t heap, std::int64_t size_bytes) {
  detail::BlockHeap& grown = heaps_[heap];
  if (!grown.has_growing_page()) {
    const Result<Page> page = provider_.open_growing_page(reach_for(options_.budget_bytes));
    if (!page.has_value()) {
      pages_grow_ = false;  // pages of fixed size are used from now on
      return Acquire::exhausted;
    }
    grown.open_growing_page(page.value());
  }
  if (heap != kScratchHeap) {
    const std::int64_t excess_bytes =
        counts_.total.reserved_bytes - heaps_[kScratchHeap].reserved_bytes() +
        grown.cheapest_room(size_bytes).size_bytes - most_reserved_bytes(size_bytes);
    if (excess_bytes > 0 && release_pages(heap, excess_bytes, kScratchHeap) > 0) {
      ++counts_.give_back_count;
    }
  }
  const detail::BlockHeap::Room room = grown.cheapest_room(size_bytes);
  return room.gap != detail::BlockHeap::kNone ? fill_gap(heap, room)
                                              : stretch(heap, room.size_bytes);
}

// Grows in steps that waste at most 1/64. From 128 MiB on a step is a whole huge page.
Acquire DevicePool::stretch(std::uint32_t heap, std::int64_t more_bytes) {
  detail::BlockHeap& grown = heaps_[heap];
  const auto held_bytes = static_cast<std::uint64_t>(grown.reserved_bytes());
  const std::int64_t usual_step = std::clamp(
      static_cast<std::int64_t>(std::bit_floor(held_bytes / 64)), kPageGapBytes, kStepBytes);
  Acquire answer = Acquire::over_budget;
  std::int64_t tried_bytes = -1;
  for (const std::int64_t step_bytes : {usual_step, granule_bytes_}) {
    Page page = grown.growing_page();
    const std::int64_t length_bytes =
        more_bytes == 0 ? page.size_bytes
                        : (page.size_bytes + more_bytes + step_bytes - 1) / step_bytes * step_bytes;
    if (length_bytes == tried_bytes) {
      continue;
    }
    tried_bytes = length_bytes;
    if (length_bytes - page.size_bytes > room_bytes()) {
      continue;
    }
    const std::int64_t before_bytes = page.size_bytes;
    if (const Status resized = provider_.resize_page(page, length_bytes); !resized.has_value()) {
      counts_.refusal = resized.error().text;
      answer = Acquire::exhausted;
      continue;
    }
    if (page.size_bytes - before_bytes > room_bytes()) {
      static_cast<void>(provider_.resize_page(page, before_bytes));
      return Acquire::over_budget;
    }
    const std::int64_t pages_before = grown.page_count();
    grown.extend(page);
    counts_.page_acquire_count += page.size_bytes > before_bytes ? 1 : 0;
    count_reserved(
        kind_of(heap), page.size_bytes - before_bytes, grown.page_count() - pages_before);
    return Acquire::ok;
  }
  return answer;
}

Acquire DevicePool::add_page(std::uint32_t heap, std::int64_t page_bytes) {
  Page page;
  const Acquire answer = take_page(page_bytes, page);
  if (answer == Acquire::ok) {
    heaps_[heap].add_page(page);
    count_reserved(kind_of(heap), page.size_bytes, 1);
  }
  return answer;
}

// Waiting helps if a release is queued, or if a page is free but the home stream still uses it.
bool DevicePool::can_wait() const {
  return counts_.total.waiting_bytes > 0 ||
         std::any_of(heaps_.begin(), heaps_.end(), [this](detail::BlockHeap& heap) {
           return heap.has_page_in_flight(waiting_.completed(0));
         });
}

void DevicePool::release(const Block& block, const LastUse& last_use) noexcept {
  const std::int64_t bytes = heaps_[block.heap].piece(block.index).size_bytes;
  HEARTH_ASSERT(block.data == heaps_[block.heap].piece(block.index).data,
                "the released block is not one that is out");
  count_released(kind_of(block.heap), bytes);
  const detail::ReleaseQueue::Entry entry{
      .last_use = last_use, .index = block.index, .heap = block.heap};
  if (waiting_.is_ready_or_kept(entry)) {
    free_piece(entry);
  }
}

void DevicePool::free_piece(const detail::ReleaseQueue::Entry& release) noexcept {
  const std::int64_t bytes = heaps_[release.heap].piece(release.index).size_bytes;
  count_free(kind_of(release.heap), bytes);
  heaps_[release.heap].give(release.index, release.last_use.values[0]);
}

void DevicePool::retire(std::size_t stream, std::uint64_t value) noexcept {
  waiting_.retire(
      stream, value, [this](const detail::ReleaseQueue::Entry& ready) { free_piece(ready); });
}

MemoryReport DevicePool::report() const {
  MemoryReport report = counted_report();
  report.temporary.largest_free_bytes = std::max({heaps_[kSmallHeap].largest_free_bytes(),
                                                  heaps_[kLargeHeap].largest_free_bytes(),
                                                  heaps_[kScratchHeap].largest_free_bytes()});
  report.exclusive.largest_free_bytes = heaps_[kExclusiveHeap].largest_free_bytes();
  report.total.largest_free_bytes =
      std::max(report.temporary.largest_free_bytes, report.exclusive.largest_free_bytes);
  constexpr std::array<std::string_view, kHeapCount> kNames{
      "small temporaries", "large temporaries", "exclusive", "scratch of kernels"};
  for (std::uint32_t i = 0; i < kHeapCount; ++i) {
    report.pools.push_back({.name = kNames[i],
                            .reserved_bytes = heaps_[i].reserved_bytes(),
                            .free_bytes = heaps_[i].free_bytes(),
                            .largest_free_bytes = heaps_[i].largest_free_bytes(),
                            .page_count = heaps_[i].page_count()});
  }
  return report;
}

std::int64_t DevicePool::trim() noexcept {
  std::int64_t trimmed_bytes = 0;
  for (std::uint32_t i = 0; i < kHeapCount; ++i) {
    const std::int64_t pages_before = heaps_[i].page_count();
    const std::int64_t bytes =
        heaps_[i].trim(provider_, heaps_[i].reserved_bytes(), waiting_.completed(0));
    count_reserved(kind_of(i), -bytes, heaps_[i].page_count() - pages_before);
    trimmed_bytes += bytes;
  }
  return trimmed_bytes;
}

}  // namespace hearth
