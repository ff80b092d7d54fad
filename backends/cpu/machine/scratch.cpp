#include "scratch.hpp"

#include <algorithm>

namespace hearth::cpu {

PageScratch::~PageScratch() {
  if (page_.data != nullptr) {
    pages_.free_page(page_);
  }
}

Result<std::byte*> PageScratch::take(std::int64_t size_bytes) {
  if (size_bytes > page_.size_bytes) {
    // Grows by half, so that slowly rising requests do not allocate a page each time.
    const std::int64_t wanted_bytes = std::max(size_bytes, page_.size_bytes + page_.size_bytes / 2);
    if (page_.data != nullptr) {
      pages_.free_page(page_);
      page_ = {};
    }
    HEARTH_TRY(page_, pages_.allocate_page(wanted_bytes));
  }
  return page_.data;
}

Result<std::byte*> Scratch::take_large(std::int64_t size_bytes) {
  release();
  Result<std::byte*> taken = memory_->take(size_bytes);
  is_taken_ = taken.has_value();
  return taken;
}

}  // namespace hearth::cpu
