// Pages of host memory, mapped with mmap, for the pools of host backends.
// Owned by a backend, driven by its device's actor: no locks.
// Invariants: (1) every page starts on alignment_bytes() and is zero when fresh; (2) mapped_bytes()
// counts exactly the pages not yet freed, and never exceeds the budget.
#pragma once

#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth {

struct HostPageOptions {
  /// Limit of all pages together.
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  /// Fault injection for tests: the n-th allocation fails, counted from 1, and fail_count of them
  /// in a row. 0 disables it.
  std::int64_t fail_allocation = 0;
  std::int64_t fail_count = 1;
};

class HostPageProvider final : public PageProvider {
 public:
  /// Huge page of x86-64. A page of at least this size starts on a multiple of it and is advised to
  /// use huge pages.
  static constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

  explicit HostPageProvider(HostPageOptions options = {});

  /// Allocates a page. Rounds the size up to whole pages of the machine, or to whole huge pages
  /// from kHugePageBytes on. A size of 0 gives the smallest page.
  ///
  /// Errors: invalid_argument for a negative size; out_of_memory over the budget or when the kernel
  /// refuses.
  /// Threads: owner only.
  /// Cost: two or three system calls; the kernel clears the bytes when they are first written.
  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override;
  void free_page(Page page) noexcept override;
  /// Reserves addresses without memory. The kernel uses huge pages where the page has grown over
  /// them.
  [[nodiscard]] Result<Page> open_growing_page(std::int64_t reach_bytes) override;
  /// Rounds the size up to whole pages of the machine. Growth counts as an allocation.
  ///
  /// Cost: one or two system calls.
  [[nodiscard]] Status resize_page(Page& page, std::int64_t size_bytes) override;
  /// Cost: one or two system calls. The kernel clears refilled bytes when they are first written.
  [[nodiscard]] Status make_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override;
  /// Counts as an allocation.
  [[nodiscard]] Status fill_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override;
  /// Returns 64: a cache line and an AVX-512 vector. Pages themselves start on at least 4096.
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override { return 64; }

  [[nodiscard]] std::int64_t mapped_bytes() const noexcept { return mapped_bytes_; }
  [[nodiscard]] std::int64_t page_count() const noexcept { return page_count_; }

 private:
  struct Reach {
    std::byte* data = nullptr;
    std::int64_t reach_bytes = 0;
    std::int64_t gap_bytes = 0;
  };
  [[nodiscard]] std::vector<Reach>::iterator find_reach(const Page& page) noexcept;
  /// Returns the error of an allocation that is planned to fail or exceeds a limit.
  [[nodiscard]] Status admit(std::int64_t size_bytes, std::int64_t rounded_bytes);
  /// Returns whether the machine has the memory. Reads it once every kLargeHostBytes.
  [[nodiscard]] bool is_there(std::int64_t rounded_bytes);

  HostPageOptions options_;
  std::int64_t machine_page_bytes_;
  std::int64_t mapped_bytes_ = 0;
  std::int64_t page_count_ = 0;
  std::int64_t allocation_count_ = 0;
  std::int64_t unseen_bytes_ = 0;  // requested since the machine's memory was last read
  std::vector<Reach> reaches_;     // of the growing pages
};

}  // namespace hearth
