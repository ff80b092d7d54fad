#include "hazard_tracker.hpp"

#include <algorithm>

namespace hearth::vulkan {
namespace {

void add_all(std::vector<ByteSpan>& to, std::span<const ByteSpan> spans) {
  for (const ByteSpan& span : spans) {
    if (!span.is_empty()) {
      to.push_back(span);
    }
  }
}

/// Whether the span is in the known one, or beside it: then that is both.
bool joins(ByteSpan& known, const ByteSpan& span) noexcept {
  if (known.begin <= span.begin && span.end <= known.end) {
    return true;
  }
  if (known.end == span.begin) {
    known.end = span.end;
    return true;
  }
  if (known.begin == span.end) {
    known.begin = span.begin;
    return true;
  }
  return false;
}

/// Joins the spans from `first` on to some of those before them, where they are the same bytes.
void join_behind(std::vector<ByteSpan>& spans, std::size_t first) {
  constexpr std::size_t kLooked = 4;  // the latest: with more the look costs what it saves
  std::size_t kept = first;
  for (std::size_t i = first; i < spans.size(); ++i) {
    bool is_joined = false;
    for (std::size_t k = kept; k > 0 && kept - k < kLooked && !is_joined; --k) {
      is_joined = joins(spans[k - 1], spans[i]);
    }
    if (!is_joined) {
      spans[kept++] = spans[i];
    }
  }
  spans.resize(kept);
}

bool any_overlaps(const std::vector<ByteSpan>& known, std::span<const ByteSpan> spans) noexcept {
  return std::ranges::any_of(known, [spans](const ByteSpan& each) {
    return std::ranges::any_of(spans, [&](const ByteSpan& span) { return each.overlaps(span); });
  });
}

}  // namespace

ByteSpan span_of(const TensorView& view) noexcept {
  const hearth::detail::Layout& layout = *view.layout;
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const std::int64_t size = layout.shape[axis];
    if (size == 0) {
      return {};
    }
    const std::int64_t reach = (size - 1) * layout.strides[static_cast<std::size_t>(axis)];
    (reach < 0 ? first : last) += reach;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);  // NOLINT: as a number
  const std::int64_t size = size_bytes(view.dtype);
  return {address + static_cast<std::uint64_t>(first * size),
          address + static_cast<std::uint64_t>((last + 1) * size)};
}

bool HazardTracker::conflicts(std::span<const ByteSpan> reads,
                              std::span<const ByteSpan> writes) const noexcept {
  return reads_.size() >= kMost || writes_.size() >= kMost || any_overlaps(writes_, reads) ||
         any_overlaps(writes_, writes) || any_overlaps(reads_, writes);
}

void HazardTracker::join_last() {
  join_behind(reads_, first_read_);
  join_behind(writes_, first_write_);
  first_read_ = reads_.size();
  first_write_ = writes_.size();
}

void HazardTracker::add(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes) {
  add_all(reads_, reads);
  add_all(writes_, writes);
}

bool HazardTracker::begin(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes) {
  join_last();
  const bool needs = conflicts(reads, writes);
  if (needs) {
    clear();
  }
  first_read_ = reads_.size();
  first_write_ = writes_.size();
  add(reads, writes);
  return needs;
}

bool HazardTracker::also(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes) {
  const bool needs = conflicts(reads, writes);
  if (needs) {
    barrier();
  }
  add(reads, writes);
  return needs;
}

void HazardTracker::barrier() {
  reads_.erase(reads_.begin(), reads_.begin() + static_cast<std::ptrdiff_t>(first_read_));
  writes_.erase(writes_.begin(), writes_.begin() + static_cast<std::ptrdiff_t>(first_write_));
  first_read_ = 0;
  first_write_ = 0;
}

void HazardTracker::clear() noexcept {
  reads_.clear();
  writes_.clear();
  first_read_ = 0;
  first_write_ = 0;
}

}  // namespace hearth::vulkan
