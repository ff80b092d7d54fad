#include "left_behind.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hearth::gpu {
namespace {

bool is_same(const LeftBehind::Owner& a, const LeftBehind::Owner& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void LeftBehind::keep(Owner owner, std::unique_ptr<Thing> thing) {
  const hearth::detail::MutexLock lock(mutex_);
  kept_.push_back({std::move(owner), std::move(thing)});
}

// Driver queries and frees run without the lock.
std::int64_t LeftBehind::sweep(const Owner& owner) {
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
    if (each.thing->has_ended()) {
      freed_bytes += each.thing->size_bytes();
    } else {
      keep(std::move(each.owner), std::move(each.thing));
    }
  }
  return freed_bytes;
}

}  // namespace hearth::gpu
