// A page provider that hands out addresses without memory behind them, and counts: for tests of who
// calls it when.
#pragma once

#include <hearth/memory/page_provider.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace hearth::test {

class CountingPages final : public PageProvider {
 public:
  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override {
    if (size_bytes > room_bytes) {
      return Error{.code = ErrorCode::out_of_memory, .text = "counting pages: no room"};
    }
    ++allocate_count;
    out_bytes += size_bytes;
    room_bytes -= size_bytes;
    next_address_ += static_cast<std::uintptr_t>(size_bytes) + kGapBytes;
    return Page{.data = reinterpret_cast<std::byte*>(next_address_ -
                                                     static_cast<std::uintptr_t>(size_bytes)),
                .size_bytes = size_bytes};
  }
  void free_page(Page page) noexcept override {
    ++free_count;
    out_bytes -= page.size_bytes;
    room_bytes += page.size_bytes;
  }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override { return 256; }

  std::int64_t room_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t out_bytes = 0;
  int allocate_count = 0;
  int free_count = 0;

 private:
  static constexpr std::uintptr_t kGapBytes = 1U << 20;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 40;
};

}  // namespace hearth::test
