#include <hearth/backends/sim/sim_machine.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <utility>

namespace hearth::sim {

using std::chrono::nanoseconds;

SimMachine::SimMachine(const SimMachineOptions& options)
    : options_(options),
      random_(options.reorder_seed),
      is_busy_(static_cast<std::size_t>(options.queues + options.copy_engines), false) {
  HEARTH_ASSERT(options.queues > 0, "a sim device needs a queue");
}

std::uint64_t SimMachine::submit(SimCommand command) {
  entries_.push_back({.number = ++submitted_, .command = std::move(command)});
  begin_what_can();
  return submitted_;
}

void SimMachine::advance(nanoseconds duration) {
  const nanoseconds target = now_ + duration;
  while (run_next(target)) {
  }
  now_ = target;
}

bool SimMachine::run_next(nanoseconds limit) {
  Entry* const first = next_end();
  if (first == nullptr || first->end > limit) {
    return false;
  }
  now_ = std::max(now_, first->end);
  end(*first);
  return true;
}

bool SimMachine::has_ended(std::uint64_t number) const {
  const auto found = std::ranges::lower_bound(entries_, number, {}, &Entry::number);
  return number <= submitted_ && (found == entries_.end() || found->number != number);
}

bool SimMachine::can_begin(Entry& entry) {
  std::vector<std::uint64_t>& after = entry.command.after;
  while (!after.empty() && has_ended(after.back())) {
    after.pop_back();
  }
  return after.empty();
}

SimMachine::Entry* SimMachine::next_for(int engine) {
  std::vector<Entry*> candidates;
  for (Entry& entry : entries_) {
    if (entry.command.engine != engine) {
      continue;
    }
    if (can_begin(entry)) {
      candidates.push_back(&entry);
    }
    if (options_.reorder_seed == 0) {
      break;  // nobody overtakes the first
    }
  }
  return candidates.empty() ? nullptr : candidates[next_random() % candidates.size()];
}

void SimMachine::begin_what_can() {
  for (std::size_t engine = 0; engine < is_busy_.size(); ++engine) {
    if (is_busy_[engine]) {
      continue;
    }
    if (Entry* const next = next_for(static_cast<int>(engine))) {
      next->has_begun = true;
      next->end = next->command.hangs ? nanoseconds::max() : now_ + next->command.cost;
      is_busy_[engine] = true;
    }
  }
}

SimMachine::Entry* SimMachine::next_end() {
  Entry* first = nullptr;
  for (Entry& entry : entries_) {
    if (entry.has_begun && !entry.command.hangs && (first == nullptr || entry.end < first->end)) {
      first = &entry;
    }
  }
  return first;
}

void SimMachine::end(Entry& entry) {
  is_busy_[static_cast<std::size_t>(entry.command.engine)] = false;
  UniqueFunction<void()> effect = std::move(entry.command.effect);
  const std::uint64_t number = entry.number;
  std::erase_if(entries_, [number](const Entry& each) { return each.number == number; });
  if (effect) {
    effect();
  }
  begin_what_can();
}

int SimMachine::least_busy_queue() const {
  int best = 0;
  std::ptrdiff_t fewest =
      std::ranges::count(entries_, 0, [](const Entry& entry) { return entry.command.engine; });
  for (int queue = 1; queue < options_.queues; ++queue) {
    const std::ptrdiff_t waiting = std::ranges::count(
        entries_, queue, [](const Entry& entry) { return entry.command.engine; });
    if (waiting < fewest) {
      best = queue;
      fewest = waiting;
    }
  }
  return best;
}

std::uint64_t SimMachine::next_random() noexcept {  // splitmix64
  std::uint64_t bits = (random_ += 0x9e3779b97f4a7c15U);
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

}  // namespace hearth::sim
