// Two-level segregated fit (Masmano et al., 2004). Each power of two has a row of 32 columns, and
// each column has a list. A bit for each list shows whether it is empty. So take() and give() need
// a few instructions, whatever the number of pieces.
// Pieces are named by index, because pointers into `pieces_` do not survive its growth. A reference
// taken before new_piece() dangles too, so split_off() calls new_piece() first.
#include <hearth/memory/block_heap.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace hearth::detail {

BlockHeap::BlockHeap(std::int64_t granule_bytes)
    : granule_shift_(
          static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint64_t>(granule_bytes)))) {
  HEARTH_ASSERT(std::has_single_bit(static_cast<std::uint64_t>(granule_bytes)),
                "the granule is a power of two");
  for (auto& row : heads_) {
    row.fill(kNone);
  }
  cached_.fill(kNone);
}

// Row 0 holds 0..31 granules, one column each. Row r holds [2^(r+4), 2^(r+5)) granules in 32 equal
// columns.
BlockHeap::SizeClass BlockHeap::class_of(std::int64_t size_bytes) const noexcept {
  const std::uint64_t granules = static_cast<std::uint64_t>(size_bytes) >> granule_shift_;
  if (granules < kColumns) {
    return {.row = 0, .column = static_cast<std::uint32_t>(granules)};
  }
  // The five bits below the leading one are the column.
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(granules)) - 1;
  const auto column = static_cast<std::uint32_t>(granules >> (exponent - kColumnBits));
  return {.row = exponent - kColumnBits + 1, .column = column & (kColumns - 1)};
}

// Tries the exact class first. Steady programs request the same sizes again, and such a size is
// seldom the least of its class. Without this search a tensor would never find the hole that its
// predecessor left. The scan is bounded, so that many sizes in one class do not slow down each op.
// Phases: the exact class, best fit among its first pieces; a larger column of the row; a larger
// row.
std::uint32_t BlockHeap::find(std::int64_t size_bytes) const noexcept {
  SizeClass at = class_of(size_bytes);
  std::uint32_t best = kNone;
  int scanned = 0;
  for (std::uint32_t i = heads_[at.row][at.column]; i != kNone && scanned < kMaxScan;
       i = pieces_[i].next, ++scanned) {
    const std::int64_t have_bytes = pieces_[i].size_bytes;
    if (have_bytes == size_bytes) {
      return i;
    }
    if (have_bytes > size_bytes && (best == kNone || have_bytes < pieces_[best].size_bytes)) {
      best = i;
    }
  }
  if (best != kNone) {
    return best;
  }
  // Any piece of a larger class fits, so the first one is taken. The last column is excluded: a
  // shift by 32 would be undefined.
  const std::uint32_t larger_columns =
      at.column + 1 == kColumns ? 0 : column_bits_[at.row] & (~std::uint32_t{0} << (at.column + 1));
  if (larger_columns != 0) {
    return heads_[at.row][static_cast<std::uint32_t>(std::countr_zero(larger_columns))];
  }
  const std::uint64_t larger_rows = row_bits_ & (~std::uint64_t{0} << (at.row + 1));
  if (larger_rows == 0) {
    return kNone;
  }
  at.row = static_cast<std::uint32_t>(std::countr_zero(larger_rows));
  return heads_[at.row][static_cast<std::uint32_t>(std::countr_zero(column_bits_[at.row]))];
}

std::uint32_t BlockHeap::new_piece() {
  if (unused_ == kNone) {
    pieces_.emplace_back();
    return static_cast<std::uint32_t>(pieces_.size() - 1);
  }
  const std::uint32_t index = unused_;
  unused_ = pieces_[index].next;
  pieces_[index] = Piece{};
  return index;
}

void BlockHeap::drop_piece(std::uint32_t index) noexcept {
  pieces_[index] = Piece{.next = unused_};
  unused_ = index;
}

// Inserts at the front: the piece freed last is taken first, while it is still in the caches.
void BlockHeap::link(std::uint32_t index) noexcept {
  Piece& piece = pieces_[index];
  const SizeClass at = class_of(piece.size_bytes);
  std::uint32_t& head = heads_[at.row][at.column];
  piece.is_free = true;
  free_bytes_ += piece.size_bytes;
  piece.previous = kNone;
  piece.next = head;
  if (head != kNone) {
    pieces_[head].previous = index;
  }
  head = index;
  column_bits_[at.row] |= 1U << at.column;
  row_bits_ |= std::uint64_t{1} << at.row;
}

