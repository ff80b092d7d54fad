#include <hearth/memory/paged_strategy.hpp>

namespace hearth::detail {

PagedStrategy::PagedStrategy(PageProvider& provider, std::int64_t budget_bytes)
    : provider_(provider) {
  counts_.budget_bytes = budget_bytes;
}

Acquire PagedStrategy::take_page(std::int64_t size_bytes, Page& out) {
  if (size_bytes > room_bytes()) {
    return Acquire::over_budget;
  }
  const Result<Page> page = provider_.allocate_page(size_bytes);
  if (!page.has_value()) {
    counts_.refusal = page.error().text;
    return Acquire::exhausted;
  }
  if (page.value().size_bytes > room_bytes()) {
    // The provider rounded up beyond what the budget has left.
    provider_.free_page(page.value());
    return Acquire::over_budget;
  }
  out = page.value();
  ++counts_.page_acquire_count;
  return Acquire::ok;
}

Acquire PagedStrategy::take_page_or_trim(std::int64_t size_bytes, Page& out) {
  const Acquire answer = take_page(size_bytes, out);
  if (answer == Acquire::ok || trim() == 0) {
    return answer;
  }
  ++counts_.rungs.trim_count;
  return take_page(size_bytes, out);
}

void PagedStrategy::count_in_place(std::int64_t size_bytes) noexcept {
  ++counts_.in_place_count;
  counts_.in_place_bytes += size_bytes;
}

MemoryReport PagedStrategy::counted_report() const {
  MemoryReport report = counts_;
  for (MemoryUsage* usage : {&report.total, &report.temporary, &report.exclusive}) {
    usage->free_bytes = usage->reserved_bytes - usage->live_bytes - usage->waiting_bytes;
  }
  return report;
}

void PagedStrategy::reset_peak() noexcept {
  for (MemoryUsage* usage : {&counts_.total, &counts_.temporary, &counts_.exclusive}) {
    usage->peak_live_bytes = usage->live_bytes;
    usage->peak_reserved_bytes = usage->reserved_bytes;
  }
}

}  // namespace hearth::detail
