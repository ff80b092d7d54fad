// A page provider gives a pool its raw memory: big pieces, seldom. Each backend has one.
// Where addresses cost nothing (a host), a page can also grow in place: then all of a heap lies
// together, and bytes that no block needs can go back from its middle too, so that the pool holds
// hardly more than its blocks.
// Threads: owner only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Gaps of a growing page begin and end on multiples of this, counted from the page's beginning.
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

  /// At least size_bytes, aligned to alignment_bytes(). Errors: out_of_memory.
  [[nodiscard]] virtual Result<Page> allocate_page(std::int64_t size_bytes) = 0;
  virtual void free_page(Page page) noexcept = 0;
  /// An empty page that resize_page() lengthens, up to reach_bytes. Errors: unsupported where
  /// pages keep their size; out_of_memory when there are no more addresses.
  [[nodiscard]] virtual Result<Page> open_growing_page(std::int64_t reach_bytes) {
    static_cast<void>(reach_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device do not grow"};
  }
  /// Makes a growing page at least size_bytes long, or shorter: what it loses is given back. On an
  /// error the page is as it was. Errors: out_of_memory.
  [[nodiscard]] virtual Status resize_page(Page& page, std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device do not grow"};
  }
  /// Gives these bytes of a growing page back: a gap, which nobody touches until fill_gap().
  /// Errors: unsupported where pages grow at their end only.
  [[nodiscard]] virtual Status make_gap(const Page& page,
                                        std::int64_t offset_bytes,
                                        std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(offset_bytes);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device have no gaps"};
  }
  /// Memory for a gap, or for a part of it. Errors: out_of_memory.
  [[nodiscard]] virtual Status fill_gap(const Page& page,
                                        std::int64_t offset_bytes,
                                        std::int64_t size_bytes) {
    static_cast<void>(page);
    static_cast<void>(offset_bytes);
    static_cast<void>(size_bytes);
    return Error{.code = ErrorCode::unsupported, .text = "pages of this device have no gaps"};
  }
  [[nodiscard]] virtual std::int64_t alignment_bytes() const noexcept = 0;
  /// Pages of this size are worth having before anybody asks for them, since a driver takes as long
  /// for one as a step of a small model takes. 0: they are not.
  [[nodiscard]] virtual std::int64_t early_page_bytes() const noexcept { return 0; }
};

}  // namespace hearth
