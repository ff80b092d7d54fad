#include <hearth/parallel/server_desk.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace hearth::detail {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

/// A caller with less time than this, or with a stop token, does not run a kernel itself. As for
/// Pending::get.
constexpr Nanoseconds kTimeForAKernel = std::chrono::seconds(10);
/// Shortest sleep of the keeper, so that many deadlines cost few wakes.
constexpr Nanoseconds kKeeperRest = std::chrono::milliseconds(5);

/// The thread's clock without standstills, as deadlines count.
TimePoint counted_now() {
  const Clock& clock = current_context().clock();
  const TimePoint now = clock.now();
  return now - clock.standstill(now);
}
TimePoint counted(const Deadline& deadline) {
  const Clock& clock = current_context().clock();
  return deadline.is_never() ? TimePoint::max() : deadline.time() - clock.standstill(clock.now());
}
Deadline deadline_at(TimePoint time) {
  return time == TimePoint::max() ? Deadline::never() : Deadline::in(time - counted_now());
}

ErrorRef closed_error() {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled,
                                             .text = "ModelServer: it accepts no more requests",
                                             .op = "ModelServer::ask"});
}

[[noreturn]] void refuse(ErrorCode code, std::string text) {
  throw_error(Error{.code = code, .text = "ModelServer: " + std::move(text), .op = "ModelServer"});
}

void check(const ServerOptions& options) {
  if (options.max_batch < 1) {
    refuse(ErrorCode::invalid_argument, fmt::format("max_batch is {}", options.max_batch));
  }
  if (options.max_waiting_rows < options.max_batch) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("max_waiting_rows is {}: expected at least max_batch, {}",
                       options.max_waiting_rows,
                       options.max_batch));
  }
  if (options.max_delay < Nanoseconds(0) || options.hang_limit <= Nanoseconds(0)) {
    refuse(
        ErrorCode::invalid_argument,
        fmt::format("max_delay is {} ns and hang_limit {} ns: expected 0 or more, and more than 0",
                    options.max_delay.count(),
                    options.hang_limit.count()));
  }
  if (options.exact_rows && (options.proof != RowProof::first_batch || !options.repeatable)) {
    refuse(ErrorCode::invalid_argument,
           "exact_rows compares batches with single rows: it needs the proof and `repeatable`");
  }
  for (const Device& device : options.devices) {
    if (options.exact_rows && !device.name().starts_with("cpu:")) {
      refuse(ErrorCode::unsupported,
             fmt::format("exact_rows: only cpu devices have kernels whose rows do not depend on "
                         "the batch, not {}",
                         device.name()));
    }
  }
}

}  // namespace

void throw_input_count(std::size_t given) {
  refuse(ErrorCode::invalid_argument,
         fmt::format("the model's forward() does not take {} tensors", given));
}

/// Work of a thread after it has released the lock.
struct ServerDesk::Settlement {
  std::vector<EndedRequest> ended;
  std::vector<std::string> notes;
  std::vector<IntrusivePtr<Parker>> wakes;

  void run(Shared& shared) {
    for (const IntrusivePtr<Parker>& parker : wakes) {
      parker->unpark();
    }
    for (const std::string& note : notes) {
      shared.log->warn(note);
    }
    for (EndedRequest& each : ended) {
      if (each.request->claim()) {
        shared.failed.fetch_add(1, std::memory_order_relaxed);
        const ErrorCode code = each.error->code;
        if (code == ErrorCode::deadline_exceeded || code == ErrorCode::cancelled) {
          shared.expired.fetch_add(1, std::memory_order_relaxed);
        }
        each.request->promise.set_error(std::move(each.error));
      }
    }
  }
};

