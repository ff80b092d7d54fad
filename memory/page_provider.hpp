// A page provider allocates a pool's raw memory, in large pages and rarely. Each backend has one.
// Where addresses are free of cost (on a host), a page can also grow in place. Then all of a heap
// is contiguous. Unused bytes can be returned from its middle too, so the pool holds little more
// than its blocks.
// Threads: owner only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Unit of gaps: a gap begins and ends on multiples of this, counted from the page's beginning.
inline constexpr std::int64_t kPageGapBytes = std::int64_t{64} << 10;

struct Page {
  std::byte* data = nullptr;  ///< Host or device address.
  std::int64_t size_bytes = 0;
};

class PageProvider {
 public:
  PageProvider() = default;
  PageProvider(const PageProvider&) = delete;
  PageProvider& operator=(const PageProvider&) = delete;
  virtual ~PageProvider() = default;

  /// Allocates at least size_bytes, aligned to alignment_bytes().
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] virtual Result<Page> allocate_page(std::int64_t size_bytes) = 0;
  virtual void free_page(Page page) noexcept = 0;
  /// Reserves an empty page that resize_page() can lengthen up to reach_bytes.
  ///
  /// Errors: unsupported if pages have a fixed size; out_of_memory if no addresses are left.
  [[nodiscard]] virtual Result<Page> open_growing_page(std::int64_t reach_bytes) {
    static_cast<void>(reach_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device do not grow"};
  }
  /// Makes a growing page at least size_bytes long, or shorter. Releases the memory beyond the new
  /// end. On an error the page is unchanged.
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] virtual Status resize_page(Page& page, std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device do not grow"};
  }
  /// Releases these bytes of a growing page. The gap must not be accessed until fill_gap().
  ///
  /// Errors: unsupported if pages only grow at their end.
  [[nodiscard]] virtual Status make_gap(const Page& page,
                                        std::int64_t offset_bytes,
                                        std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(offset_bytes);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device have no gaps"};
  }
  /// Provides memory for a gap, or for a part of it.
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] virtual Status fill_gap(const Page& page,
                                        std::int64_t offset_bytes,
                                        std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(offset_bytes);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device have no gaps"};
  }
  [[nodiscard]] virtual std::int64_t alignment_bytes() const noexcept = 0;
  /// Size of the page that a pool should allocate for each heap at the start; 0 = none. A GPU
  /// driver needs as long for one page as a step of a small model takes.
  [[nodiscard]] virtual std::int64_t early_page_bytes() const noexcept { return 0; }
};

}  // namespace hearth
