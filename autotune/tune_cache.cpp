#include <hearth/autotune/tune_cache.hpp>

#include <limits>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::detail {

TuneCache::TuneCache(std::size_t most_entries) : most_entries_(most_entries) {
  HEARTH_ASSERT(most_entries > 0, "a cache has room for one entry");
}

void TuneCache::load(TuneEntry entry) {
  const auto found = places_.find(entry.key);
  if (found == places_.end() || !found->second->is_changed) {
    place(std::move(entry));
  }
}

void TuneCache::put(TuneEntry entry) {
  place(std::move(entry)).is_changed = true;
}

TuneCache::Place& TuneCache::place(TuneEntry entry) {
  const auto found = places_.find(entry.key);
  if (found != places_.end()) {
    found->second->entry = std::move(entry);
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front();
  }
  if (places_.size() == most_entries_) {
    Place& last = entries_.back();
    const auto at = places_.find(last.entry.key);
    if (last.is_changed) {
      departed_.push_back(std::move(last.entry));
    }
    places_.erase(at);
    entries_.pop_back();
  }
  entries_.push_front({.entry = std::move(entry)});
  places_.emplace(entries_.front().entry.key, entries_.begin());
  return entries_.front();
}

const TuneEntry* TuneCache::find(const TuneKey& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front().entry;
}

const TuneEntry* TuneCache::neighbour(const TuneKey& key) const {
  const TuneEntry* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Place& each : entries_) {
    if (each.entry.ladder.empty() || each.entry.key == key) {
      continue;
    }
    const std::optional<double> distance = size_distance(each.entry.key, key);
    if (distance.has_value() && *distance < least) {
      least = *distance;
      nearest = &each.entry;
    }
  }
  return nearest;
}

std::vector<TuneEntry> TuneCache::take_changed() {
  std::vector<TuneEntry> changed = std::exchange(departed_, {});
  for (Place& each : entries_) {
    if (each.is_changed) {
      each.is_changed = false;
      changed.push_back(each.entry);
    }
  }
  return changed;
}

}  // namespace hearth::detail
