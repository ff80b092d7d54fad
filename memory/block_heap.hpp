// The free and used pieces of a set of pages: two-level segregated fit with immediate coalescing.
// Owned by a DevicePool, which keeps one heap for each class of lifetimes and sizes: no locks.
// All bookkeeping lies beside the pages, whose bytes the host need not be able to touch.
// Invariants: (1) the pieces of a page tile it, in address order, each a multiple of the granule;
// (2) no two free neighbours; (3) a free piece is in exactly one list, the one of its size class;
// (4) a page's first piece keeps its index.
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
    std::uint64_t ready_after =
        0;  ///< Of a free piece: the latest home-stream use of any of its bytes.
    std::uint32_t left = kNone;  ///< Neighbours in the page.
    std::uint32_t right = kNone;
    std::uint32_t previous =
        kNone;  ///< Neighbours in the free list; next also links unused entries.
    std::uint32_t next = kNone;
    bool is_free = false;
  };

  explicit BlockHeap(std::int64_t granule_bytes);

  /// All of the page becomes one free piece.
  void add_page(Page page);
  /// Takes a piece of exactly size_bytes, a positive multiple of the granule; kNone when no free
  /// piece is large enough.
  ///
  /// Cost: O(1). Looks at up to kMaxScan pieces of the exact class, then at one that surely fits.
  [[nodiscard]] std::uint32_t take(std::int64_t size_bytes);
  /// Gives a piece back and joins it with its free neighbours.
  ///
  /// Cost: O(1).
  void give(std::uint32_t index, std::uint64_t ready_after) noexcept;
  [[nodiscard]] const Piece& piece(std::uint32_t index) const noexcept { return pieces_[index]; }

  /// Hands every wholly free page whose uses are done at home value `completed` to the provider;
  /// the bytes of those pages.
  std::int64_t trim(PageProvider& provider, std::uint64_t completed) noexcept;
  /// Whether some page is wholly free, but not done at `completed`.
  [[nodiscard]] bool has_page_in_flight(std::uint64_t completed) const noexcept;
  void free_all_pages(PageProvider& provider) noexcept;

  [[nodiscard]] std::int64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  [[nodiscard]] std::int64_t page_count() const noexcept {
    return static_cast<std::int64_t>(pages_.size());
  }
  [[nodiscard]] std::int64_t largest_free_bytes() const;

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

  [[nodiscard]] SizeClass class_of(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] std::uint32_t find(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] bool is_whole_page(const PageEntry& entry) const noexcept;
  [[nodiscard]] std::uint32_t new_piece();
  void drop_piece(std::uint32_t index) noexcept;
  void link(std::uint32_t index) noexcept;
  void unlink(std::uint32_t index) noexcept;
  void absorb_right(std::uint32_t index) noexcept;

  std::uint32_t granule_shift_;
  std::int64_t reserved_bytes_ = 0;
  std::uint64_t row_bits_ = 0;
  std::array<std::uint32_t, kRows> column_bits_{};
  std::array<std::array<std::uint32_t, kColumns>, kRows> heads_{};
  std::vector<Piece> pieces_;
  std::uint32_t unused_ = kNone;
  std::vector<PageEntry> pages_;
};

}  // namespace hearth::detail
