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

const SimMachine::Entry* SimMachine::find(std::uint64_t number) const {
  const auto found = std::ranges::lower_bound(entries_, number, {}, &Entry::number);
  return found != entries_.end() && found->number == number ? &*found : nullptr;
}

std::uint64_t SimMachine::submit(SimCommand command) {
  Entry entry;
  entry.number = ++submitted_;
  const auto wait_for = [&entry](const Entry& earlier) {
    entry.ancestors.insert(earlier.number);
    entry.ancestors.insert(earlier.ancestors.begin(), earlier.ancestors.end());
    entry.is_stuck = entry.is_stuck || earlier.is_stuck;
  };
  entry.is_stuck = command.hangs;
  for (const std::uint64_t number : command.after) {
    if (const Entry* earlier = find(number)) {
      wait_for(*earlier);
    }
  }
  if (options_.reorder_seed == 0) {
    for (const Entry& earlier : entries_) {
      if (earlier.command.engine == command.engine) {
        wait_for(earlier);
      }
    }
  }
  entry.command = std::move(command);
  entries_.push_back(std::move(entry));
  begin_what_can();
  return submitted_;
}

void SimMachine::advance(nanoseconds duration) {
  const nanoseconds target = now_ + duration;
  while (run_next(target)) {
  }
  now_ = target;
}

bool SimMachine::run_until(std::uint64_t number, nanoseconds limit) {
  while (!has_ended(number)) {
    if (is_stuck(number) || !run_next(limit)) {
      return false;
    }
  }
  return true;
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
  return number <= submitted_ && find(number) == nullptr;
}

bool SimMachine::is_ordered(std::uint64_t earlier, std::uint64_t later) const {
  if (has_ended(earlier)) {
    return true;
  }
  const Entry* const entry = find(later);
  return entry != nullptr && entry->ancestors.contains(earlier);
}

bool SimMachine::is_stuck(std::uint64_t number) const {
  const Entry* const entry = find(number);
  if (entry == nullptr || entry->is_stuck) {
    return entry != nullptr;
  }
  // Whatever the order, what has begun and hangs keeps its engine.
  const auto has_no_engine = [this](const Entry& waiting) {
    return !waiting.has_begun && std::ranges::any_of(entries_, [&](const Entry& other) {
      return other.has_begun && other.command.hangs &&
             other.command.engine == waiting.command.engine;
    });
  };
  return has_no_engine(*entry) || std::ranges::any_of(entry->ancestors, [&](std::uint64_t earlier) {
           const Entry* const left = find(earlier);
           return left != nullptr && has_no_engine(*left);
         });
}

nanoseconds SimMachine::busy_until() const {
  // What would happen if time passed, without any effect.
  SimMachine future(options_);
  future.random_ = random_;
  future.now_ = now_;
  future.submitted_ = submitted_;
  future.is_busy_ = is_busy_;
  for (const Entry& entry : entries_) {
    Entry copy;
    copy.number = entry.number;
    copy.command.engine = entry.command.engine;
    copy.command.cost = entry.command.cost;
    copy.command.hangs = entry.command.hangs;
    copy.ancestors = entry.ancestors;
    copy.has_begun = entry.has_begun;
    copy.is_stuck = entry.is_stuck;
    copy.begin = entry.begin;
    copy.end = entry.end;
    future.entries_.push_back(std::move(copy));
  }
  while (future.run_next()) {
  }
  return future.now_;
}

bool SimMachine::can_begin(const Entry& entry) const {
  return !entry.has_begun && std::ranges::all_of(entry.ancestors, [this](std::uint64_t number) {
    return has_ended(number);
  });
}

SimMachine::Entry* SimMachine::next_for(int engine) {
  std::vector<Entry*> candidates;
  for (Entry& entry : entries_) {
    if (entry.command.engine == engine && can_begin(entry)) {
      candidates.push_back(&entry);
    }
  }
  if (candidates.empty()) {
    return nullptr;
  }
  return options_.reorder_seed == 0 ? candidates.front()
                                    : candidates[next_random() % candidates.size()];
}

void SimMachine::begin_what_can() {
  for (std::size_t engine = 0; engine < is_busy_.size(); ++engine) {
    if (is_busy_[engine]) {
      continue;
    }
    if (Entry* const next = next_for(static_cast<int>(engine))) {
      next->has_begun = true;
      next->begin = now_;
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
  return least_busy(0, options_.queues);
}

int SimMachine::least_busy_copy_engine() const {
  return least_busy(options_.queues, options_.copy_engines);
}

int SimMachine::least_busy(int first, int count) const {
  int best = first;
  std::ptrdiff_t fewest =
      std::ranges::count(entries_, first, [](const Entry& entry) { return entry.command.engine; });
  for (int engine = first + 1; engine < first + count; ++engine) {
    const std::ptrdiff_t waiting = std::ranges::count(
        entries_, engine, [](const Entry& entry) { return entry.command.engine; });
    if (waiting < fewest) {
      best = engine;
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
