#include <hearth/backends/sim/sim_machine.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace hearth::sim {

using std::chrono::nanoseconds;

SimMachine::SimMachine(const SimMachineOptions& options)
    : options_(options),
      random_(options.reorder_seed),
      engines_(static_cast<std::size_t>(options.queues + options.copy_engines)) {
  HEARTH_ASSERT(options.queues > 0, "a sim device needs a queue");
}

std::uint64_t SimMachine::submit(SimCommand command) {
  Engine& engine = engines_.at(static_cast<std::size_t>(command.engine));
  running_.insert(++submitted_);
  engine.waiting.push_back({.number = submitted_, .command = std::move(command)});
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
  Engine* const first = next_end();
  if (first == nullptr || first->running->end > limit) {
    return false;
  }
  now_ = std::max(now_, first->running->end);
  end(*first);
  return true;
}

bool SimMachine::has_ended(std::uint64_t number) const {
  return number <= submitted_ && !running_.contains(number);
}

bool SimMachine::can_begin(Entry& entry) const {
  std::vector<std::uint64_t>& after = entry.command.after;
  while (!after.empty() && has_ended(after.back())) {
    after.pop_back();
  }
  return after.empty();
}

std::optional<SimMachine::Entry> SimMachine::take_next(std::deque<Entry>& waiting) {
  std::vector<std::size_t> candidates;
  const std::size_t count =
      options_.reorder_seed == 0 ? std::min(waiting.size(), std::size_t{1}) : waiting.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (can_begin(waiting[i])) {
      candidates.push_back(i);
    }
  }
  if (candidates.empty()) {
    return std::nullopt;
  }
  const std::size_t chosen = candidates[next_random() % candidates.size()];
  Entry next = std::move(waiting[chosen]);
  waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(chosen));
  return next;
}

void SimMachine::begin_what_can() {
  for (Engine& engine : engines_) {
    if (engine.running) {
      continue;
    }
    engine.running = take_next(engine.waiting);
    if (engine.running) {
      engine.running->end = now_ + engine.running->command.cost;
    }
  }
}

SimMachine::Engine* SimMachine::next_end() {
  const auto is_before = [](const Entry& a, const Entry& b) {
    return a.end != b.end ? a.end < b.end : a.number < b.number;
  };
  Engine* first = nullptr;
  for (Engine& engine : engines_) {
    if (engine.running && !engine.running->command.hangs &&
        (first == nullptr || is_before(*engine.running, *first->running))) {
      first = &engine;
    }
  }
  return first;
}

void SimMachine::end(Engine& engine) {
  Entry ended = std::move(*std::exchange(engine.running, std::nullopt));
  running_.erase(ended.number);
  if (ended.command.effect) {
    ended.command.effect();
  }
  begin_what_can();
}

int SimMachine::least_busy_queue() const {
  const auto load = [](const Engine& engine) {
    return engine.waiting.size() + (engine.running ? 1 : 0);
  };
  const auto queues = std::span(engines_).first(static_cast<std::size_t>(options_.queues));
  return static_cast<int>(std::ranges::min_element(queues, {}, load) - queues.begin());
}

std::uint64_t SimMachine::next_random() noexcept {  // splitmix64
  std::uint64_t bits = (random_ += 0x9e3779b97f4a7c15U);
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

}  // namespace hearth::sim
