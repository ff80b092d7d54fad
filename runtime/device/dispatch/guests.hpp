// Guests: tensors that were adopted before other lanes were done with them, with the uses of those
// lanes. The new home assumes that it is the only user. So a tensor with guests is never
// overwritten in place, and its slot is not freed before the guests are done. Private to runtime.
// Owned by the dispatch, touched by the token holder only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "lane_state.hpp"

namespace hearth {

class Guests {
 public:
  /// True almost always.
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Adds to the tensor's guests: a tensor may be adopted too early more than once.
  void add(DeferredDrop entry) {
    const auto found = std::ranges::find(entries_, entry.slot, &DeferredDrop::slot);
    if (found == entries_.end()) {
      entries_.push_back(std::move(entry));
    } else {
      found->uses.insert(found->uses.end(), entry.uses.begin(), entry.uses.end());
    }
  }
  [[nodiscard]] bool has(SlotId slot) const noexcept {
    return std::ranges::find(entries_, slot, &DeferredDrop::slot) != entries_.end();
  }
  /// Removes and returns the guests' uses of the tensor in this slot, which is about to end.
  [[nodiscard]] std::vector<DeferredDrop::Use> take(SlotId slot) noexcept {
    const auto found = std::ranges::find(entries_, slot, &DeferredDrop::slot);
    if (found == entries_.end()) {
      return {};
    }
    std::vector<DeferredDrop::Use> uses = std::move(found->uses);
    entries_.erase(found);
    return uses;
  }

 private:
  std::vector<DeferredDrop> entries_;
};

}  // namespace hearth
