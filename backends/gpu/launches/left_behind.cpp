#include "left_behind.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hearth::gpu {
namespace {

bool is_same(const AbandonedObjects::Owner& a, const AbandonedObjects::Owner& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void AbandonedObjects::keep(Owner owner, std::unique_ptr<Object> object) {
  const hearth::detail::MutexLock lock(mutex_);
  kept_.push_back({std::move(owner), std::move(object)});
}

// Driver queries and frees run without the lock.
std::int64_t AbandonedObjects::sweep(const Owner& owner) {
  std::vector<Kept> own;
  {
    const hearth::detail::MutexLock lock(mutex_);
    const auto first = std::partition(
        kept_.begin(), kept_.end(), [&](const Kept& each) { return !is_same(each.owner, owner); });
    std::move(first, kept_.end(), std::back_inserter(own));
    kept_.erase(first, kept_.end());
  }
  std::int64_t freed_bytes = 0;
  for (Kept& each : own) {
    if (each.object->has_ended()) {
      freed_bytes += each.object->size_bytes();
    } else {
      keep(std::move(each.owner), std::move(each.object));
    }
  }
  return freed_bytes;
}

}  // namespace hearth::gpu
