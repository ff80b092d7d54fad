// Device memory for pools: one piece a page, and the lookup of a page by address. Threads: owner
// only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <hearth/memory/page_provider.hpp>

#include "gpu_device.hpp"

namespace hearth::gpu {

/// Bytes inside a page.
struct PageBytes {
  CopyPlace place;
  std::byte* host = nullptr;  ///< Host address of the bytes; null if they are not mapped.
};

class DevicePages final : public PageProvider {
 public:
  explicit DevicePages(std::shared_ptr<const GpuDevice> device) noexcept
      : device_(std::move(device)) {}
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;
  ~DevicePages() override = default;

  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override;
  void free_page(Page page) noexcept override;
  /// Frees no page from here on: the device may still touch them.
  void keep_all() noexcept { keeps_all_ = true; }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override { return kAlignmentBytes; }
  /// On a card with memory of its own: 1/2,048 of it, up to 64 MiB.
  [[nodiscard]] std::int64_t early_page_bytes() const noexcept override;

  /// The page that holds this address. Errors: internal, if there is none.
  [[nodiscard]] Result<PageBytes> find(const std::byte* address) const;
  [[nodiscard]] std::int64_t allocated_bytes() const noexcept { return allocated_bytes_; }

 private:
  static constexpr std::int64_t kAlignmentBytes = 256;

  std::shared_ptr<const GpuDevice> device_;
  std::map<std::uint64_t, std::unique_ptr<MemoryPiece>> pages_;  ///< By address.
  std::int64_t allocated_bytes_ = 0;
  bool keeps_all_ = false;
};

}  // namespace hearth::gpu
