// Pages of host memory, straight from the kernel by mmap: what the host backends give to their
// pools. Owned by a backend; driven by its device's actor: no locks. Invariants: (1) every page
// starts on alignment_bytes() and is zero when fresh; (2) mapped_bytes() counts exactly the pages
// that are out, and never exceeds the budget.
#pragma once

#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth {

struct HostPageOptions {
  /// All pages together stay at or under this.
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  /// Fault injection for tests: the n-th allocate_page() fails, counted from 1, and fail_count of
  /// them in a row; 0 = none.
  std::int64_t fail_allocation = 0;
  std::int64_t fail_count = 1;
};

class HostPageProvider final : public PageProvider {
 public:
  /// The huge pages of x86-64: pieces of at least this size start on a multiple of it and ask for
  /// huge pages.
  static constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

  explicit HostPageProvider(HostPageOptions options = {});

  /// Rounds the size up to whole pages of the machine, from kHugePageBytes on to whole huge pages.
  /// 0 bytes gives the smallest page.
  ///
  /// Errors: invalid_argument for a negative size; out_of_memory over the budget or when the kernel
  /// refuses. Threads: owner only. Cost: two or three system calls; the kernel clears the bytes
  /// when they are first written.
  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override;
  void free_page(Page page) noexcept override;
  /// Addresses without memory; the kernel gives huge pages where the page has grown over them.
  [[nodiscard]] Result<Page> open_growing_page(std::int64_t reach_bytes) override;
  /// Rounds up to whole pages of the machine. Counts as an allocation when the page grows.
  ///
  /// Cost: one or two system calls.
  [[nodiscard]] Status resize_page(Page& page, std::int64_t size_bytes) override;
  /// Cost: one or two system calls, and the kernel clears what is filled when it is first written.
  [[nodiscard]] Status make_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override;
  /// Counts as an allocation.
  [[nodiscard]] Status fill_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override;
  /// 64, a cache line and an AVX-512 vector. Pages themselves start on at least 4096.
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
  /// The error of an allocation that is planned to fail or has to.
  [[nodiscard]] Status admit(std::int64_t size_bytes, std::int64_t rounded_bytes);
  /// Whether the machine has them; looks once in kLargeHostBytes.
  [[nodiscard]] bool is_there(std::int64_t rounded_bytes);

  HostPageOptions options_;
  std::int64_t machine_page_bytes_;
  std::int64_t mapped_bytes_ = 0;
  std::int64_t page_count_ = 0;
  std::int64_t allocation_count_ = 0;
  std::int64_t unseen_bytes_ = 0;  // asked for since the last look at the machine
  std::vector<Reach> reaches_;     // of the growing pages
};

}  // namespace hearth
