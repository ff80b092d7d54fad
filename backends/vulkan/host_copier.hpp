// Copies from one place of the host's memory to another by several threads, where there are bytes
// enough to be worth waking them: one core moves fewer than a card's link does. Owned by the
// transfers of a device. Threads: any; calls at the same time share the threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace hearth::vulkan {

class HostCopier final {
 public:
  /// `threads`: how many copy at most, the caller among them; 1: the caller alone.
  explicit HostCopier(int threads);
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;
  ~HostCopier();

  /// The places do not overlap.
  void copy(std::byte* to, std::span<const std::byte> from) noexcept;

 private:
  struct Crew;
  std::unique_ptr<Crew> crew_;  ///< Null: the caller alone.
};

}  // namespace hearth::vulkan
