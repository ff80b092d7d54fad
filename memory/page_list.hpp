// The pages of a strategy that has one for each block, by number.
// Owned by its strategy: no locks.
// Invariant: a number is in use from add() to free(), and the list owns its page.
#pragma once

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>

#include <cstdint>
#include <vector>

namespace hearth::detail {

class PageList final {
 public:
  struct Entry {
    Page page;
    PoolKind kind = PoolKind::temporary;
    std::int64_t size_bytes = 0;    ///< Size of the block.
    std::uint64_t ready_after = 0;  ///< Home value, see Block.
  };

  /// Lifetime: the provider outlives the list.
  explicit PageList(PageProvider& provider) noexcept : provider_(provider) {}
  PageList(const PageList&) = delete;
  PageList& operator=(const PageList&) = delete;
  /// Returns all pages to the provider.
  ~PageList() {
    for (const Entry& entry : entries_) {
      if (entry.page.data != nullptr) {
        provider_.free_page(entry.page);
      }
    }
  }

  [[nodiscard]] Entry& operator[](std::uint32_t index) noexcept { return entries_[index]; }
  [[nodiscard]] const Entry& operator[](std::uint32_t index) const noexcept {
    return entries_[index];
  }
  /// Returns the entry's number.
  std::uint32_t add(const Entry& entry) {
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const std::uint32_t index = unused_.back();
    unused_.pop_back();
    entries_[index] = entry;
    return index;
  }
  /// Returns the page to the provider.
  void free(std::uint32_t index) {
    provider_.free_page(entries_[index].page);
    entries_[index] = {};
    unused_.push_back(index);
  }

 private:
  PageProvider& provider_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_;  // entries without a page
};

}  // namespace hearth::detail