void BlockHeap::unlink(std::uint32_t index) noexcept {
  Piece& piece = pieces_[index];
  piece.is_free = false;
  free_bytes_ -= piece.size_bytes;
  if (piece.next != kNone) {
    pieces_[piece.next].previous = piece.previous;
  }
  if (piece.previous != kNone) {
    pieces_[piece.previous].next = piece.next;
    return;  // not the head: the list is not empty, so its bits stay
  }
  const SizeClass at = class_of(piece.size_bytes);
  heads_[at.row][at.column] = piece.next;
  if (piece.next == kNone) {
    column_bits_[at.row] &= ~(1U << at.column);
    if (column_bits_[at.row] == 0) {
      row_bits_ &= ~(std::uint64_t{1} << at.row);
    }
  }
}

void BlockHeap::add_page(Page page) {
  const std::uint32_t index = new_piece();
  pieces_[index].data = page.data;
  pieces_[index].size_bytes = page.size_bytes;
  link(index);
  pages_.push_back({.page = page, .first = index});
  reserved_bytes_ += page.size_bytes;
}

void BlockHeap::open_growing_page(Page page) {
  HEARTH_ASSERT(!has_growing_page() && page.size_bytes == 0, "one page grows, from nothing");
  growing_ = page;
}

// Grows the free end, which changes its class, or adds a free neighbour to a used end.
void BlockHeap::extend(Page longer) {
  const std::int64_t more_bytes = longer.size_bytes - growing_.size_bytes;
  if (tail_bytes() > 0) {
    unlink(tail_);
    pieces_[tail_].size_bytes += more_bytes;
  } else {
    const std::uint32_t index = new_piece();
    pieces_[index].data = growing_.data + growing_.size_bytes;
    pieces_[index].size_bytes = more_bytes;
    pieces_[index].left = tail_;
    if (tail_ != kNone) {
      pieces_[tail_].right = index;
    }
    tail_ = index;
  }
  link(tail_);
  growing_ = longer;
  reserved_bytes_ += more_bytes;
}

// Splits off the end, so that the next block of the remaining size starts at the same address.
std::uint32_t BlockHeap::split_off(std::uint32_t index, std::int64_t size_bytes) {
  const std::uint32_t rest = new_piece();
  Piece& kept = pieces_[index];
  Piece& split = pieces_[rest];
  kept.size_bytes -= size_bytes;
  split.data = kept.data + kept.size_bytes;
  split.size_bytes = size_bytes;
  split.ready_after = kept.ready_after;  // which bytes had the late use is unknown
  split.left = index;
  split.right = kept.right;
  if (kept.right != kNone) {
    pieces_[kept.right].left = rest;
  }
  kept.right = rest;
  if (tail_ == index) {
    tail_ = rest;
  }
  return rest;
}

std::uint32_t BlockHeap::take_joined(std::int64_t size_bytes) {
  std::uint32_t index = find(size_bytes);
  if (index == kNone && has_cached_) {
    settle();
    index = find(size_bytes);
  }
  if (index == kNone) {
    return kNone;
  }
  unlink(index);
  if (pieces_[index].size_bytes > size_bytes) {
    link(split_off(index, pieces_[index].size_bytes - size_bytes));
  }
  return index;
}

std::uint32_t BlockHeap::take_cached(std::size_t granules) noexcept {
  const std::uint32_t index = cached_[granules];
  Piece& piece = pieces_[index];
  cached_[granules] = piece.next;
  piece.next = kNone;
  piece.is_cached = false;
  free_bytes_ -= piece.size_bytes;
  return index;
}

// Both pieces are in no list, because joining changes the class.
void BlockHeap::absorb_right(std::uint32_t index) noexcept {
  const std::uint32_t right = pieces_[index].right;
  Piece& piece = pieces_[index];
  const Piece& absorbed = pieces_[right];
  piece.size_bytes += absorbed.size_bytes;
  piece.ready_after = std::max(piece.ready_after, absorbed.ready_after);
  piece.right = absorbed.right;
  if (absorbed.right != kNone) {
    pieces_[absorbed.right].left = index;
  }
  if (tail_ == right) {
    tail_ = index;
  }
  drop_piece(right);
}

