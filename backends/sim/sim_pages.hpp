// Host pages of a simulated device. They notify shadow memory of each page that is added, resized
// or removed. Private to the sims. Threads: as PageProvider.
#pragma once

#include <functional>
#include <utility>

#include <hearth/backends/sim/shadow_memory.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/runtime/base/fault_plan.hpp>

namespace hearth::sim {

/// Callbacks that shadow memory receives. All are empty if there is no shadow.
struct PageWatch {
  std::function<void(ByteRange page)> added = {};
  std::function<void(ByteRange before, std::int64_t size_bytes)> resized = {};
  std::function<void(ByteRange page)> removed = {};  ///< Called before its bytes are freed.
};

class SimPages final : public PageProvider {
 public:
  SimPages(std::int64_t budget_bytes, const FaultPlan& faults, PageWatch watch)
      : pages_({.budget_bytes = budget_bytes,
                .fail_allocation = faults.failing_allocation,
                .fail_count = faults.failing_allocation_count}),
        watch_(std::move(watch)) {}

  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override {
    Result<Page> page = pages_.allocate_page(size_bytes);
    if (page.has_value() && watch_.added) {
      watch_.added({page.value().data, page.value().size_bytes});
    }
    return page;
  }
  void free_page(Page page) noexcept override {
    if (watch_.removed) {
      watch_.removed({page.data, page.size_bytes});
    }
    pages_.free_page(page);
  }
  [[nodiscard]] Result<Page> open_growing_page(std::int64_t reach_bytes) override {
    Result<Page> page = pages_.open_growing_page(reach_bytes);
    if (page.has_value() && watch_.added) {
      watch_.added({page.value().data, 0});
    }
    return page;
  }
  [[nodiscard]] Status resize_page(Page& page, std::int64_t size_bytes) override {
    const Page before = page;
    Status status = pages_.resize_page(page, size_bytes);
    if (status.has_value() && watch_.resized) {
      watch_.resized({before.data, before.size_bytes}, page.size_bytes);
    }
    return status;
  }
  // Shadow memory knows whole pages only, so it rules out gaps.
  [[nodiscard]] Status make_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override {
    return watch_.added ? PageProvider::make_gap(page, offset_bytes, size_bytes)
                        : pages_.make_gap(page, offset_bytes, size_bytes);
  }
  [[nodiscard]] Status fill_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override {
    return pages_.fill_gap(page, offset_bytes, size_bytes);
  }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override {
    return pages_.alignment_bytes();
  }

 private:
  HostPageProvider pages_;
  PageWatch watch_;
};

}  // namespace hearth::sim
