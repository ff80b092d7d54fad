// Scratch memory of one CPU device as its kernels see it: a small piece that is always there, and
// whatever is larger from where the device says. Taken at the start of a kernel, given back at its
// end. Threads: owner only; loop bodies get their share from the kernel that took it.
#pragma once

#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// For a backend that is driven without a device: one page, which grows to the largest request and
/// stays.
class PageScratch final : public ScratchMemory {
 public:
  /// Lifetime: the provider outlives it.
  explicit PageScratch(PageProvider& pages) noexcept : pages_(pages) {}
  PageScratch(const PageScratch&) = delete;
  PageScratch& operator=(const PageScratch&) = delete;
  ~PageScratch() override;

  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void give_back() noexcept override {}

 private:
  PageProvider& pages_;
  Page page_;
};

class Scratch {
 public:
  /// Kernels that need no more than this cost the device's memory nothing.
  static constexpr std::int64_t kSmallBytes = std::int64_t{16} << 10;

  explicit Scratch(PageProvider& pages) noexcept : own_(pages) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() = default;

  void use(ScratchMemory& memory) noexcept { memory_ = &memory; }
  /// 64-byte aligned, uninitialised, valid until the next take_all() or give_back(). Errors:
  /// out_of_memory.
  [[nodiscard]] Result<std::byte*> take_all(std::int64_t size_bytes) {
    return size_bytes <= kSmallBytes ? Result<std::byte*>(small_.data()) : take_large(size_bytes);
  }
  /// At the end of a kernel, whether it took any or not.
  void give_back() noexcept {
    if (is_taken_) {
      is_taken_ = false;
      memory_->give_back();
    }
  }

 private:
  [[nodiscard]] Result<std::byte*> take_large(std::int64_t size_bytes);

  PageScratch own_;
  ScratchMemory* memory_ = &own_;
  bool is_taken_ = false;
  alignas(64) std::array<std::byte, kSmallBytes> small_;
};

}  // namespace hearth::cpu