// Caches small pieces. Joining a piece, and splitting it for the next request of its size, takes
// as long as all other work of release and acquire. Programs of small ops would pay that for every
// op.
void BlockHeap::give(std::uint32_t index, std::uint64_t ready_after) noexcept {
  Piece& piece = pieces_[index];
  HEARTH_ASSERT(!piece.is_free && !piece.is_cached, "a piece was given back twice");
  piece.ready_after = std::max(piece.ready_after, ready_after);
  const auto granules = static_cast<std::size_t>(piece.size_bytes >> granule_shift_);
  if (granules >= kCachedSizes || piece.size_bytes > kMostCachedBytes) {
    join(index);
    return;
  }
  piece.is_cached = true;
  piece.next = cached_[granules];
  cached_[granules] = index;
  has_cached_ = true;
  free_bytes_ += piece.size_bytes;
}

void BlockHeap::settle() noexcept {
  if (!std::exchange(has_cached_, false)) {
    return;
  }
  for (std::size_t granules = 1; granules < kCachedSizes; ++granules) {
    while (cached_[granules] != kNone) {
      join(take_cached(granules));
    }
  }
}

void BlockHeap::join(std::uint32_t index) noexcept {
  // A neighbouring gap is not free, since it has no memory. So a page full of gaps never becomes
  // one piece by itself.
  const std::uint32_t right = pieces_[index].right;
  if (right != kNone && pieces_[right].is_free) {
    unlink(right);
    absorb_right(index);
  }
  const std::uint32_t left = pieces_[index].left;
  if (left != kNone && pieces_[left].is_free) {
    unlink(left);
    absorb_right(left);
    index = left;
  }
  link(index);
}

bool BlockHeap::is_in_growing_page(std::uint32_t index) const noexcept {
  // Pages are different allocations: only std::less orders pointers into them.
  const std::byte* data = pieces_[index].data;
  return has_growing_page() && !std::less<>{}(data, growing_.data) &&
         std::less<>{}(data, growing_.data + growing_.size_bytes);
}

// Fills a gap from the side that has the larger free piece, and only as far as necessary.
BlockHeap::Room BlockHeap::cheapest_room(std::int64_t size_bytes) noexcept {
  settle();
  // The end of the page, unless a gap needs no more.
  Room best{.size_bytes = std::max<std::int64_t>(size_bytes - tail_bytes(), 0)};
  const auto free_beside = [this](std::uint32_t index) {
    return index != kNone && pieces_[index].is_free ? pieces_[index].size_bytes : 0;
  };
  for (const std::uint32_t gap : gaps_) {
    const std::int64_t gap_bytes = pieces_[gap].size_bytes;
    const std::int64_t left_bytes = free_beside(pieces_[gap].left);
    const std::int64_t right_bytes = free_beside(pieces_[gap].right);
    const std::int64_t missing_bytes = size_bytes - std::max(left_bytes, right_bytes);
    std::int64_t fill_bytes = (missing_bytes + kPageGapBytes - 1) / kPageGapBytes * kPageGapBytes;
    if (fill_bytes > gap_bytes) {
      fill_bytes = gap_bytes;  // the pieces on both sides then join through it
    }
    const bool is_filled = fill_bytes == gap_bytes;
    const std::int64_t room_bytes = is_filled ? left_bytes + gap_bytes + right_bytes
                                              : std::max(left_bytes, right_bytes) + fill_bytes;
    if (fill_bytes > 0 && room_bytes >= size_bytes && fill_bytes <= best.size_bytes) {
      const bool from_right = right_bytes > left_bytes;
      best = {.gap = gap,
              .offset_bytes = from_right ? gap_bytes - fill_bytes : 0,
              .size_bytes = fill_bytes};
    }
  }
  return best;
}

