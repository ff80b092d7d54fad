#include <hearth/parallel/batcher.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace hearth::detail {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

/// Time by which requests of a priority stand behind requests that came at the same time.
constexpr std::array<Nanoseconds, kPriorityCount> kHandicap{
    Nanoseconds(0), std::chrono::milliseconds(100), std::chrono::seconds(1)};
/// Signatures that the batcher remembers; beyond it, idle ones are forgotten.
constexpr std::size_t kMostSignatures = 256;
/// Part of a measured time that enters the mean.
constexpr int kMeanShare = 8;
/// A batch in time lowers the factor of predicted waits by this ratio; a late one raises it by 19
/// of these steps. The factor then moves to the quantile of 95 % (Robbins, Monro: A stochastic
/// approximation method, 1951).
constexpr double kFactorDown = 1 / 1.005;
constexpr double kFactorUp = 1.0994;  // 1.005^19
constexpr double kMostFactor = 8;

TimePoint urgency(const ServerRequest& request) noexcept {
  return request.arrival + kHandicap[static_cast<std::size_t>(request.priority)];
}

double milliseconds(Nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Nanoseconds scaled(Nanoseconds time, double factor) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::nano>(time) *
                                                 factor);
}

ErrorRef error_of(ErrorCode code, std::string text, ErrorRef cause = {}) {
  return std::make_shared<const Error>(Error{.code = code,
                                             .text = "ModelServer: " + std::move(text),
                                             .op = "ModelServer::ask",
                                             .cause = std::move(cause)});
}

ErrorRef loss_error(const ErrorRef& cause, std::string_view what) {
  return error_of(ErrorCode::device_lost, std::string(what), cause);
}

}  // namespace

Batcher::Batcher(Options options) : options_(std::move(options)) {
  for (std::int64_t size = 1; size < options_.max_batch; size *= 2) {
    ladder_.push_back(size);
  }
  ladder_.push_back(options_.max_batch);
  for (const std::string& name : options_.devices) {
    devices_.push_back({.name = name});
  }
  statistics_.batch_sizes.resize(
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(options_.max_batch))) + 1);
}

std::size_t Batcher::place_of(std::int64_t rows) const noexcept {
  const auto place = std::lower_bound(ladder_.begin(), ladder_.end(), rows);
  return static_cast<std::size_t>(std::min(place, ladder_.end() - 1) - ladder_.begin());
}

BatchSignature& Batcher::signature_of(const ServerRequest& request, const std::string& key) {
  const auto known = signatures_.find(key);
  if (known != signatures_.end()) {
    return *known->second;
  }
  if (signatures_.size() >= kMostSignatures) {
    std::erase_if(signatures_, [](const auto& entry) { return entry.second->is_idle(); });
  }
  auto made = std::make_unique<BatchSignature>();
  made->key = key;
  made->text = describe_signature(request.inputs);
  made->most_rows = options_.max_batch;
  const bool may_prove = options_.repeatable || options_.exact_rows;
  const bool has_rows = options_.proof != RowProof::no_rows;
  made->states.assign(ladder_.size(),
                      options_.proof == RowProof::trusted && !options_.exact_rows
                          ? SizeState::proven
                      : may_prove && has_rows ? SizeState::unknown
                                              : SizeState::refuted);
  if (has_rows && made->states[0] == SizeState::refuted) {
    notes_.push_back(
        fmt::format("ModelServer: requests of {} run one by one: the forward pass is not "
                    "repeatable, so no batch can be compared with them",
                    made->text));
  }
  made->times.assign(ladder_.size(), Nanoseconds(0));
  BatchSignature& result = *made;
  signatures_.emplace(key, std::move(made));
  return result;
}

Nanoseconds Batcher::row_time(const BatchSignature& signature) const {
  for (std::size_t place = ladder_.size(); place-- > 0;) {
    if (signature.times[place] != Nanoseconds(0)) {
      return signature.times[place] / ladder_[place];
    }
  }
  return Nanoseconds(0);
}

