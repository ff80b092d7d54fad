// A page provider that returns addresses without memory behind them and counts its calls.
#pragma once

#include <hearth/memory/page_provider.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

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
    const std::int64_t bytes = page.size_bytes - std::exchange(gap_bytes_[page.data], 0);
    out_bytes -= bytes;
    room_bytes += bytes;
  }
  [[nodiscard]] Result<Page> open_growing_page(std::int64_t reach_bytes) override {
    if (!grows) {
      return Error{.code = ErrorCode::unsupported, .text = "counting pages: they keep their size"};
    }
    next_address_ += static_cast<std::uintptr_t>(reach_bytes) + kGapBytes;
    auto* data =
        reinterpret_cast<std::byte*>(next_address_ - static_cast<std::uintptr_t>(reach_bytes));
    reach_bytes_[data] = reach_bytes;
    return Page{.data = data, .size_bytes = 0};
  }
  [[nodiscard]] Status resize_page(Page& page, std::int64_t size_bytes) override {
    const std::int64_t rounded = (size_bytes + grain_bytes - 1) / grain_bytes * grain_bytes;
    const std::int64_t more_bytes = rounded - page.size_bytes;
    if (more_bytes > room_bytes || rounded > reach_bytes_.at(page.data)) {
      return Error{.code = ErrorCode::out_of_memory, .text = "counting pages: no room"};
    }
    allocate_count += more_bytes > 0 ? 1 : 0;
    out_bytes += more_bytes;
    room_bytes -= more_bytes;
    page.size_bytes = rounded;
    return {};
  }
  [[nodiscard]] Status make_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override {
    if (!has_gaps || offset_bytes % kPageGapBytes != 0 || size_bytes % kPageGapBytes != 0 ||
        offset_bytes + size_bytes > page.size_bytes) {
      return Error{.code = ErrorCode::unsupported, .text = "counting pages: no gap"};
    }
    gap_bytes_[page.data] += size_bytes;
    out_bytes -= size_bytes;
    room_bytes += size_bytes;
    return {};
  }
  [[nodiscard]] Status fill_gap(const Page& page,
                                std::int64_t /*offset_bytes*/,
                                std::int64_t size_bytes) override {
    if (size_bytes > room_bytes) {
      return Error{.code = ErrorCode::out_of_memory, .text = "counting pages: no room"};
    }
    ++allocate_count;
    gap_bytes_[page.data] -= size_bytes;
    out_bytes += size_bytes;
    room_bytes -= size_bytes;
    return {};
  }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override { return 256; }
  [[nodiscard]] std::int64_t early_page_bytes() const noexcept override { return early_bytes; }

  std::int64_t early_bytes = 0;
  std::int64_t grain_bytes = 4096;  // sizes of growing pages are multiples of it
  bool grows = false;               // whether open pages can grow
  bool has_gaps = false;            // whether pages can lose bytes in the middle
  std::int64_t room_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t out_bytes = 0;
  int allocate_count = 0;
  int free_count = 0;

 private:
  std::map<const std::byte*, std::int64_t> reach_bytes_;
  std::map<const std::byte*, std::int64_t> gap_bytes_;
  static constexpr std::uintptr_t kGapBytes = 1U << 20;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 40;
};

}  // namespace hearth::test
