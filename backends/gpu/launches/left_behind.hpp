// Abandoned objects that a queue may still touch, because it did not drain in time. They are kept
// until it drains, or for the rest of the process. Owned by the instance, which is never destroyed.
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

namespace hearth::gpu {

class AbandonedObjects final {
 public:
  class Object {
   public:
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() = default;
    /// True if the device no longer touches the object. Does not wait.
    [[nodiscard]] virtual bool has_ended() noexcept = 0;
    /// Device memory that the object holds.
    [[nodiscard]] virtual std::int64_t size_bytes() const noexcept = 0;
  };
  /// Lifetime of the executor whose threads the object uses; empty without one.
  using Owner = std::weak_ptr<const void>;

  void keep(Owner owner, std::unique_ptr<Object> object) HEARTH_EXCLUDES(mutex_);
  /// Frees the objects of this owner that have ended, and returns their bytes. The owner lives; the
  /// threads of another owner may be gone.
  std::int64_t sweep(const Owner& owner) HEARTH_EXCLUDES(mutex_);

 private:
  struct Kept {
    Owner owner;
    std::unique_ptr<Object> object;
  };

  hearth::detail::Mutex mutex_;
  std::vector<Kept> kept_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::gpu
