// What a queue that did not come to rest in time may still touch: kept until it has, or for the
// rest of the process. Owned by the instance, which stays. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

namespace hearth::vulkan {

class LeftBehind final {
 public:
  class Thing {
   public:
    Thing() = default;
    Thing(const Thing&) = delete;
    Thing& operator=(const Thing&) = delete;
    virtual ~Thing() = default;
    /// Whether nothing touches it any more. Does not wait.
    [[nodiscard]] virtual bool has_ended() noexcept = 0;
    /// Of the device's memory, which goes with it.
    [[nodiscard]] virtual std::int64_t size_bytes() const noexcept = 0;
  };
  /// The life of the executor whose threads it has; empty where it has none.
  using Owner = std::weak_ptr<const void>;

  void keep(Owner owner, std::unique_ptr<Thing> thing) HEARTH_EXCLUDES(mutex_);
  /// Frees what has ended of this owner, who lives: another's threads may be gone. How many bytes
  /// that were.
  std::int64_t sweep(const Owner& owner) HEARTH_EXCLUDES(mutex_);

 private:
  struct Kept {
    Owner owner;
    std::unique_ptr<Thing> thing;
  };

  hearth::detail::Mutex mutex_;
  std::vector<Kept> kept_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::vulkan