// Adds the rest of the running batches, the waiting rows and the request's own batch.
Nanoseconds Batcher::predict(const BatchSignature& own, std::int64_t rows, TimePoint now) const {
  Nanoseconds work(0);
  for (const auto& [key, signature] : signatures_) {
    work += row_time(*signature) * signature->waiting_rows;
  }
  for (const BatchRef& batch : running_) {
    if (!batch->is_revoked) {
      const Nanoseconds whole = batch->signature->times[place_of(batch->rows)];
      work += std::max(Nanoseconds(0), whole - (now - batch->begin));
    }
  }
  const auto in_service = std::ranges::count_if(
      devices_, [](const DeviceState& device) { return device.is_in_service; });
  const auto seats =
      std::max<std::int64_t>(1, in_service * static_cast<std::int64_t>(options_.seats_per_device));
  const std::int64_t together = std::min(options_.max_batch, own.waiting_rows + rows);
  // Without a time of its size: the next smaller one that has a time, else the next larger one.
  const std::size_t own_place = place_of(together);
  Nanoseconds last(0);
  for (std::size_t place = own_place + 1; place-- > 0 && last == Nanoseconds(0);) {
    last = own.times[place];
  }
  for (std::size_t place = own_place; place < ladder_.size() && last == Nanoseconds(0); ++place) {
    last = own.times[place];
  }
  return work / seats + last;
}

bool Batcher::missed_its_prediction(const ServerRequest& request, TimePoint now) const noexcept {
  return request.predicted != Nanoseconds(0) &&
         now - request.arrival > scaled(request.predicted, wait_factor_);
}

void Batcher::note_waits(bool are_late) noexcept {
  wait_factor_ = std::clamp(wait_factor_ * (are_late ? kFactorUp : kFactorDown), 1.0, kMostFactor);
}

ErrorRef Batcher::offer(const RequestRef& request,
                        const std::string& key,
                        TimePoint now,
                        bool has_idle_seat) {
  const auto served = std::ranges::find_if(devices_, &DeviceState::is_in_service);
  if (served == devices_.end()) {
    return loss_error(devices_.front().loss, "no device is in service");
  }
  if (request->deadline <= now) {
    return error_of(ErrorCode::deadline_exceeded, "the deadline passed before the call");
  }
  if (waiting_rows_ + request->rows > options_.max_waiting_rows) {
    ++statistics_.refused;
    return error_of(
        ErrorCode::overloaded,
        fmt::format("{} rows wait, and at most {} may", waiting_rows_, options_.max_waiting_rows));
  }
  BatchSignature& signature = signature_of(*request, key);
  // A server without work measures anew, whatever it measured before.
  if (request->deadline != TimePoint::max() && !(has_idle_seat && waiting_rows_ == 0)) {
    request->predicted = predict(signature, request->rows, now);
    const Nanoseconds wait = scaled(request->predicted, wait_factor_);
    if (wait > request->deadline - now) {
      ++statistics_.refused;
      return error_of(
          ErrorCode::overloaded,
          fmt::format("the answer would take {:.3f} ms, and the deadline is in {:.3f} ms",
                      milliseconds(wait),
                      milliseconds(request->deadline - now)));
    }
  }
  request->signature = &signature;
  signature.waiting[static_cast<std::size_t>(request->priority)].push_back(request);
  signature.waiting_rows += request->rows;
  waiting_rows_ += request->rows;
  next_deadline_ = std::min(next_deadline_, request->deadline);
  ++statistics_.accepted;
  return nullptr;
}

BatchRef Batcher::begin_at_once(const RequestRef& request,
                                const std::string& key,
                                std::size_t device,
                                TimePoint now) {
  if (waiting_rows_ != 0 || !retries_.empty() || options_.max_delay != Nanoseconds(0) ||
      !devices_[device].is_in_service) {
    return nullptr;
  }
  request->signature = &signature_of(*request, key);
  next_deadline_ = std::min(next_deadline_, request->deadline);
  ++statistics_.accepted;
  return begin({request}, *request->signature, device, now);
}

ErrorRef Batcher::reason_to_end(const ServerRequest& request, TimePoint now) const {
  if (request.stop.stop_requested()) {
    return error_of(ErrorCode::cancelled, "the request was stopped before its batch began");
  }
  if (request.deadline <= now) {
    return error_of(ErrorCode::deadline_exceeded,
                    fmt::format("no answer in {:.3f} ms", milliseconds(now - request.arrival)));
  }
  return nullptr;
}

void Batcher::end(RequestRef request, ErrorRef error) {
  ended_.push_back({.request = std::move(request), .error = std::move(error)});
}

std::deque<RequestRef>* Batcher::first_queue(BatchSignature& signature) const {
  std::deque<RequestRef>* first = nullptr;
  for (std::deque<RequestRef>& queue : signature.waiting) {
    if (!queue.empty() &&
        (first == nullptr || urgency(*queue.front()) < urgency(*first->front()))) {
      first = &queue;
    }
  }
  return first;
}

