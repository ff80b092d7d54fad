#include <hearth/memory/host_page_provider.hpp>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/machine_memory.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace hearth {
namespace {

constexpr std::int64_t kHugeMask = HostPageProvider::kHugePageBytes - 1;
// Larger than any machine's memory; keeps sums of sizes far from overflow.
constexpr std::int64_t kLargestPageBytes = std::int64_t{1} << 47;

Error refused(std::int64_t size_bytes, const std::string& why) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = "host pages: " + std::to_string(size_bytes) + " bytes: " + why};
}

void unmap(std::byte* begin, const std::byte* end) noexcept {
  if (begin != end) {
    ::munmap(begin, static_cast<std::size_t>(end - begin));
  }
}

// mmap aligns to 4 KiB only, so a huge page is cut out of a mapping that is one huge page longer.
std::byte* map_bytes(std::int64_t size_bytes, std::int64_t slack_bytes, int protection) {
  const auto length = static_cast<std::size_t>(size_bytes + slack_bytes);
  void* mapped = ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  auto* begin = static_cast<std::byte*>(mapped);
  if (slack_bytes == 0) {
    return begin;
  }
  const auto misalignment =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin)) & kHugeMask;
  std::byte* aligned = begin + ((slack_bytes - misalignment) & kHugeMask);
  unmap(begin, aligned);
  unmap(aligned + size_bytes, begin + length);
  return aligned;
}

Status usable(std::byte* begin, std::int64_t size_bytes) {
  if (::mprotect(begin, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE) != 0) {
    return refused(size_bytes, std::strerror(errno));
  }
  return {};
}

// A fresh mapping over the old one releases the memory and makes the bytes inaccessible.
Status decommit(std::byte* begin, std::int64_t size_bytes) {
  const auto length = static_cast<std::size_t>(size_bytes);
  void* lost = ::mmap(begin, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (lost == MAP_FAILED) {
    return refused(size_bytes, std::strerror(errno));
  }
  ::madvise(lost, length, MADV_HUGEPAGE);
  return {};
}

// Converts small pages into a huge page. A page that grows in steps consists of small pages. Once
// the huge page around `begin` is complete, MADV_COLLAPSE (Linux 6.1) converts it. Older kernels
// fail, which costs only speed.
void collapse(std::byte* data, std::int64_t begin, std::int64_t end) {
  constexpr int kCollapse = 25;
  const std::int64_t huge = begin & ~kHugeMask;
  if (huge != begin && huge + HostPageProvider::kHugePageBytes <= end) {
    ::madvise(data + huge, HostPageProvider::kHugePageBytes, kCollapse);
  }
}

}  // namespace

HostPageProvider::HostPageProvider(HostPageOptions options)
    : options_(options), machine_page_bytes_(::sysconf(_SC_PAGESIZE)) {}

Result<Page> HostPageProvider::allocate_page(std::int64_t size_bytes) {
  if (size_bytes < 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "host pages: the size is negative: " + std::to_string(size_bytes)};
  }
  const bool is_huge = size_bytes >= kHugePageBytes;
  const std::int64_t unit = is_huge ? kHugePageBytes : machine_page_bytes_;
  const std::int64_t rounded =
      size_bytes == 0 ? unit : (std::min(size_bytes, kLargestPageBytes) + unit - 1) / unit * unit;
  HEARTH_TRY_STATUS(admit(size_bytes, rounded));
  std::byte* data = map_bytes(rounded, is_huge ? kHugePageBytes : 0, PROT_READ | PROT_WRITE);
  if (data == nullptr) {
    return refused(size_bytes, std::strerror(errno));
  }
  if (is_huge) {
    // Advice only: it fails without transparent huge pages, which costs only speed.
    ::madvise(data, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
  }
  mapped_bytes_ += rounded;
  ++page_count_;
  return Page{.data = data, .size_bytes = rounded};
}

Status HostPageProvider::admit(std::int64_t size_bytes, std::int64_t rounded_bytes) {
  ++allocation_count_;
  if (options_.fail_allocation > 0 && allocation_count_ >= options_.fail_allocation &&
      allocation_count_ - options_.fail_allocation < options_.fail_count) {
    return refused(size_bytes,
                   "allocation " + std::to_string(allocation_count_) + " fails by request");
  }
  if (size_bytes > kLargestPageBytes) {
    return refused(size_bytes, "more than the address space");
  }
  if (rounded_bytes > options_.budget_bytes - mapped_bytes_) {
    return refused(size_bytes,
                   std::to_string(mapped_bytes_) + " of " + std::to_string(options_.budget_bytes) +
                       " bytes of the budget are mapped already");
  }
  return is_there(rounded_bytes) ? Status() : refused(size_bytes, "the machine has no such room");
}

