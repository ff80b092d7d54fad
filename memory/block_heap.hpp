// Two-level segregated fit: the free and used pieces of a set of pages.
// A freed piece is joined with its free neighbours at once. A small freed piece is cached instead:
// it keeps its size for the next request of that size. Cached pieces are joined when no other free
// piece is large enough.
// Owned by a DevicePool, which keeps one heap for each class of lifetimes and sizes: no locks. All
// bookkeeping lies beside the pages, because the host may be unable to touch their bytes.
// Invariants: (1) the pieces of a page tile it, in address order, each a multiple of the granule;
// (2) no two free pieces are neighbours; (3) a free piece is in exactly one list, that of its size
// class; a resting piece is in the list of its size; (4) a page's first piece keeps its index; (5)
// at most one page grows, and `tail_` is its last piece; (6) a gap is a piece of the growing page
// without memory; it is only in `gaps_`, and no two gaps are neighbours.
#pragma once

#include <hearth/memory/page_provider.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::detail {

class BlockHeap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Piece {
    std::byte* data = nullptr;
    std::int64_t size_bytes = 0;
    std::uint64_t ready_after = 0;  ///< Free piece: the latest home-stream use of any of its bytes.
    std::uint32_t left = kNone;     ///< Neighbours in the page.
    std::uint32_t right = kNone;
    std::uint32_t previous =
        kNone;  ///< Neighbours in the free list; `next` also links unused entries.
    std::uint32_t next = kNone;
    bool is_free = false;
    bool is_gap = false;
    bool is_cached = false;
  };
  /// Memory to add so that a request fits: at the end of the growing page, or in a gap of it.
  struct Room {
    std::uint32_t gap = kNone;
    std::int64_t offset_bytes = 0;  ///< Offset within the gap.
    std::int64_t size_bytes = 0;    ///< Bytes of memory to add.
  };

  explicit BlockHeap(std::int64_t granule_bytes);

  /// Adds the page as one free piece.
  void add_page(Page page);
  /// Takes over an empty page that can grow.
  void open_growing_page(Page page);
  [[nodiscard]] bool has_growing_page() const noexcept { return growing_.data != nullptr; }
  /// Accounts for the growing page's new length. take() tries its free end first in its size class.
  void extend(Page longer);
  [[nodiscard]] Page growing_page() const noexcept { return growing_; }
  /// Returns the smallest addition of memory after which a piece of this size is free.
  [[nodiscard]] Room cheapest_room(std::int64_t size_bytes) noexcept;
  /// Adds memory to a gap.
  ///
  /// Errors: the provider's; then nothing has changed.
  [[nodiscard]] Status fill_gap(PageProvider& provider, const Room& room);
  /// Free bytes at the end of the growing page.
  [[nodiscard]] std::int64_t tail_bytes() const noexcept {
    return tail_ != kNone && pieces_[tail_].is_free ? pieces_[tail_].size_bytes : 0;
  }
  /// Takes a piece of exactly size_bytes, a positive multiple of the granule. Returns kNone if no
  /// free piece is large enough.
  ///
  /// Cost: O(1), except when resting pieces must be joined first. Tries resting pieces of the size,
  /// then up to kMaxScan pieces of the exact class, then the first piece of a larger class.
  [[nodiscard]] std::uint32_t take(std::int64_t size_bytes) {
    const auto granules = static_cast<std::size_t>(size_bytes >> granule_shift_);
    return granules < kCachedSizes && cached_[granules] != kNone ? take_cached(granules)
                                                                 : take_joined(size_bytes);
  }
  /// Gives a piece back. A small piece is cached; a larger one is joined with its free neighbours.
  ///
  /// Cost: O(1).
  void give(std::uint32_t index, std::uint64_t ready_after) noexcept;
  /// Joins resting pieces with their neighbours.
  ///
  /// Cost: O(resting pieces).
  void settle() noexcept;
  [[nodiscard]] const Piece& piece(std::uint32_t index) const noexcept { return pieces_[index]; }

  /// Returns free memory to the provider and returns the number of bytes. Takes the end of the
  /// growing page, then whole pages, then gaps, until size_bytes are returned. Skips pieces with a
  /// home-stream use later than `completed`.
  std::int64_t trim(PageProvider& provider,
                    std::int64_t size_bytes,
                    std::uint64_t completed) noexcept;
  /// Makes gaps in the growing page, largest free pieces first, until size_bytes are returned to
  /// the provider. Returns the number of bytes. Leaves the page's free end alone.
  ///
  /// Cost: O(free pieces of at least kPageGapBytes).
  std::int64_t make_gaps(PageProvider& provider, std::int64_t size_bytes, std::uint64_t completed);
  /// Returns whether trim() could return more once the home stream passes `completed`.
  [[nodiscard]] bool has_page_in_flight(std::uint64_t completed);
  void free_all_pages(PageProvider& provider) noexcept;

  [[nodiscard]] std::int64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  [[nodiscard]] std::int64_t page_count() const noexcept {
    return static_cast<std::int64_t>(pages_.size()) + (growing_.size_bytes > gap_bytes_ ? 1 : 0);
  }
  [[nodiscard]] std::int64_t free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] std::int64_t largest_free_bytes();

 private:
  struct PageEntry {
    Page page;
    std::uint32_t first = kNone;
  };
  struct SizeClass {
    std::uint32_t row = 0;
    std::uint32_t column = 0;
  };
  static constexpr std::uint32_t kColumnBits = 5;
  static constexpr std::uint32_t kColumns = 1U << kColumnBits;
  static constexpr std::uint32_t kRows = 48;
  static constexpr int kMaxScan = 8;
  /// Pieces of up to 64 granules rest,
  static constexpr std::size_t kCachedSizes = 65;
  /// if they have at most this many bytes.
  static constexpr std::int64_t kMostCachedBytes = std::int64_t{16} << 10;

  [[nodiscard]] std::uint32_t take_cached(std::size_t granules) noexcept;
  [[nodiscard]] std::uint32_t take_joined(std::int64_t size_bytes);
  void join(std::uint32_t index) noexcept;
  [[nodiscard]] SizeClass class_of(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] std::uint32_t find(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] bool is_whole_page(const PageEntry& entry) const noexcept;
  [[nodiscard]] std::uint32_t new_piece();
  void drop_piece(std::uint32_t index) noexcept;
  void link(std::uint32_t index) noexcept;
  void unlink(std::uint32_t index) noexcept;
  void absorb_right(std::uint32_t index) noexcept;
  /// Splits the last size_bytes off a piece. Returns the new piece, its right neighbour.
  std::uint32_t split_off(std::uint32_t index, std::int64_t size_bytes);
  [[nodiscard]] std::int64_t offset_of(std::uint32_t index) const noexcept {
    return pieces_[index].data - growing_.data;
  }
  [[nodiscard]] bool is_in_growing_page(std::uint32_t index) const noexcept;
  [[nodiscard]] std::vector<std::uint32_t> large_free_pieces() const;
  std::int64_t make_gap(PageProvider& provider, std::uint32_t index, std::int64_t size_bytes);
  void join_gaps(std::uint32_t index) noexcept;
  std::int64_t trim_tail(PageProvider& provider,
                         std::int64_t size_bytes,
                         std::uint64_t completed) noexcept;
  void drop_empty_growing_page(PageProvider& provider) noexcept;

  std::uint32_t granule_shift_;
  std::int64_t reserved_bytes_ = 0;
  std::int64_t free_bytes_ = 0;
  std::uint64_t row_bits_ = 0;
  std::array<std::uint32_t, kRows> column_bits_{};
  std::array<std::array<std::uint32_t, kColumns>, kRows> heads_{};
  /// Indexed by granules; the latest freed piece is first.
  std::array<std::uint32_t, kCachedSizes> cached_{};
  bool has_cached_ = false;
  std::vector<Piece> pieces_;
  std::uint32_t unused_ = kNone;
  std::vector<PageEntry> pages_;
  Page growing_;
  std::int64_t gap_bytes_ = 0;
  std::vector<std::uint32_t> gaps_;
  std::uint32_t tail_ = kNone;
};

}  // namespace hearth::detail
