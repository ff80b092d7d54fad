#include "hazard_tracker.hpp"

#include <algorithm>

namespace hearth::gpu {
namespace {

/// Extends the known span if the other lies inside or next to it. Returns whether it did.
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

// ---- touched bytes ----

struct TouchedBytes::Bits {
  std::size_t word;
  std::uint64_t bits;
  std::size_t next_word;
  std::uint64_t next_bits;
};

bool TouchedBytes::is_short(const ByteSpan& span) noexcept {
  return span.end - span.begin <= (kWordBits - 1) * kGranuleBytes;
}

TouchedBytes::Bits TouchedBytes::bits_of(const ByteSpan& span) noexcept {
  const std::uint64_t first = span.begin / kGranuleBytes;
  const std::uint64_t count = (span.end - 1) / kGranuleBytes - first + 1;
  const std::uint64_t ones = ~std::uint64_t{0} >> (kWordBits - count);
  const std::uint64_t shift = first % kWordBits;
  const std::uint64_t word = first / kWordBits;
  return {.word = word % kWords,
          .bits = ones << shift,
          .next_word = (word + 1) % kWords,
          .next_bits = shift == 0 ? 0 : ones >> (kWordBits - shift)};
}

void TouchedBytes::note(const ByteSpan& span) noexcept {
  if (span.is_empty()) {
    return;
  }
  if (!is_short(span)) {
    has_long_ = true;
    return;
  }
  const Bits at = bits_of(span);
  granules_[at.word] |= at.bits;
  granules_[at.next_word] |= at.next_bits;
}

bool TouchedBytes::overlaps(std::span<const ByteSpan> spans) const noexcept {
  return std::ranges::any_of(spans, [this](const ByteSpan& span) {
    if (span.is_empty()) {
      return false;
    }
    if (has_table_ && !has_long_ && is_short(span)) {
      const Bits at = bits_of(span);
      if (((granules_[at.word] & at.bits) | (granules_[at.next_word] & at.next_bits)) == 0) {
        return false;
      }
    }
    return std::ranges::any_of(spans_, [&](const ByteSpan& each) { return each.overlaps(span); });
  });
}

void TouchedBytes::add(std::span<const ByteSpan> spans) {
  for (const ByteSpan& span : spans) {
    if (!span.is_empty()) {
      spans_.push_back(span);
    }
  }
  if (has_table_) {
    std::ranges::for_each(spans, [this](const ByteSpan& span) { note(span); });
  } else if (spans_.size() > kFew) {
    make_table();
  }
}

void TouchedBytes::make_table() noexcept {
  has_table_ = true;
  std::ranges::for_each(spans_, [this](const ByteSpan& span) { note(span); });
}

void TouchedBytes::end_launch() {
  constexpr std::size_t kLooked = 4;  // the latest spans: searching more costs more than it saves
  std::size_t kept = launch_begin_;
  for (std::size_t i = launch_begin_; i < spans_.size(); ++i) {
    bool is_joined = false;
    for (std::size_t k = kept; k > 0 && kept - k < kLooked && !is_joined; --k) {
      is_joined = joins(spans_[k - 1], spans_[i]);
    }
    if (!is_joined) {
      spans_[kept++] = spans_[i];
    }
  }
  spans_.resize(kept);
  launch_begin_ = kept;
}

void TouchedBytes::forget_known() {
  forget_table();
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(launch_begin_));
  launch_begin_ = 0;
  if (spans_.size() > kFew) {
    make_table();
  }
}

void TouchedBytes::clear() noexcept {
  forget_table();
  spans_.clear();
  launch_begin_ = 0;
}

// A long span may be the union of several short ones.
void TouchedBytes::forget_table() noexcept {
  if (!has_table_) {
    return;
  }
  if (!std::ranges::all_of(spans_, is_short)) {
    granules_.fill(0);
  } else {
    for (const ByteSpan& span : spans_) {
      const Bits at = bits_of(span);
      granules_[at.word] = 0;
      granules_[at.next_word] = 0;
    }
  }
  has_table_ = false;
  has_long_ = false;
}

// ---- launches ----

bool HazardTracker::conflicts(std::span<const ByteSpan> reads,
                              std::span<const ByteSpan> writes) const noexcept {
  return reads_.is_full() || writes_.is_full() || writes_.overlaps(reads) ||
         writes_.overlaps(writes) || reads_.overlaps(writes);
}

bool HazardTracker::begin(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes) {
  reads_.end_launch();
  writes_.end_launch();
  const bool needs = conflicts(reads, writes);
  if (needs) {
    clear();
  }
  reads_.add(reads);
  writes_.add(writes);
  return needs;
}

bool HazardTracker::also(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes) {
  const bool needs = conflicts(reads, writes);
  if (needs) {
    barrier();
  }
  reads_.add(reads);
  writes_.add(writes);
  return needs;
}

void HazardTracker::barrier() {
  reads_.forget_known();
  writes_.forget_known();
}

void HazardTracker::clear() noexcept {
  reads_.clear();
  writes_.clear();
}

}  // namespace hearth::gpu
