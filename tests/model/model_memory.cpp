#include "checker.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hearth::model {
namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel;
}

}  // namespace

Location Checker::add_location(const void* atomic, std::uint64_t initial) {
  const Location location = words_.size();
  if (location == 0) {
    first_atomic_ = std::bit_cast<std::uintptr_t>(atomic);
  }
  if (location >= kMaxLocations) {
    fail("too many atomics for the checker");
  }
  Word word;
  word.stores.push_back(Store{.value = initial, .carried = threads_[running_].view});
  for (const CheckOptions::At& at : options_.weakened) {
    if (at.location == location) {
      word.no_acquire = word.no_acquire || at.weakening == Weakening::no_acquire;
      word.no_release = word.no_release || at.weakening == Weakening::no_release;
      word.is_split = word.is_split || at.weakening == Weakening::split;
    }
  }
  words_.push_back(std::move(word));
  return location;
}

StepResult Checker::perform(Location location, const StepArguments& arguments) {
  const ThreadIndex index = running_;
  if (index == kSetup) {
    return apply(location, arguments, kSetup);
  }
  if (arguments.kind == Step::exchange && words_[location].is_split) {
    StepArguments half{.kind = Step::load, .order = std::memory_order_acquire};
    const StepResult seen = perform(location, half);
    half = {.kind = Step::store, .operand = arguments.operand, .order = std::memory_order_release};
    perform(location, half);
    return seen;
  }
  Thread& thread = threads_[index];
  thread.location = location;
  thread.pending = arguments;
  Touch& touch = touched_[location];
  touch.accessors = static_cast<ThreadSet>(touch.accessors | bit(index));
  if (arguments.kind != Step::load) {
    touch.writers = static_cast<ThreadSet>(touch.writers | bit(index));
  }
  has_learned_ = has_learned_ || touch.accessors != assumed_[location].accessors ||
                 touch.writers != assumed_[location].writers;
  thread.fiber->suspend();
  return thread.result;
}

std::size_t Checker::seen_store(Word& word, Thread& thread, const StepArguments& arguments) {
  const std::size_t newest = word.stores.size() - 1;
  const bool is_compare = arguments.kind == Step::compare;
  if (running_ == kSetup && &thread == &threads_[kSetup]) {
    return newest;
  }
  if (!is_exploring_ || (arguments.kind != Step::load && !is_compare)) {
    return newest;
  }
  Decision decision;
  decision.add(newest);
  for (std::size_t i = newest; i-- > thread.view.oldest.at(thread.location);) {
    // A compare that sees an old store fails, because only the newest can be replaced.
    if (!is_compare || word.stores[i].value != arguments.expected) {
      decision.add(i);
    }
  }
  return decision.count == 1 ? newest : decide(decision);
}

StepResult Checker::apply(Location location, const StepArguments& arguments, ThreadIndex index) {
  Thread& thread = threads_[index];
  Word& word = words_[location];
  thread.location = location;
  ++thread.view.times.at(index);
  ++result_.steps;
  StepResult result;
  if (arguments.kind == Step::wake) {
    log_.push_back({index, location, arguments, result, false});
    return result;
  }
  const std::size_t newest = word.stores.size() - 1;
  std::size_t seen = newest;
  std::memory_order order = arguments.order;
  std::uint64_t value = arguments.operand;
  bool writes = arguments.kind != Step::load;
  const bool reads = arguments.kind != Step::store;
  if (reads) {
    seen = seen_store(word, thread, arguments);
    result.value = word.stores[seen].value;
    if (arguments.kind == Step::compare && (seen != newest || result.value != arguments.expected)) {
      writes = false;
      order = arguments.failure_order;
    }
    thread.view.oldest.at(location) = static_cast<std::uint16_t>(seen);
    if (acquires(order) && !word.no_acquire) {
      thread.view.join(word.stores[seen].carried);
    }
  }
  switch (arguments.kind) {
    case Step::add:
      value = result.value + arguments.operand;
      break;
    case Step::bit_and:
      value = result.value & arguments.operand;
      break;
    case Step::bit_or:
      value = result.value | arguments.operand;
      break;
    default:
      break;
  }
  if (writes) {
    const std::size_t place = newest + 1;
    thread.view.oldest.at(location) = static_cast<std::uint16_t>(place);
    Store store{.value = value, .carried = {}};
    if (reads) {
      store.carried = word.stores[newest].carried;  // the release sequence continues
    }
    if (releases(order) && !word.no_release) {
      store.carried.join(thread.view);
    }
    word.stores.push_back(store);
    mix(word.hash, placeless(store.value));
    mix(word.hash, store.carried);
    result.has_changed = true;
  }
  remember(thread, result);
  log_.push_back({index, location, arguments, result, seen != newest});
  return result;
}

void Checker::access(const void* memory, bool writes) {
  const View& view = threads_[running_].view;
  // The stamp is that of the next step, whose release will carry it.
  const auto stamp = static_cast<std::uint16_t>(view.times.at(running_) + 1);
  Plain& plain = plain_[memory];
  bool is_race = plain.writer != running_ && view.times.at(plain.writer) < plain.written;
  if (writes) {
    for (ThreadIndex i = 0; i < kMaxThreads; ++i) {
      is_race = is_race || (i != running_ && view.times.at(i) < plain.read.at(i));
    }
    plain = Plain{.writer = running_, .written = stamp, .read = {}};
  } else {
    plain.read.at(running_) = stamp;
  }
  if (is_race) {
    fail("a data race: plain memory is used by two threads, and nothing orders them");
  }
}

}  // namespace hearth::model
