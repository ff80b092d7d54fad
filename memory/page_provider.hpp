// A page provider gives a pool its raw memory: big pieces, seldom. Each backend has one.
// Threads: owner only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

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
  [[nodiscard]] virtual std::int64_t alignment_bytes() const noexcept = 0;
};

}  // namespace hearth