void Batcher::drop_ended_front(BatchSignature& signature, TimePoint now) {
  bool are_late = false;
  for (std::deque<RequestRef>& queue : signature.waiting) {
    while (!queue.empty()) {
      ErrorRef reason = reason_to_end(*queue.front(), now);
      if (!reason) {
        break;
      }
      signature.waiting_rows -= queue.front()->rows;
      waiting_rows_ -= queue.front()->rows;
      are_late = are_late || missed_its_prediction(*queue.front(), now);
      end(std::move(queue.front()), std::move(reason));
      queue.pop_front();
    }
  }
  if (are_late) {
    note_waits(true);
  }
}

BatchSignature* Batcher::most_urgent(TimePoint now) {
  BatchSignature* best = nullptr;
  TimePoint best_time = TimePoint::max();
  for (const auto& entry : signatures_) {
    BatchSignature& signature = *entry.second;
    if (signature.waiting_rows == 0) {
      continue;
    }
    drop_ended_front(signature, now);
    const std::deque<RequestRef>* queue = first_queue(signature);
    if (queue == nullptr) {
      continue;
    }
    const TimePoint full_at = queue->front()->arrival + options_.max_delay;
    if (now < full_at && signature.waiting_rows < options_.max_batch) {
      next_take_ = std::min(next_take_, full_at);
      continue;
    }
    if (const TimePoint time = urgency(*queue->front()); time < best_time) {
      best = &signature;
      best_time = time;
    }
  }
  return best;
}

// The largest size that may run now, given a worker's share of what waits.
std::int64_t Batcher::row_limit(const BatchSignature& signature, std::int64_t share) const {
  if (signature.is_proving && !options_.exact_rows) {
    return 1;
  }
  std::size_t place = place_of(std::min(share, signature.most_rows));
  while (place > 0 && signature.states[place] == SizeState::refuted) {
    --place;
  }
  return std::min({share, signature.most_rows, ladder_[place]});
}

BatchRef Batcher::take_retry(std::size_t device, TimePoint now) {
  for (auto place = retries_.begin(); place != retries_.end();) {
    RequestRef request = *place;
    if (request->is_settled.load(std::memory_order_acquire)) {
      --request->signature->running;
      place = retries_.erase(place);
    } else if (ErrorRef reason = reason_to_end(*request, now)) {
      --request->signature->running;
      place = retries_.erase(place);
      end(std::move(request), std::move(reason));
    } else if (request->lost_on != device) {
      --request->signature->running;
      retries_.erase(place);
      ++statistics_.retried;
      BatchSignature& signature = *request->signature;
      BatchRef batch = begin({std::move(request)}, signature, device, now);
      batch->mode = BatchMode::alone;
      batch->padded_rows = batch->rows;
      return batch;
    } else {
      ++place;
    }
  }
  return nullptr;
}

BatchRef Batcher::take(std::size_t device, std::size_t idle_seats, TimePoint now) {
  next_take_ = TimePoint::max();
  if (!devices_[device].is_in_service) {
    return nullptr;
  }
  if (BatchRef retry = take_retry(device, now)) {
    return retry;
  }
  BatchSignature* signature = most_urgent(now);
  if (signature == nullptr) {
    return nullptr;
  }
  const auto idle = static_cast<std::int64_t>(std::max<std::size_t>(1, idle_seats));
  const std::int64_t share = (signature->waiting_rows + idle - 1) / idle;
  const std::int64_t limit = row_limit(*signature, share);
  std::vector<RequestRef> requests;
  std::int64_t rows = 0;
  while (std::deque<RequestRef>* queue = first_queue(*signature)) {
    const std::int64_t more = queue->front()->rows;
    if (!requests.empty() && rows + more > limit) {
      break;
    }
    rows += more;
    signature->waiting_rows -= more;
    waiting_rows_ -= more;
    requests.push_back(std::move(queue->front()));
    queue->pop_front();
    drop_ended_front(*signature, now);
  }
  return begin(std::move(requests), *signature, device, now);
}

void Batcher::plan(RunningBatch& batch) const {
  const BatchSignature& signature = *batch.signature;
  std::size_t place = place_of(batch.rows);
  while (place + 1 < ladder_.size() && signature.states[place] == SizeState::refuted) {
    ++place;
  }
  const bool has_company = batch.requests.size() > 1 || (options_.exact_rows && batch.rows > 1);
  const SizeState state = signature.states[place];
  batch.padded_rows = batch.rows;
  if (state == SizeState::proven) {
    batch.padded_rows = ladder_[place];
  } else if (has_company) {
    batch.mode = state == SizeState::unknown ? BatchMode::proof : BatchMode::alone;
    batch.padded_rows = state == SizeState::unknown ? ladder_[place] : batch.rows;
  }
}