ServerDesk::ServerDesk(const Runtime& runtime,
                       const ServerOptions& options,
                       const MakeSeat& make_seat)
    : options_(options), wait_limit_(runtime.wait_limit()), shared_([&] {
        check(options);
        Batcher::Options batching{.max_batch = options.max_batch,
                                  .max_delay = options.max_delay,
                                  .max_waiting_rows = options.max_waiting_rows,
                                  .exact_rows = options.exact_rows,
                                  .proof = options.proof,
                                  .repeatable = options.repeatable,
                                  .hang_limit = options.hang_limit};
        for (const Device& device : options.devices) {
          batching.devices.push_back(device.name());
        }
        return std::make_shared<Shared>(std::move(batching));
      }()) {
  shared_->log = &runtime.log();
  std::vector<Seat> seats;
  for (std::size_t i = 0; i < options_.devices.size(); ++i) {
    const Device& device = options_.devices[i];
    const int count = device.runs_inline() ? 1 : 2;
    for (int seat = 0; seat < count; ++seat) {
      Seat& made = seats.emplace_back();
      made.device = i;
      made.runner =
          std::make_unique<BatchRunner>(device,
                                        make_seat(i),
                                        BatchRunner::Options{.exact_rows = options_.exact_rows,
                                                             .repeatable = options_.repeatable,
                                                             .ladder = shared_->batcher.ladder()});
    }
  }
  std::vector<std::size_t> devices;  // of the seats
  devices.reserve(seats.size());
  for (const Seat& seat : seats) {
    devices.push_back(seat.device);
  }
  {
    const MutexLock lock(shared_->mutex);
    shared_->seats = std::move(seats);
  }
  const auto start =
      [&](const std::string& name, std::vector<int> cores, UniqueFunction<void()> body) {
        threads_.push_back(std::make_unique<OwnedThread>(
            runtime.executor(),
            ThreadOptions{.name = name, .cores = std::move(cores)},
            OwnedThreadOptions{.subject = "the server's thread " + name,
                               .observe = [] { return std::string("runs a batch"); },
                               .limit = options_.shutdown_limit,
                               .log = &runtime.log()},
            std::move(body)));
      };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    start(fmt::format("serve:{}", i), options_.devices[devices[i]].cores(), [shared = shared_, i] {
      work(shared, i);
    });
  }
  start("serve:keeper", {}, [shared = shared_] { keep(shared); });
}

ServerDesk::~ServerDesk() {
  Settlement settlement;
  {
    const MutexLock lock(shared_->mutex);
    shared_->is_draining = true;
    shared_->is_closed = true;
    shared_->batcher.end_all(closed_error());
    collect(*shared_, settlement);
    for (const Seat& seat : shared_->seats) {
      if (seat.parker) {
        settlement.wakes.push_back(seat.parker);
      }
    }
    if (shared_->keeper) {
      settlement.wakes.push_back(shared_->keeper);
    }
  }
  settlement.run(*shared_);
  const Deadline end = Deadline::in(options_.shutdown_limit);
  for (const std::unique_ptr<OwnedThread>& thread : threads_) {
    static_cast<void>(thread->end(end));
  }
}

std::size_t ServerDesk::idle_seats(const Shared& shared) {
  std::size_t count = 0;
  for (const Seat& seat : shared.seats) {
    const bool is_idle = seat.state == SeatState::idle || seat.state == SeatState::woken;
    count += is_idle && shared.batcher.is_in_service(seat.device) ? 1U : 0U;
  }
  return count;
}

void ServerDesk::collect(Shared& shared, Settlement& into) {
  into.ended = shared.batcher.take_ended();
  into.notes = shared.batcher.take_notes();
  while (!shared.drainers.empty()) {
    if (!shared.batcher.is_empty()) {
      break;
    }
    into.wakes.push_back(shared.drainers.take_first());
  }
}

// Wakes a worker that can begin what waits: on the device with the fewest running batches.
void ServerDesk::wake_for_work(Shared& shared, Settlement& into) {
  Seat* best = nullptr;
  std::size_t fewest = 0;
  for (Seat& seat : shared.seats) {
    if (seat.state != SeatState::idle || !seat.parker ||
        !shared.batcher.has_work_for(seat.device)) {
      continue;
    }
    std::size_t running = 0;
    for (const Seat& other : shared.seats) {
      running += other.device == seat.device && other.state != SeatState::idle ? 1 : 0;
    }
    if (best == nullptr || running < fewest) {
      best = &seat;
      fewest = running;
    }
  }
  if (best != nullptr) {
    best->state = SeatState::woken;
    into.wakes.push_back(best->parker);
  }
}

void ServerDesk::wake_keeper(Shared& shared, Settlement& into) {
  const TimePoint next = std::max(shared.batcher.next_expiry(), shared.keeper_ran + kKeeperRest);
  if (shared.keeper && next < shared.keeper_wakes) {
    shared.keeper_wakes = next;
    into.wakes.push_back(shared.keeper);
  }
}

