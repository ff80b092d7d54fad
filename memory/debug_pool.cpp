#include <hearth/memory/debug_pool.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace hearth {
namespace {

constexpr std::byte kGuard{0xA5};
constexpr std::byte kNothing{0xFF};  // NaN in every float type
// Limit of the guard after a block. A huge page may leave a longer one, which would be slow to
// check.
constexpr std::int64_t kLongestGuardBytes = 4096;

void fill(std::span<std::byte> bytes, std::byte value) noexcept {
  std::memset(bytes.data(), std::to_integer<int>(value), bytes.size());
}

/// Returns the index of the first byte that differs from `value`, or -1.
std::int64_t first_other(std::span<const std::byte> bytes, std::byte value) noexcept {
  const auto found =
      std::find_if(bytes.begin(), bytes.end(), [&](std::byte it) { return it != value; });
  return found == bytes.end() ? -1 : found - bytes.begin();
}

}  // namespace

DebugPool::DebugPool(PageProvider& provider, std::int64_t budget_bytes)
    : PagedStrategy(provider, budget_bytes),
      alignment_bytes_(std::max(kGuardBytes, provider.alignment_bytes())),
      most_held_bytes_(std::min(kHeldBytes, budget_bytes / 8)),
      entries_(provider) {}

Acquire DebugPool::acquire(std::int64_t size_bytes, PoolKind kind, Block& out) {
  HEARTH_ASSERT(size_bytes >= 0, "a block has a size of at least 0");
  if (size_bytes > counts_.budget_bytes) {
    return Acquire::over_budget;
  }
  const std::int64_t whole_bytes = alignment_bytes_ + size_bytes + kGuardBytes;
  Page page;
  const Acquire answer = take_page_or_trim(whole_bytes, page);
  if (answer != Acquire::ok) {
    return counts_.total.waiting_bytes > 0 ? Acquire::needs_wait : answer;
  }
  const std::uint32_t index = entries_.add({.page = page, .kind = kind, .size_bytes = size_bytes});
  std::byte* data = page.data + alignment_bytes_;
  const auto behind_bytes =
      std::min(kLongestGuardBytes, page.size_bytes - alignment_bytes_ - size_bytes);
  fill({data - kGuardBytes, static_cast<std::size_t>(kGuardBytes)}, kGuard);
  fill({data, static_cast<std::size_t>(size_bytes)}, kNothing);
  fill({data + size_bytes, static_cast<std::size_t>(behind_bytes)}, kGuard);
  count_reserved(kind, page.size_bytes, 1);
  count_acquired(kind, page.size_bytes);
  out = Block{.data = data, .size_bytes = size_bytes, .index = index};
  return Acquire::ok;
}

void DebugPool::record_damage(const Entry& entry, const char* where, std::int64_t offset_bytes) {
  ++counts_.damage_count;
  if (first_damage_.has_value()) {
    first_damage_ =
        Error{.code = ErrorCode::kernel_failed,
              .text = "memory was written to " + std::to_string(offset_bytes) + ' ' + where +
                      " a block of " + std::to_string(entry.size_bytes) + " bytes"};
  }
}

bool DebugPool::check_guards(const Entry& entry) {
  std::byte* data = entry.page.data + alignment_bytes_;
  const std::span<std::byte> before(data - kGuardBytes, static_cast<std::size_t>(kGuardBytes));
  const std::span<std::byte> behind(
      data + entry.size_bytes,
      static_cast<std::size_t>(std::min(
          kLongestGuardBytes, entry.page.size_bytes - alignment_bytes_ - entry.size_bytes)));
  const std::int64_t first_before = first_other(before, kGuard);
  const std::int64_t first_behind = first_other(behind, kGuard);
  if (first_before >= 0) {
    record_damage(entry, "bytes before", kGuardBytes - first_before);
    fill(before, kGuard);
  }
  if (first_behind >= 0) {
    record_damage(entry, "bytes behind", first_behind);
    fill(behind, kGuard);
  }
  return first_before < 0 && first_behind < 0;
}

Status DebugPool::check(const Block& block) {
  static_cast<void>(check_guards(entries_[block.index]));  // stores any damage in first_damage_
  return std::exchange(first_damage_, Status());
}

void DebugPool::release(const Block& block, const LastUse& last_use) noexcept {
  const Entry& entry = entries_[block.index];
  HEARTH_ASSERT(block.data == entry.page.data + alignment_bytes_,
                "the released block is not one that is out");
  count_released(entry.kind, entry.page.size_bytes);
  const detail::ReleaseQueue::Entry release{.last_use = last_use, .index = block.index};
  if (waiting_.is_ready_or_kept(release)) {
    hold(release);
  }
}

void DebugPool::retire(std::size_t stream, std::uint64_t value) noexcept {
  waiting_.retire(stream, value, [this](const detail::ReleaseQueue::Entry& ready) { hold(ready); });
}

void DebugPool::hold(const detail::ReleaseQueue::Entry& release) {
  const Entry& entry = entries_[release.index];
  static_cast<void>(check_guards(entry));
  fill({entry.page.data + alignment_bytes_, static_cast<std::size_t>(entry.size_bytes)}, kNothing);
  count_free(entry.kind, entry.page.size_bytes);
  held_.push_back(release.index);
  held_bytes_ += entry.page.size_bytes;
  static_cast<void>(release_held(most_held_bytes_));
}

std::int64_t DebugPool::release_held(std::int64_t left_bytes) {
  std::int64_t freed_bytes = 0;
  while (held_bytes_ > left_bytes) {
    const Entry& entry = entries_[held_.front()];
    static_cast<void>(check_guards(entry));
    const std::int64_t first = first_other(
        {entry.page.data + alignment_bytes_, static_cast<std::size_t>(entry.size_bytes)}, kNothing);
    if (first >= 0) {
      record_damage(entry, "bytes into, after its release,", first);
    }
    count_reserved(entry.kind, -entry.page.size_bytes, -1);
    freed_bytes += entry.page.size_bytes;
    held_bytes_ -= entry.page.size_bytes;
    entries_.free(held_.front());
    held_.pop_front();
  }
  return freed_bytes;
}

MemoryReport DebugPool::report() const {
  MemoryReport report = counted_report();
  report.pools.push_back({.name = "a guarded page for each tensor",
                          .reserved_bytes = report.total.reserved_bytes,
                          .free_bytes = report.total.free_bytes,
                          .largest_free_bytes = 0,
                          .page_count = report.total.page_count});
  return report;
}

std::int64_t DebugPool::trim() noexcept {
  return release_held(0);
}

}  // namespace hearth
