#include <hearth/memory/exclusive_pool.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>

namespace hearth {

ExclusivePool::ExclusivePool(PageProvider& provider, std::int64_t budget_bytes)
    : PagedStrategy(provider, budget_bytes), entries_(provider) {}

std::uint32_t ExclusivePool::take_free(std::int64_t size_bytes) {
  const auto found = free_.lower_bound(size_bytes);
  if (found == free_.end() || found->first - size_bytes > found->first / 4) {
    return kNone;
  }
  const std::uint32_t index = found->second;
  free_.erase(found);
  return index;
}

Acquire ExclusivePool::acquire(std::int64_t size_bytes, PoolKind kind, Block& out) {
  HEARTH_ASSERT(size_bytes >= 0, "a block has a size of at least 0");
  const std::int64_t wanted_bytes = std::max<std::int64_t>(size_bytes, 1);
  std::uint32_t index = take_free(wanted_bytes);
  if (index == kNone) {
    Page page;
    const Acquire answer = take_page_or_trim(wanted_bytes, page);
    if (answer != Acquire::ok) {
      return can_wait() ? Acquire::needs_wait : answer;
    }
    index = entries_.add({.page = page, .kind = kind});
    count_reserved(kind, page.size_bytes, 1);
  }
  detail::PageList::Entry& entry = entries_[index];
  if (entry.kind != kind) {
    count_reserved(entry.kind, -entry.page.size_bytes, -1);
    count_reserved(kind, entry.page.size_bytes, 1);
    entry.kind = kind;
  }
  count_acquired(kind, entry.page.size_bytes);
  out = Block{.data = entry.page.data,
              .size_bytes = size_bytes,
              .ready_after = entry.ready_after,
              .index = index};
  return Acquire::ok;
}

void ExclusivePool::release(const Block& block, const LastUse& last_use) noexcept {
  const detail::PageList::Entry& entry = entries_[block.index];
  HEARTH_ASSERT(block.data == entry.page.data, "the released block is not one that is out");
  count_released(entry.kind, entry.page.size_bytes);
  const detail::ReleaseQueue::Entry release{.last_use = last_use, .index = block.index};
  if (waiting_.is_ready_or_kept(release)) {
    make_free(release);
  }
}

void ExclusivePool::make_free(const detail::ReleaseQueue::Entry& release) {
  detail::PageList::Entry& entry = entries_[release.index];
  count_free(entry.kind, entry.page.size_bytes);
  entry.ready_after = std::max(entry.ready_after, release.last_use.values[0]);
  free_.emplace(entry.page.size_bytes, release.index);
}

void ExclusivePool::retire(std::size_t stream, std::uint64_t value) noexcept {
  waiting_.retire(
      stream, value, [this](const detail::ReleaseQueue::Entry& ready) { make_free(ready); });
}

bool ExclusivePool::can_wait() const noexcept {
  // free pages that trim() left are still in use
  return counts_.total.waiting_bytes > 0 || !free_.empty();
}

MemoryReport ExclusivePool::report() const {
  MemoryReport report = counted_report();
  for (const auto& [size_bytes, index] : free_) {
    MemoryUsage& usage =
        entries_[index].kind == PoolKind::exclusive ? report.exclusive : report.temporary;
    usage.largest_free_bytes = std::max(usage.largest_free_bytes, size_bytes);
  }
  report.total.largest_free_bytes =
      std::max(report.temporary.largest_free_bytes, report.exclusive.largest_free_bytes);
  report.pools.push_back({.name = "a page for each tensor",
                          .reserved_bytes = report.total.reserved_bytes,
                          .free_bytes = report.total.free_bytes,
                          .largest_free_bytes = report.total.largest_free_bytes,
                          .page_count = report.total.page_count});
  return report;
}

std::int64_t ExclusivePool::trim() noexcept {
  std::int64_t trimmed_bytes = 0;
  for (auto it = free_.begin(); it != free_.end();) {
    const detail::PageList::Entry& entry = entries_[it->second];
    if (entry.ready_after > waiting_.completed(0)) {
      ++it;
      continue;
    }
    trimmed_bytes += entry.page.size_bytes;
    count_reserved(entry.kind, -entry.page.size_bytes, -1);
    entries_.free(it->second);
    it = free_.erase(it);
  }
  return trimmed_bytes;
}

}  // namespace hearth