// Calls the provider first, so that the pieces do not change if it has no memory.
Status BlockHeap::fill_gap(PageProvider& provider, const Room& room) {
  const std::int64_t gap_bytes = pieces_[room.gap].size_bytes;
  HEARTH_TRY_STATUS(
      provider.fill_gap(growing_, offset_of(room.gap) + room.offset_bytes, room.size_bytes));
  reserved_bytes_ += room.size_bytes;
  gap_bytes_ -= room.size_bytes;
  std::uint32_t filled = room.gap;
  if (room.offset_bytes > 0) {
    filled = split_off(room.gap, gap_bytes - room.offset_bytes);
  } else {
    if (room.size_bytes < gap_bytes) {
      const std::uint32_t rest = split_off(room.gap, gap_bytes - room.size_bytes);
      pieces_[rest].is_gap = true;
      gaps_.push_back(rest);
    }
    pieces_[room.gap].is_gap = false;
    std::erase(gaps_, room.gap);
  }
  give(filled, 0);  // fresh memory: no use is in flight
  return {};
}

// Returns the largest classes first. The result is a copy, because making a gap unlinks pieces from
// the lists read here.
std::vector<std::uint32_t> BlockHeap::large_free_pieces() const {
  std::vector<std::uint32_t> found;
  const SizeClass least = class_of(kPageGapBytes);
  for (std::uint32_t row = kRows; row-- > least.row;) {
    for (std::uint32_t column = kColumns; column-- > 0;) {
      for (std::uint32_t i = heads_[row][column]; i != kNone; i = pieces_[i].next) {
        if (i != tail_ && is_in_growing_page(i)) {
          found.push_back(i);
        }
      }
    }
  }
  return found;
}

std::int64_t BlockHeap::make_gaps(PageProvider& provider,
                                  std::int64_t size_bytes,
                                  std::uint64_t completed) {
  settle();
  std::int64_t given_bytes = 0;
  for (const std::uint32_t index : large_free_pieces()) {
    if (given_bytes >= size_bytes) {
      break;
    }
    if (pieces_[index].ready_after <= completed) {
      given_bytes += make_gap(provider, index, size_bytes - given_bytes);
    }
  }
  return given_bytes;
}

// Makes the gap at the end of the piece, so that the next block of its size starts at the same
// address.
std::int64_t BlockHeap::make_gap(PageProvider& provider,
                                 std::uint32_t index,
                                 std::int64_t size_bytes) {
  const std::int64_t piece_begin = offset_of(index);
  const std::int64_t piece_end = piece_begin + pieces_[index].size_bytes;
  const std::int64_t end = piece_end / kPageGapBytes * kPageGapBytes;
  const std::int64_t least = (piece_begin + kPageGapBytes - 1) / kPageGapBytes * kPageGapBytes;
  const std::int64_t wanted = (size_bytes + kPageGapBytes - 1) / kPageGapBytes * kPageGapBytes;
  const std::int64_t begin = std::max(least, end - wanted);
  if (begin >= end || !provider.make_gap(growing_, begin, end - begin).has_value()) {
    return 0;
  }
  // The piece becomes up to three: the part before the gap, the gap, and the end that fills no
  // whole unit.
  unlink(index);
  if (piece_end > end) {
    link(split_off(index, piece_end - end));
  }
  std::uint32_t gap = index;
  if (begin > piece_begin) {
    gap = split_off(index, end - begin);
    link(index);
  }
  pieces_[gap].is_gap = true;
  pieces_[gap].ready_after = 0;
  gaps_.push_back(gap);
  gap_bytes_ += end - begin;
  reserved_bytes_ -= end - begin;
  join_gaps(gap);
  return end - begin;
}

void BlockHeap::join_gaps(std::uint32_t index) noexcept {
  const auto is_gap = [this](std::uint32_t i) { return i != kNone && pieces_[i].is_gap; };
  if (const std::uint32_t right = pieces_[index].right; is_gap(right)) {
    std::erase(gaps_, right);
    absorb_right(index);
  }
  if (const std::uint32_t left = pieces_[index].left; is_gap(left)) {
    std::erase(gaps_, index);
    absorb_right(left);
  }
}

bool BlockHeap::is_whole_page(const PageEntry& entry) const noexcept {
  const Piece& first = pieces_[entry.first];
  return first.is_free && first.right == kNone;
}