BatchRef Batcher::begin(std::vector<RequestRef> requests,
                        BatchSignature& signature,
                        std::size_t device,
                        TimePoint now) {
  auto batch = std::make_shared<RunningBatch>();
  batch->requests = std::move(requests);
  batch->signature = &signature;
  batch->device = device;
  batch->begin = now;
  for (const RequestRef& request : batch->requests) {
    batch->rows += request->rows;
  }
  plan(*batch);
  signature.is_proving = signature.is_proving || batch->mode == BatchMode::proof;
  ++signature.running;
  running_.push_back(batch);
  ++statistics_.batches;
  statistics_.rows += static_cast<std::uint64_t>(batch->rows);
  statistics_.padded_rows += static_cast<std::uint64_t>(batch->padded_rows - batch->rows);
  statistics_.proofs += batch->mode == BatchMode::proof ? 1U : 0U;
  const auto width = std::bit_width(static_cast<std::uint64_t>(batch->rows - 1));
  ++statistics_
        .batch_sizes[std::min(static_cast<std::size_t>(width), statistics_.batch_sizes.size() - 1)];
  return batch;
}

void Batcher::note_outcome(RunningBatch& batch, const BatchOutcome& outcome, TimePoint now) {
  BatchSignature& signature = *batch.signature;
  if (batch.mode == BatchMode::proof) {
    signature.is_proving = false;
  }
  if (outcome.rows_are_independent) {
    const SizeState state = *outcome.rows_are_independent ? SizeState::proven : SizeState::refuted;
    if (options_.exact_rows && batch.mode == BatchMode::proof) {
      signature.states[place_of(batch.padded_rows)] = state;
    } else {
      std::ranges::fill(signature.states, state);
    }
  }
  if (outcome.fitting_rows != 0 && outcome.fitting_rows < signature.most_rows) {
    signature.most_rows = outcome.fitting_rows;
    notes_.push_back(fmt::format(
        "ModelServer: batches of {} now have at most {} rows: {} has no memory for more",
        signature.text,
        signature.most_rows,
        devices_[batch.device].name));
  }
  if (outcome.is_measured && !batch.is_revoked) {
    Nanoseconds& mean = signature.times[place_of(batch.padded_rows)];
    const Nanoseconds time = std::max(Nanoseconds(1), now - batch.begin);
    mean = mean == Nanoseconds(0) ? time : mean + (time - mean) / kMeanShare;
  }
}

void Batcher::finish(const BatchRef& batch, const BatchOutcome& outcome, TimePoint now) {
  std::erase(running_, batch);
  note_outcome(*batch, outcome, now);
  note_waits(std::ranges::any_of(batch->requests, [&](const RequestRef& request) {
    return missed_its_prediction(*request, now);
  }));
  if (outcome.is_lost) {
    set_out_of_service(batch->device, outcome.error);
    if (!batch->is_revoked) {
      lose(*batch, outcome.error);
    }
  } else if (batch->is_revoked && !outcome.is_closed) {
    devices_[batch->device].is_in_service = true;  // it was only slow
    notes_.push_back(fmt::format("ModelServer: {} answers again and is in service",
                                 devices_[batch->device].name));
  }
  --batch->signature->running;
}

void Batcher::set_out_of_service(std::size_t device, const ErrorRef& cause) {
  DeviceState& state = devices_[device];
  if (state.is_in_service) {
    notes_.push_back(fmt::format("ModelServer: {} is out of service: {}",
                                 state.name,
                                 cause ? cause->to_string() : "its device was lost"));
  }
  state.is_in_service = false;
  state.loss = cause;
  if (std::ranges::none_of(devices_, &DeviceState::is_in_service)) {
    end_all(loss_error(cause, "no device is in service"));
  } else {
    // A retry needs a device on which it has not failed.
    for (auto place = retries_.begin(); place != retries_.end();) {
      const std::size_t lost_on = (*place)->lost_on;
      bool has_other = false;
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        has_other = has_other || (i != lost_on && devices_[i].is_in_service);
      }
      if (has_other) {
        ++place;
        continue;
      }
      --(*place)->signature->running;
      end(std::move(*place), loss_error(cause, "a device was lost, and no other is in service"));
      place = retries_.erase(place);
    }
  }
}