void ServerDesk::work(const std::shared_ptr<Shared>& shared, std::size_t number) {
  BatchRunner* runner = nullptr;
  for (;;) {
    BatchRef batch;
    Deadline until = Deadline::never();
    Settlement settlement;
    {
      const MutexLock lock(shared->mutex);
      Seat& seat = shared->seats[number];
      seat.parker = IntrusivePtr<Parker>(&current_context().parker());
      runner = seat.runner.get();
      if (shared->is_closed) {
        return;
      }
      if (seat.state != SeatState::borrowed) {
        seat.state = SeatState::woken;
        const TimePoint now = counted_now();
        batch = shared->batcher.take(seat.device, idle_seats(*shared), now);
        seat.state = batch ? SeatState::busy : SeatState::idle;
        if (batch) {
          wake_keeper(*shared, settlement);
        } else {
          until = deadline_at(shared->batcher.next_take());
        }
        collect(*shared, settlement);
      }
    }
    settlement.run(*shared);
    if (!batch) {
      current_context().parker().park(until);
      continue;
    }
    const BatchOutcome outcome = runner->run(*batch);
    finish(*shared, number, batch, outcome);
  }
}

void ServerDesk::finish(Shared& shared,
                        std::size_t number,
                        const BatchRef& batch,
                        const BatchOutcome& outcome) {
  Settlement settlement;
  {
    const MutexLock lock(shared.mutex);
    const TimePoint now = counted_now();
    shared.batcher.finish(batch, outcome, now);
    Seat& seat = shared.seats[number];
    if (seat.state == SeatState::borrowed) {
      seat.state = SeatState::idle;
    } else {
      seat.state = SeatState::woken;  // its worker looks for work next
    }
    if (shared.batcher.has_work_for(seat.device) || outcome.is_lost) {
      wake_for_work(shared, settlement);
    }
    wake_keeper(shared, settlement);
    collect(shared, settlement);
  }
  shared.progress->finished.fetch_add(1, std::memory_order_release);  // partner: wait_terms
  settlement.run(shared);
}

void ServerDesk::keep(const std::shared_ptr<Shared>& shared) {
  for (;;) {
    Settlement settlement;
    Deadline until = Deadline::never();
    {
      const MutexLock lock(shared->mutex);
      if (shared->is_closed) {
        return;
      }
      shared->keeper = IntrusivePtr<Parker>(&current_context().parker());
      const TimePoint now = counted_now();
      if (shared->batcher.next_expiry() <= now) {
        shared->batcher.expire(now);
        wake_for_work(*shared, settlement);
      }
      const TimePoint next = shared->batcher.next_expiry();
      shared->keeper_ran = now;
      shared->keeper_wakes = next == TimePoint::max() ? next : std::max(next, now + kKeeperRest);
      until = deadline_at(shared->keeper_wakes);
      collect(*shared, settlement);
    }
    settlement.run(*shared);
    current_context().parker().park(until);
  }
}

PendingHelper ServerDesk::wait_terms() const {
  PendingHelper helper;
  helper.object = shared_->progress.get();
  helper.retain = [](void* object) noexcept { static_cast<Progress*>(object)->retain(); };
  helper.release = [](void* object) noexcept { static_cast<Progress*>(object)->release(); };
  helper.progress = [](void* object) noexcept -> std::uint64_t {
    return static_cast<Progress*>(object)->finished.load(std::memory_order_acquire);
  };
  helper.awaited_name = "a ModelServer";
  helper.limit = wait_limit_;
  return helper;
}

RequestRef ServerDesk::make_request(std::vector<RequestInput> inputs,
                                    const RequestOptions& options,
                                    SourceLoc loc) const {
  const std::int64_t rows = options_.proof == RowProof::no_rows ? 1 : row_count(inputs, loc);
  if (rows > options_.max_batch) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format(
            "ModelServer::ask: {} rows: expected at most max_batch, {}", rows, options_.max_batch),
        .op = "ModelServer::ask",
        .location = loc});
  }
  for (const RequestInput& input : inputs) {
    if (!input.is_on_host()) {
      input.tensor().publish(loc);
    }
  }
  PendingHelper terms = wait_terms();
  terms.retain(terms.object);
  auto request = std::make_shared<ServerRequest>();
  request->promise = Promise<Answer>(
      PendingOptions{.subject = "an answer of a ModelServer", .helper = terms, .location = loc});
  request->inputs = std::move(inputs);
  request->rows = rows;
  request->priority = options.priority;
  request->deadline = counted(options.deadline);
  request->stop = options.stop;
  request->arrival = counted_now();
  return request;
}

