#include "background_tuner.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/machine_load.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/base/thread_priority.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/memory/guarded.hpp"

namespace hearth {
namespace {

using detail::TimePoint;
using detail::TuneKey;

// An idle device of an inline backend still looks for work this often (DeviceActor::sleep).
constexpr std::chrono::milliseconds kQuiet{20};
// Larger trials are left to Runtime::tune().
constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
constexpr std::chrono::milliseconds kLongestRun{2};

TimePoint tuner_clock() noexcept {
  return detail::current_context().clock().now();
}

/// Multiplications of a call, as its weight: frequent calls cannot be counted, because the table of
/// picks answers for them.
detail::RunTime weight_of(const TuneKey& key) noexcept {
  double work = 1;
  for (const std::int64_t size : key.sizes) {
    work *= static_cast<double>(std::max<std::int64_t>(size, 1));
  }
  return detail::RunTime(work);
}

}  // namespace

void BackgroundTuner::stop() noexcept {
  is_stopping_.store(true, std::memory_order_release);  // partner: is_interrupted
  messages_.close();
}

std::string BackgroundTuner::describe() const {
  return is_trying_.load(std::memory_order_acquire) ? "runs a candidate kernel" : "sleeps";
}

// Under the manual executor there is one thread, whose priority belongs to the program.
void BackgroundTuner::thread_main(DeviceEndpoint& endpoint) {
  log_ = &endpoint.tables().log;
  if (!detail::current_context().is_manual()) {
    if (const Status lowered = lower_priority(); !lowered.has_value()) {
      log_->debug([&] { return lowered.error().to_string(); });
    }
  }
  budget_.emplace(detail::TuneBudgetOptions(), tuner_clock());
  while (!is_stopping_.load(std::memory_order_acquire)) {
    const Deadline next = next_step();
    if (std::optional<Message> message = messages_.pop(next)) {
      receive(std::move(*message));
    } else if (!next.has_passed()) {
      continue;
    } else if (is_interrupted(endpoint)) {
      await_quiet(endpoint);
    } else {
      run_step(endpoint);
    }
  }
  forget_all();
}

void BackgroundTuner::receive(Message message) {
  if (auto* const call = std::get_if<WantedCall>(&message)) {
    queue_.want(call->key, weight_of(call->key));
    calls_.insert_or_assign(call->key, std::move(*call));
    return;
  }
  for (const TuneKey& key : std::get<std::vector<TuneKey>>(message)) {
    forget(key);
  }
}

Deadline BackgroundTuner::next_step() {
  if (!has_wanted()) {
    backend_.reset();
    return Deadline::never();
  }
  return Deadline::at(std::max(earliest_, budget_->ready_at(tuner_clock())));
}

bool BackgroundTuner::is_interrupted(const DeviceEndpoint& endpoint) const noexcept {
  return is_stopping_.load(std::memory_order_acquire) ||  // partners: stop, Suspension
         suspensions_.load(std::memory_order_acquire) > 0 || !endpoint.doorbell.is_free() ||
         endpoint.newest_record() != seen_record_;
}

void BackgroundTuner::await_quiet(const DeviceEndpoint& endpoint) {
  seen_record_ = endpoint.newest_record();
  earliest_ = tuner_clock() + kQuiet;
}

// A trial that cannot run ends here; the device goes on with its rule.
void BackgroundTuner::run_step(DeviceEndpoint& endpoint) {
  const TimePoint begin = tuner_clock();
  is_trying_.store(true, std::memory_order_release);
  const Status status = guarded("a trial", [&] { return step(endpoint); });
  is_trying_.store(false, std::memory_order_release);
  budget_->spend(tuner_clock() - begin);
  if (!status.has_value()) {
    log_->debug([&] {
      return fmt::format("{}: a trial ends: {}", endpoint.name(), status.error().to_string());
    });
    if (trial_) {
      const TuneKey key = trial_->key();
      trial_.reset();
      forget(key);
    } else {
      forget_all();
    }
  }
}

Status BackgroundTuner::step(DeviceEndpoint& endpoint) {
  if (!trial_) {
    return begin_next(endpoint);
  }
  const detail::TuneAction action = trial_->next();
  if (action.step == detail::TuneStep::done) {
    return finish(endpoint);
  }
  if (action.step == detail::TuneStep::rest) {
    earliest_ = tuner_clock() + action.rest;
    trial_->rested();
    return {};
  }
  HEARTH_TRY(const Trial::Step taken,
             trial_->step([this, &endpoint] { return is_interrupted(endpoint); }));
  if (taken == Trial::Step::interrupted) {
    await_quiet(endpoint);
  }
  return {};
}

Status BackgroundTuner::begin_next(DeviceEndpoint& endpoint) {
  const std::optional<TuneKey> key = queue_.next(tuner_clock());
  const auto found = key.has_value() ? calls_.find(*key) : calls_.end();
  if (found == calls_.end()) {
    return Error{.code = ErrorCode::internal, .text = "a wanted key has no call"};
  }
  HEARTH_TRY_STATUS(open());
  const detail::TuneEntry known = known_entry(store_->content(), *key);
  const std::vector<detail::Candidate> candidates =
      backend_->kernels().candidates(CallWithoutBytes(found->second).call());
  if (!detail::is_stale(
          known, candidates, detail::time_of_day())) {  // another device found it meanwhile
    forget(*key);
    use(known, endpoint);
    return {};
  }
  Result<std::unique_ptr<Trial>> begun = Trial::begin(
      *backend_,
      &*store_,
      {.tuner = {.level = subject_.level}, .most_bytes = kMostBytes, .longest_run = kLongestRun},
      found->second,
      &known);
  if (!begun.has_value() || begun.value() == nullptr) {
    forget(*key);
  }
  if (begun.has_value()) {
    trial_ = std::move(begun).value();
  }
  return {};
}

Status BackgroundTuner::open() {
  if (!store_.has_value()) {
    HEARTH_TRY(store_, subject_.open_store(detail::TuneAccess::read_write, *log_));
  }
  if (!backend_) {
    HEARTH_TRY(backend_, subject_.open());
  }
  return {};
}

Status BackgroundTuner::finish(DeviceEndpoint& endpoint) {
  detail::TuneEntry entry = trial_->entry();
  trial_.reset();
  forget(entry.key);
  HEARTH_TRY_STATUS(store_->merge({entry}, {}));
  log_->debug([&] { return hearth::describe(entry); });
  use(known_entry(store_->content(), entry.key), endpoint);
  return {};
}

void BackgroundTuner::use(detail::TuneEntry entry, DeviceEndpoint& endpoint) {
  endpoint.post(UseEntries{std::make_shared<const TunedEntries>(TunedEntries{{std::move(entry)}})});
}

// The trial of a key that was settled elsewhere ends, too.
void BackgroundTuner::forget(const TuneKey& key) {
  queue_.remove(key);
  calls_.erase(key);
  if (trial_ && trial_->key() == key) {
    trial_.reset();
  }
}

void BackgroundTuner::forget_all() {
  trial_.reset();
  backend_.reset();
  queue_ = detail::TuneQueue();
  calls_.clear();
}

}  // namespace hearth
