#include <hearth/memory/host_page_provider.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace hearth {
namespace {

constexpr std::int64_t kHugeMask = HostPageProvider::kHugePageBytes - 1;

Error refused(std::int64_t size_bytes, const std::string& why) {
  return Error{.code = ErrorCode::out_of_memory,
               .text = "host pages: " + std::to_string(size_bytes) + " bytes: " + why};
}

void unmap(std::byte* begin, const std::byte* end) noexcept {
  if (begin != end) {
    ::munmap(begin, static_cast<std::size_t>(end - begin));
  }
}

// mmap aligns to 4 KiB only, so a huge-page piece is cut out of a mapping one huge page larger.
std::byte* map_bytes(std::int64_t size_bytes, std::int64_t slack_bytes) {
  const auto length = static_cast<std::size_t>(size_bytes + slack_bytes);
  void* mapped =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

}  // namespace

HostPageProvider::HostPageProvider(HostPageOptions options)
    : options_(options), machine_page_bytes_(::sysconf(_SC_PAGESIZE)) {}

Result<Page> HostPageProvider::allocate_page(std::int64_t size_bytes) {
  if (size_bytes < 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "host pages: the size is negative: " + std::to_string(size_bytes)};
  }
  ++allocation_count_;
  if (options_.fail_allocation > 0 && allocation_count_ >= options_.fail_allocation &&
      allocation_count_ - options_.fail_allocation < options_.fail_count) {
    return refused(size_bytes,
                   "allocation " + std::to_string(allocation_count_) + " fails by request");
  }
  const bool is_huge = size_bytes >= kHugePageBytes;
  const std::int64_t unit = is_huge ? kHugePageBytes : machine_page_bytes_;
  if (size_bytes > std::numeric_limits<std::int64_t>::max() - 2 * unit) {
    return refused(size_bytes, "more than the address space");
  }
  const std::int64_t rounded = size_bytes == 0 ? unit : (size_bytes + unit - 1) / unit * unit;
  if (rounded > options_.budget_bytes - mapped_bytes_) {
    return refused(size_bytes,
                   std::to_string(mapped_bytes_) + " of " + std::to_string(options_.budget_bytes) +
                       " bytes of the budget are mapped already");
  }
  std::byte* data = map_bytes(rounded, is_huge ? kHugePageBytes : 0);
  if (data == nullptr) {
    return refused(size_bytes, std::strerror(errno));
  }
  if (is_huge) {
    // Advice only: without transparent huge pages it fails and nothing is lost but speed.
    ::madvise(data, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
  }
  mapped_bytes_ += rounded;
  ++page_count_;
  return Page{.data = data, .size_bytes = rounded};
}

void HostPageProvider::free_page(Page page) noexcept {
  HEARTH_ASSERT(page.data != nullptr && page_count_ > 0, "freed page did not come from here");
  unmap(page.data, page.data + page.size_bytes);
  mapped_bytes_ -= page.size_bytes;
  --page_count_;
}

std::int64_t available_host_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen("/proc/meminfo", "r"),
                                                             &std::fclose};
  if (!file) {
    return 0;
  }
  char line[160];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    long long kibibytes = 0;
    if (std::sscanf(line, "MemAvailable: %lld kB", &kibibytes) == 1) {
      return std::int64_t{kibibytes} * 1024;
    }
  }
  return 0;
}

}  // namespace hearth