// If the provider cannot shorten the page, nothing changes and 0 is returned.
std::int64_t BlockHeap::trim_tail(PageProvider& provider,
                                  std::int64_t size_bytes,
                                  std::uint64_t completed) noexcept {
  const std::int64_t free_bytes = tail_bytes();
  if (free_bytes == 0 || pieces_[tail_].ready_after > completed) {
    return 0;
  }
  const std::int64_t wanted = (size_bytes + kPageGapBytes - 1) / kPageGapBytes * kPageGapBytes;
  Page shorter = growing_;
  if (!provider.resize_page(shorter, growing_.size_bytes - std::min(free_bytes, wanted))
           .has_value()) {
    return 0;
  }
  const std::int64_t lost_bytes = growing_.size_bytes - shorter.size_bytes;
  unlink(tail_);
  if (lost_bytes == free_bytes) {
    const std::uint32_t left = pieces_[tail_].left;
    drop_piece(tail_);
    tail_ = left;
    if (left != kNone) {
      pieces_[left].right = kNone;
    }
  } else {
    pieces_[tail_].size_bytes -= lost_bytes;
    link(tail_);
  }
  growing_ = shorter;
  reserved_bytes_ -= lost_bytes;
  return lost_bytes;
}

// Frees the growing page once it consists of gaps only.
void BlockHeap::drop_empty_growing_page(PageProvider& provider) noexcept {
  if (gap_bytes_ == 0 || growing_.size_bytes != gap_bytes_) {
    return;
  }
  provider.free_page(growing_);
  for (const std::uint32_t gap : gaps_) {
    drop_piece(gap);
  }
  gaps_.clear();
  gap_bytes_ = 0;
  growing_ = {};
  tail_ = kNone;
}

// Goes from cheap to expensive. The end of the growing page costs one call and no address. A whole
// page may have to be allocated again. A gap leaves a hole that later blocks cannot cross.
std::int64_t BlockHeap::trim(PageProvider& provider,
                             std::int64_t size_bytes,
                             std::uint64_t completed) noexcept {
  settle();
  const std::int64_t before_bytes = reserved_bytes_;
  const auto missing_bytes = [&] { return size_bytes - (before_bytes - reserved_bytes_); };
  static_cast<void>(trim_tail(provider, size_bytes, completed));
  std::erase_if(pages_, [&](const PageEntry& entry) {
    if (missing_bytes() <= 0 || !is_whole_page(entry) ||
        pieces_[entry.first].ready_after > completed) {
      return false;
    }
    unlink(entry.first);
    drop_piece(entry.first);
    reserved_bytes_ -= entry.page.size_bytes;
    provider.free_page(entry.page);
    return true;
  });
  if (missing_bytes() > 0) {
    static_cast<void>(make_gaps(provider, missing_bytes(), completed));
  }
  drop_empty_growing_page(provider);
  return before_bytes - reserved_bytes_;
}

// Returns whether waiting for the device would help trim(). Called before a wait, so it may cost
// more than take().
bool BlockHeap::has_page_in_flight(std::uint64_t completed) {
  settle();
  const bool tail_waits = tail_bytes() > 0 && pieces_[tail_].ready_after > completed;
  const std::vector<std::uint32_t> others = large_free_pieces();
  const bool gap_waits = std::any_of(others.begin(), others.end(), [&](std::uint32_t index) {
    return pieces_[index].ready_after > completed;
  });
  return tail_waits || gap_waits ||
         std::any_of(pages_.begin(), pages_.end(), [&](const PageEntry& entry) {
           return is_whole_page(entry) && pieces_[entry.first].ready_after > completed;
         });
}

void BlockHeap::free_all_pages(PageProvider& provider) noexcept {
  for (const PageEntry& entry : pages_) {
    provider.free_page(entry.page);
  }
  pages_.clear();
  if (has_growing_page()) {
    provider.free_page(growing_);
    growing_ = {};
  }
}

// The largest piece is in the highest class, at an unknown place of its list.
std::int64_t BlockHeap::largest_free_bytes() {
  settle();
  if (row_bits_ == 0) {
    return 0;
  }
  const auto row = static_cast<std::uint32_t>(std::bit_width(row_bits_)) - 1;
  const auto column = static_cast<std::uint32_t>(std::bit_width(column_bits_[row])) - 1;
  std::int64_t largest_bytes = 0;
  for (std::uint32_t i = heads_[row][column]; i != kNone; i = pieces_[i].next) {
    largest_bytes = std::max(largest_bytes, pieces_[i].size_bytes);
  }
  return largest_bytes;
}

}  // namespace hearth::detail
