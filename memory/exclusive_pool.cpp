#include <hearth/memory/exclusive_pool.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <iterator>

namespace hearth {

ExclusivePool::ExclusivePool(PageProvider& provider, std::int64_t budget_bytes)
    : provider_(provider) {
  counts_.budget_bytes = budget_bytes;
}

ExclusivePool::~ExclusivePool() {
  for (const Entry& entry : entries_) {
    if (entry.page.data != nullptr) {
      provider_.free_page(entry.page);
    }
  }
}

MemoryUsage& ExclusivePool::usage_of(PoolKind kind) noexcept {
  return kind == PoolKind::exclusive ? counts_.exclusive : counts_.temporary;
}

void ExclusivePool::count_reserved(PoolKind kind, std::int64_t bytes, std::int64_t pages) noexcept {
  for (MemoryUsage* usage : {&counts_.total, &usage_of(kind)}) {
    usage->reserved_bytes += bytes;
    usage->page_count += pages;
  }
}

std::uint32_t ExclusivePool::take_free(std::int64_t size_bytes) {
  const auto found = free_.lower_bound(size_bytes);
  if (found == free_.end() || found->first - size_bytes > found->first / 4) {
    return kNone;
  }
  const std::uint32_t index = found->second;
  free_.erase(found);
  return index;
}

Acquire ExclusivePool::add_page(std::int64_t size_bytes, std::uint32_t& index) {
  const std::int64_t room_bytes = counts_.budget_bytes - counts_.total.reserved_bytes;
  if (size_bytes > room_bytes) {
    return Acquire::over_budget;
  }
  const Result<Page> page = provider_.allocate_page(size_bytes);
  if (!page.has_value()) {
    counts_.refusal = page.error().text;
    return Acquire::exhausted;
  }
  if (page.value().size_bytes > room_bytes) {
    provider_.free_page(page.value());
    return Acquire::over_budget;
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  index = unused_.back();
  unused_.pop_back();
  entries_[index] = {.page = page.value()};
  ++counts_.page_acquire_count;
  count_reserved(PoolKind::temporary, page.value().size_bytes, 1);
  return Acquire::ok;
}

Acquire ExclusivePool::acquire(std::int64_t size_bytes, PoolKind kind, Block& out) {
  HEARTH_ASSERT(size_bytes >= 0, "a block has a size of at least 0");
  const std::int64_t wanted_bytes = std::max<std::int64_t>(size_bytes, 1);
  std::uint32_t index = take_free(wanted_bytes);
  if (index == kNone) {
    Acquire answer = add_page(wanted_bytes, index);
    if (answer != Acquire::ok && trim() > 0) {
      ++counts_.rungs.trim_count;
      answer = add_page(wanted_bytes, index);
    }
    if (answer != Acquire::ok) {
      return can_wait() ? Acquire::needs_wait : answer;
    }
  }
  Entry& entry = entries_[index];
  if (entry.kind != kind) {
    count_reserved(entry.kind, -entry.page.size_bytes, -1);
    count_reserved(kind, entry.page.size_bytes, 1);
    entry.kind = kind;
  }
  for (MemoryUsage* usage : {&counts_.total, &usage_of(kind)}) {
    usage->live_bytes += entry.page.size_bytes;
    ++usage->live_count;
    ++usage->acquire_count;
    usage->peak_live_bytes = std::max(usage->peak_live_bytes, usage->live_bytes);
    usage->peak_reserved_bytes = std::max(usage->peak_reserved_bytes, usage->reserved_bytes);
  }
  out = Block{.data = entry.page.data,
              .size_bytes = size_bytes,
              .ready_after = entry.ready_after,
              .index = index};
  return Acquire::ok;
}

void ExclusivePool::release(const Block& block, const LastUse& last_use) noexcept {
  const Entry& entry = entries_[block.index];
  HEARTH_ASSERT(block.data == entry.page.data, "the released block is not one that is out");
  for (MemoryUsage* usage : {&counts_.total, &usage_of(entry.kind)}) {
    usage->live_bytes -= entry.page.size_bytes;
    --usage->live_count;
    usage->waiting_bytes += entry.page.size_bytes;
  }
  const detail::ReleaseQueue::Entry release{.last_use = last_use, .index = block.index};
  if (waiting_.is_ready_or_kept(release)) {
    make_free(release);
  }
}

void ExclusivePool::make_free(const detail::ReleaseQueue::Entry& release) {
  Entry& entry = entries_[release.index];
  counts_.total.waiting_bytes -= entry.page.size_bytes;
  usage_of(entry.kind).waiting_bytes -= entry.page.size_bytes;
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

void ExclusivePool::count_in_place(std::int64_t size_bytes) noexcept {
  ++counts_.in_place_count;
  counts_.in_place_bytes += size_bytes;
}

MemoryReport ExclusivePool::report() const {
  MemoryReport report = counts_;
  for (const auto& [size_bytes, index] : free_) {
    MemoryUsage& usage =
        entries_[index].kind == PoolKind::exclusive ? report.exclusive : report.temporary;
    usage.largest_free_bytes = std::max(usage.largest_free_bytes, size_bytes);
  }
  report.total.largest_free_bytes =
      std::max(report.temporary.largest_free_bytes, report.exclusive.largest_free_bytes);
  for (MemoryUsage* usage : {&report.total, &report.temporary, &report.exclusive}) {
    usage->free_bytes = usage->reserved_bytes - usage->live_bytes - usage->waiting_bytes;
  }
  report.pools.push_back({.name = "a page for each tensor",
                          .reserved_bytes = report.total.reserved_bytes,
                          .free_bytes = report.total.free_bytes,
                          .largest_free_bytes = report.total.largest_free_bytes,
                          .page_count = report.total.page_count});
  return report;
}

void ExclusivePool::reset_peak() noexcept {
  for (MemoryUsage* usage : {&counts_.total, &counts_.temporary, &counts_.exclusive}) {
    usage->peak_live_bytes = usage->live_bytes;
    usage->peak_reserved_bytes = usage->reserved_bytes;
  }
}

std::int64_t ExclusivePool::trim() noexcept {
  std::int64_t trimmed_bytes = 0;
  for (auto it = free_.begin(); it != free_.end();) {
    Entry& entry = entries_[it->second];
    if (entry.ready_after > waiting_.completed(0)) {
      ++it;
      continue;
    }
    trimmed_bytes += entry.page.size_bytes;
    count_reserved(entry.kind, -entry.page.size_bytes, -1);
    provider_.free_page(entry.page);
    entry = {};
    unused_.push_back(it->second);
    it = free_.erase(it);
  }
  return trimmed_bytes;
}

}  // namespace hearth