Pending<Answer> ServerDesk::ask(std::vector<RequestInput> inputs,
                                const RequestOptions& options,
                                SourceLoc loc) {
  const std::string key = signature_key(inputs);
  const RequestRef request = make_request(std::move(inputs), options, loc);
  Pending<Answer> answer = request->promise.pending();
  ErrorRef refusal;
  Settlement settlement;
  {
    const MutexLock lock(shared_->mutex);
    Batcher& batcher = shared_->batcher;
    refusal = shared_->is_draining
                  ? closed_error()
                  : batcher.offer(request, key, counted_now(), idle_seats(*shared_) != 0);
    if (!refusal) {
      wake_for_work(*shared_, settlement);
      wake_keeper(*shared_, settlement);
    }
    collect(*shared_, settlement);
  }
  if (refusal && request->claim()) {
    request->promise.set_error(std::move(refusal));
  }
  settlement.run(*shared_);
  return answer;
}

Pending<Answer> ServerDesk::ask_here(std::vector<RequestInput> inputs,
                                     const RequestOptions& options,
                                     SourceLoc loc) {
  if (options.stop.stop_possible() || options.deadline.left() < kTimeForAKernel) {
    return ask(std::move(inputs), options, loc);
  }
  const std::string key = signature_key(inputs);
  const RequestRef request = make_request(std::move(inputs), options, loc);
  Pending<Answer> answer = request->promise.pending();
  ErrorRef refusal;
  BatchRef batch;
  BatchRunner* runner = nullptr;
  std::size_t number = 0;
  Settlement settlement;
  {
    const MutexLock lock(shared_->mutex);
    Batcher& batcher = shared_->batcher;
    const TimePoint now = counted_now();
    Seat* idle = nullptr;
    for (std::size_t i = 0; i < shared_->seats.size() && idle == nullptr; ++i) {
      Seat& seat = shared_->seats[i];
      if (seat.state == SeatState::idle && batcher.is_in_service(seat.device)) {
        idle = &seat;
        number = i;
      }
    }
    if (shared_->is_draining) {
      refusal = closed_error();
    } else if (idle != nullptr) {
      batch = batcher.begin_at_once(request, key, idle->device, now);
    }
    if (batch) {
      idle->state = SeatState::borrowed;
      runner = idle->runner.get();
    } else if (!refusal) {
      refusal = batcher.offer(request, key, now, idle != nullptr);
      wake_for_work(*shared_, settlement);
    }
    wake_keeper(*shared_, settlement);
    collect(*shared_, settlement);
  }
  if (refusal && request->claim()) {
    request->promise.set_error(std::move(refusal));
  }
  settlement.run(*shared_);
  if (batch) {
    const std::shared_ptr<Shared> shared = shared_;
    const BatchOutcome outcome = runner->run(*batch);
    finish(*shared, number, batch, outcome);
  }
  return answer;
}

bool ServerDesk::drain(Deadline deadline) {
  std::optional<WaitNode> node;
  for (Wake wake = Wake::unparked;; wake = current_context().parker().park(deadline)) {
    const MutexLock lock(shared_->mutex);
    shared_->is_draining = true;
    const bool is_empty = shared_->batcher.is_empty();
    if (is_empty || wake == Wake::deadline) {
      if (node) {
        shared_->drainers.remove(*node);
      }
      return is_empty;
    }
    shared_->drainers.add(node ? *node : node.emplace());
  }
}

void ServerDesk::restore(std::size_t device) {
  Settlement settlement;
  {
    const MutexLock lock(shared_->mutex);
    shared_->batcher.restore(device);
    wake_for_work(*shared_, settlement);
  }
  settlement.run(*shared_);
}

bool ServerDesk::is_in_service(std::size_t device) const {
  const MutexLock lock(shared_->mutex);
  return shared_->batcher.is_in_service(device);
}

ServerStatistics ServerDesk::statistics() const {
  const MutexLock lock(shared_->mutex);
  ServerStatistics all = shared_->batcher.statistics();
  all.waiting_rows = shared_->batcher.waiting_rows();
  all.failed = shared_->failed.load(std::memory_order_relaxed);
  all.expired = shared_->expired.load(std::memory_order_relaxed);
  for (const Seat& seat : shared_->seats) {
    all.answered += seat.runner->answered();
    all.failed += seat.runner->failed();
  }
  return all;
}

}  // namespace hearth::detail
