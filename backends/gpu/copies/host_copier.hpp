// Copies host memory with several threads, if the copy is long enough to be worth waking them. One
// core moves fewer bytes than a card's link. Owned by the transfers of a device. Threads: any;
// concurrent calls share the threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace hearth::gpu {

class HostCopier final {
 public:
  /// `threads`: the most threads of a copy, the caller included; 1: the caller alone.
  explicit HostCopier(int threads);
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;
  ~HostCopier();

  /// Requires that the places do not overlap.
  void copy(std::byte* to, std::span<const std::byte> from) noexcept;

 private:
  struct Crew;
  std::unique_ptr<Crew> crew_;  ///< Null: the caller copies alone.
};

}  // namespace hearth::gpu