bool HostPageProvider::is_there(std::int64_t rounded_bytes) {
  unseen_bytes_ += rounded_bytes;
  if (unseen_bytes_ < kLargeHostBytes) {
    return true;
  }
  if (!has_host_room(std::max(rounded_bytes, kLargeHostBytes))) {
    unseen_bytes_ = kLargeHostBytes;  // the next request reads it again
    return false;
  }
  unseen_bytes_ = 0;
  return true;
}

Result<Page> HostPageProvider::open_growing_page(std::int64_t reach_bytes) {
  if (reach_bytes <= 0 || reach_bytes > kLargestPageBytes) {
    return refused(reach_bytes, "no reach of a page");
  }
  const std::int64_t rounded = (reach_bytes + kHugeMask) & ~kHugeMask;
  std::byte* data = map_bytes(rounded, kHugePageBytes, PROT_NONE);
  if (data == nullptr) {
    return refused(reach_bytes, std::strerror(errno));
  }
  ::madvise(data, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
  reaches_.push_back({.data = data, .reach_bytes = rounded});
  ++page_count_;
  return Page{.data = data, .size_bytes = 0};
}

Status HostPageProvider::resize_page(Page& page, std::int64_t size_bytes) {
  const auto reach = find_reach(page);
  HEARTH_ASSERT(reach != reaches_.end() && size_bytes >= 0, "the page grows and is from here");
  const std::int64_t rounded = (std::min(size_bytes, kLargestPageBytes) + machine_page_bytes_ - 1) /
                               machine_page_bytes_ * machine_page_bytes_;
  const std::int64_t more_bytes = rounded - page.size_bytes;
  if (more_bytes > 0) {
    HEARTH_TRY_STATUS(admit(more_bytes, more_bytes));
    if (rounded > reach->reach_bytes) {
      return refused(more_bytes, "the page is as long as its addresses");
    }
    HEARTH_TRY_STATUS(usable(page.data + page.size_bytes, more_bytes));
    collapse(page.data, page.size_bytes, rounded);
  } else if (more_bytes < 0) {
    HEARTH_TRY_STATUS(decommit(page.data + rounded, -more_bytes));
  }
  page.size_bytes = rounded;
  mapped_bytes_ += more_bytes;
  return {};
}

std::vector<HostPageProvider::Reach>::iterator HostPageProvider::find_reach(
    const Page& page) noexcept {
  return std::find_if(
      reaches_.begin(), reaches_.end(), [&](const Reach& it) { return it.data == page.data; });
}

Status HostPageProvider::make_gap(const Page& page,
                                  std::int64_t offset_bytes,
                                  std::int64_t size_bytes) {
  const auto reach = find_reach(page);
  HEARTH_ASSERT(reach != reaches_.end() && offset_bytes + size_bytes <= page.size_bytes,
                "the gap lies in a page that grows");
  HEARTH_TRY_STATUS(decommit(page.data + offset_bytes, size_bytes));
  reach->gap_bytes += size_bytes;
  mapped_bytes_ -= size_bytes;
  return {};
}

Status HostPageProvider::fill_gap(const Page& page,
                                  std::int64_t offset_bytes,
                                  std::int64_t size_bytes) {
  const auto reach = find_reach(page);
  HEARTH_ASSERT(reach != reaches_.end() && size_bytes <= reach->gap_bytes,
                "what is filled is a gap of a page that grows");
  HEARTH_TRY_STATUS(admit(size_bytes, size_bytes));
  HEARTH_TRY_STATUS(usable(page.data + offset_bytes, size_bytes));
  reach->gap_bytes -= size_bytes;
  mapped_bytes_ += size_bytes;
  return {};
}

void HostPageProvider::free_page(Page page) noexcept {
  HEARTH_ASSERT(page.data != nullptr && page_count_ > 0, "freed page did not come from here");
  const auto reach = find_reach(page);
  if (reach != reaches_.end()) {
    mapped_bytes_ += reach->gap_bytes;
    unmap(reach->data, reach->data + reach->reach_bytes);
    reaches_.erase(reach);
  } else {
    unmap(page.data, page.data + page.size_bytes);
  }
  mapped_bytes_ -= page.size_bytes;
  --page_count_;
}

}  // namespace hearth