// A request whose device was lost runs once more, on another one.
void Batcher::lose(RunningBatch& batch, const ErrorRef& cause) {
  const bool has_other = std::ranges::any_of(devices_, &DeviceState::is_in_service);
  for (const RequestRef& request : batch.requests) {
    if (request->is_settled.load(std::memory_order_acquire)) {
      continue;
    }
    if (!options_.repeatable) {
      end(request, loss_error(cause, "the device was lost, and the pass does not run again"));
    } else if (request->lost_on != ServerRequest::kNowhere) {
      end(request, loss_error(cause, "a second device was lost under the request"));
    } else if (!has_other) {
      end(request, loss_error(cause, "the device was lost, and no other is in service"));
    } else {
      request->lost_on = batch.device;
      ++batch.signature->running;
      retries_.push_back(request);
    }
  }
}

void Batcher::revoke_hung(TimePoint now) {
  for (const BatchRef& batch : std::vector<BatchRef>(running_)) {
    if (!batch->is_revoked && now - batch->begin >= options_.hang_limit) {
      batch->is_revoked = true;
      const ErrorRef cause = error_of(ErrorCode::device_lost,
                                      fmt::format("a batch of {} rows on {} runs for {:.0f} ms",
                                                  batch->rows,
                                                  devices_[batch->device].name,
                                                  milliseconds(now - batch->begin)));
      set_out_of_service(batch->device, cause);
      lose(*batch, cause);
    }
  }
}

bool Batcher::end_if_over(const RequestRef& request, TimePoint now) {
  if (request->is_settled.load(std::memory_order_acquire)) {
    return true;
  }
  if (ErrorRef reason = reason_to_end(*request, now)) {
    end(request, std::move(reason));
    return true;
  }
  next_deadline_ = std::min(next_deadline_, request->deadline);
  return false;
}

void Batcher::expire_running(TimePoint now) {
  for (const BatchRef& batch : running_) {
    for (const RequestRef& request : batch->requests) {
      if (request->deadline <= now) {
        static_cast<void>(end_if_over(request, now));
      } else if (!request->is_settled.load(std::memory_order_acquire)) {
        next_deadline_ = std::min(next_deadline_, request->deadline);
      }
    }
  }
}

void Batcher::expire(TimePoint now) {
  revoke_hung(now);
  if (now < next_deadline_) {
    return;
  }
  next_deadline_ = TimePoint::max();
  bool are_late = false;
  for (const auto& entry : signatures_) {
    BatchSignature& signature = *entry.second;
    for (std::deque<RequestRef>& queue : signature.waiting) {
      std::erase_if(queue, [&](const RequestRef& request) {
        const bool is_over = end_if_over(request, now);
        are_late = are_late || (is_over && missed_its_prediction(*request, now));
        signature.waiting_rows -= is_over ? request->rows : 0;
        waiting_rows_ -= is_over ? request->rows : 0;
        return is_over;
      });
    }
  }
  if (are_late) {
    note_waits(true);
  }
  std::erase_if(retries_, [&](const RequestRef& request) {
    const bool is_over = end_if_over(request, now);
    request->signature->running -= is_over ? 1 : 0;
    return is_over;
  });
  expire_running(now);
}

TimePoint Batcher::next_expiry() const noexcept {
  TimePoint next = next_deadline_;
  for (const BatchRef& batch : running_) {
    if (!batch->is_revoked && options_.hang_limit < TimePoint::max() - batch->begin) {
      next = std::min(next, batch->begin + options_.hang_limit);
    }
  }
  return next;
}

void Batcher::end_all(const ErrorRef& error) {
  for (const auto& entry : signatures_) {
    for (std::deque<RequestRef>& queue : entry.second->waiting) {
      for (RequestRef& request : queue) {
        waiting_rows_ -= request->rows;
        entry.second->waiting_rows -= request->rows;
        end(std::move(request), error);
      }
      queue.clear();
    }
  }
  for (RequestRef& request : retries_) {
    --request->signature->running;
    end(std::move(request), error);
  }
  retries_.clear();
}

bool Batcher::has_work_for(std::size_t device) const noexcept {
  return devices_[device].is_in_service &&
         (waiting_rows_ != 0 || std::ranges::any_of(retries_, [device](const RequestRef& request) {
            return request->lost_on != device;
          }));
}

}  // namespace hearth::detail
