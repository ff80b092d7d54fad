#include <hearth/autotune/tune_queue.hpp>

#include <algorithm>
#include <cstring>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::detail {
namespace {

// Keys of one weight come in the order of their bytes, so that equal programs tune in one order.
bool is_before(const TuneKey& a, const TuneKey& b) noexcept {
  return std::memcmp(&a, &b, sizeof(TuneKey)) < 0;
}

}  // namespace

TuneQueue::TuneQueue(std::size_t most_keys) : most_keys_(most_keys) {
  HEARTH_ASSERT(most_keys > 0, "a queue has room for one key");
  waiting_.reserve(most_keys);
}

void TuneQueue::want(const TuneKey& key, RunTime predicted) {
  const auto found = waiting_.find(key);
  if (found != waiting_.end()) {
    found->second.weight += predicted;
    ++found->second.calls;
  } else if (waiting_.size() < most_keys_) {
    waiting_.emplace(key, State{.weight = predicted, .calls = 1});
  } else {
    replace_lightest(key, {.weight = predicted, .calls = 1});
  }
}

void TuneQueue::replace_lightest(const TuneKey& key, State state) {
  const auto lightest =
      std::ranges::min_element(waiting_, {}, [](const auto& each) { return each.second.weight; });
  if (lightest != waiting_.end()) {
    state.weight += lightest->second.weight;
    waiting_.erase(lightest);
  }
  waiting_.emplace(key, state);
}

std::optional<TuneKey> TuneQueue::next(TimePoint now) const {
  const std::pair<const TuneKey, State>* best = nullptr;
  for (const auto& each : waiting_) {
    if (each.second.not_before > now) {
      continue;
    }
    if (best == nullptr || each.second.weight > best->second.weight ||
        (each.second.weight == best->second.weight && is_before(each.first, best->first))) {
      best = &each;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(best->first);
}

TimePoint TuneQueue::ready_at() const noexcept {
  TimePoint earliest = TimePoint::max();
  for (const auto& each : waiting_) {
    earliest = std::min(earliest, each.second.not_before);
  }
  return earliest;
}

void TuneQueue::postpone(const TuneKey& key, TimePoint time) {
  const auto found = waiting_.find(key);
  if (found != waiting_.end()) {
    found->second.not_before = time;
  }
}

void TuneQueue::remove(const TuneKey& key) {
  waiting_.erase(key);
}

std::vector<WantedKey> TuneQueue::list() const {
  std::vector<WantedKey> keys;
  keys.reserve(waiting_.size());
  for (const auto& [key, state] : waiting_) {
    keys.push_back({.key = key, .label = {}, .weight = state.weight, .calls = state.calls});
  }
  std::ranges::sort(keys, [](const WantedKey& a, const WantedKey& b) {
    return a.weight != b.weight ? a.weight > b.weight : is_before(a.key, b.key);
  });
  return keys;
}

}  // namespace hearth::detail
