#include <hearth/memory/block_heap.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <bit>

namespace hearth::detail {

BlockHeap::BlockHeap(std::int64_t granule_bytes)
    : granule_shift_(
          static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint64_t>(granule_bytes)))) {
  HEARTH_ASSERT(std::has_single_bit(static_cast<std::uint64_t>(granule_bytes)),
                "the granule is a power of two");
  for (auto& row : heads_) {
    row.fill(kNone);
  }
}

// Row 0 holds 0..31 granules, one column each; row r holds [2^(r+4), 2^(r+5)) granules in 32 equal
// columns.
BlockHeap::SizeClass BlockHeap::class_of(std::int64_t size_bytes) const noexcept {
  const std::uint64_t granules = static_cast<std::uint64_t>(size_bytes) >> granule_shift_;
  if (granules < kColumns) {
    return {.row = 0, .column = static_cast<std::uint32_t>(granules)};
  }
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(granules)) - 1;
  const auto column = static_cast<std::uint32_t>(granules >> (exponent - kColumnBits));
  return {.row = exponent - kColumnBits + 1, .column = column & (kColumns - 1)};
}

// Steady programs ask for the same sizes again and again, so the exact class is looked at first:
// without it, the hole that a tensor of the last step left would never be found by its successor,
// whose size is seldom the least of a class.
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

void BlockHeap::link(std::uint32_t index) noexcept {
  Piece& piece = pieces_[index];
  const SizeClass at = class_of(piece.size_bytes);
  std::uint32_t& head = heads_[at.row][at.column];
  piece.is_free = true;
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
  if (piece.next != kNone) {
    pieces_[piece.next].previous = piece.previous;
  }
  if (piece.previous != kNone) {
    pieces_[piece.previous].next = piece.next;
    return;
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

std::uint32_t BlockHeap::take(std::int64_t size_bytes) {
  const std::uint32_t index = find(size_bytes);
  if (index == kNone) {
    return kNone;
  }
  unlink(index);
  if (pieces_[index].size_bytes > size_bytes) {
    const std::uint32_t rest = new_piece();
    Piece& taken = pieces_[index];
    Piece& left_over = pieces_[rest];
    left_over.data = taken.data + size_bytes;
    left_over.size_bytes = taken.size_bytes - size_bytes;
    left_over.ready_after = taken.ready_after;
    left_over.left = index;
    left_over.right = taken.right;
    if (taken.right != kNone) {
      pieces_[taken.right].left = rest;
    }
    taken.right = rest;
    taken.size_bytes = size_bytes;
    link(rest);
  }
  return index;
}

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
  drop_piece(right);
}

void BlockHeap::give(std::uint32_t index, std::uint64_t ready_after) noexcept {
  HEARTH_ASSERT(!pieces_[index].is_free, "a piece was given back twice");
  pieces_[index].ready_after = std::max(pieces_[index].ready_after, ready_after);
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

bool BlockHeap::is_whole_page(const PageEntry& entry) const noexcept {
  const Piece& first = pieces_[entry.first];
  return first.is_free && first.right == kNone;
}

std::int64_t BlockHeap::trim(PageProvider& provider, std::uint64_t completed) noexcept {
  const std::int64_t before_bytes = reserved_bytes_;
  std::erase_if(pages_, [&](const PageEntry& entry) {
    if (!is_whole_page(entry) || pieces_[entry.first].ready_after > completed) {
      return false;
    }
    unlink(entry.first);
    drop_piece(entry.first);
    reserved_bytes_ -= entry.page.size_bytes;
    provider.free_page(entry.page);
    return true;
  });
  return before_bytes - reserved_bytes_;
}

bool BlockHeap::has_page_in_flight(std::uint64_t completed) const noexcept {
  return std::any_of(pages_.begin(), pages_.end(), [&](const PageEntry& entry) {
    return is_whole_page(entry) && pieces_[entry.first].ready_after > completed;
  });
}

void BlockHeap::free_all_pages(PageProvider& provider) noexcept {
  for (const PageEntry& entry : pages_) {
    provider.free_page(entry.page);
  }
  pages_.clear();
}

std::int64_t BlockHeap::largest_free_bytes() const {
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
