// Scratch memory of the kernels of one CPU device: a small piece that is always present; larger
// requests go to the device's ScratchMemory. Taken at the start of a kernel, released at its end.
// Threads: owner only; loop bodies receive their share from the kernel.
#pragma once

#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Scratch memory of a backend without a device: one page, which grows to the largest request and
/// stays.
class PageScratch final : public ScratchMemory {
 public:
  /// Lifetime: the provider outlives it.
  explicit PageScratch(PageProvider& pages) noexcept : pages_(pages) {}
  PageScratch(const PageScratch&) = delete;
  PageScratch& operator=(const PageScratch&) = delete;
  ~PageScratch() override;

  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override;
  void release() noexcept override {}

 private:
  PageProvider& pages_;
  Page page_;
};

class Scratch {
 public:
  /// Requests up to this size take no device memory.
  static constexpr std::int64_t kSmallBytes = std::int64_t{16} << 10;

  explicit Scratch(PageProvider& pages) noexcept : own_(pages) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() = default;

  void use(ScratchMemory& memory) noexcept { memory_ = &memory; }
  /// Takes memory, aligned to 64 and uninitialised, valid until the next take_all() or release().
  /// Errors: out_of_memory.
  [[nodiscard]] Result<std::byte*> take_all(std::int64_t size_bytes) {
    return size_bytes <= kSmallBytes ? Result<std::byte*>(small_.data()) : take_large(size_bytes);
  }
  /// Releases the memory at the end of a kernel, even if it took none.
  void release() noexcept {
    if (is_taken_) {
      is_taken_ = false;
      memory_->release();
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
