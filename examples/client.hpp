// A client of concurrent_inference: a thread that sends one request after another. A part of
// concurrent_inference.cpp.
#pragma once

#include "latencies.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

namespace concurrent_inference {

struct Client {
  hearth::Device device;
  Latencies latencies;  // of the requests answered in time
  std::uint64_t right = 0;
  std::uint64_t shed = 0;  // rejected before they ran
  std::uint64_t late = 0;  // cancelled at their limit, or answered after it
  std::string failure;
};

/// Sleeps until a time. No event ends the wait early.
class Pause {
 public:
  void until(Clock::time_point time) const {
    static_cast<void>(end_.wait({.deadline = hearth::Deadline::at(time)}));
  }

 private:
  hearth::Promise<void> never_;
  hearth::Pending<void> end_ = never_.pending();
};

/// Arrival times of a client's requests, and their time limit.
struct Schedule {
  Clock::duration interval{};  // zero: each request follows the last answer
  Clock::duration limit{};     // zero: no limit
  Clock::time_point next;

  /// Waits for the next request and returns its arrival time.
  Clock::time_point take(Client& client, const Pause& pause, const std::atomic<bool>& is_over) {
    if (interval == Clock::duration::zero()) {
      return Clock::now();
    }
    for (Clock::time_point now = Clock::now(); now < next; now = Clock::now()) {
      if (is_over.load(std::memory_order_acquire)) {
        return next;
      }
      pause.until(std::min(next, now + std::chrono::milliseconds(100)));
    }
    // A request that has waited too long would miss its limit and delay those behind it.
    for (const Clock::time_point oldest = Clock::now() - limit / 2; next < oldest;) {
      next += interval;
      ++client.shed;
    }
    return std::exchange(next, next + interval);
  }
};

/// Sends requests until `is_over`.
template <class Model>
void ask(Client& client,
         const hearth::Frozen<Model>& model,
         const hearth::ImageDataset& pictures,
         std::int64_t first,
         Schedule schedule,
         const std::atomic<bool>& is_over) try {
  const bool has_limit = schedule.limit != Clock::duration::zero();
  const Pause pause;
  hearth::Stream stream(model.device());
  const hearth::StreamScope scope(stream);
  for (std::int64_t i = first;; i += 7) {
    const std::array<std::int64_t, 1> index{i % pictures.size()};
    hearth::Examples example = pictures.read(index);
    const auto label = example.targets.template values<std::int64_t>()[0];
    const Clock::time_point start = schedule.take(client, pause, is_over);
    if (is_over.load(std::memory_order_acquire)) {
      return;
    }
    std::vector<float> scores;
    if (has_limit) {
      stream.set_limits({.deadline = hearth::Deadline::at(start + schedule.limit)});
    }
    try {
      const hearth::Tensor x = std::move(example.inputs).to(model.device());
      scores = model->forward(x).template to_vector<float>();
    } catch (const hearth::DeadlineExceeded&) {
      if (!has_limit) {
        throw;
      }
      ++client.late;  // its queued ops do not run
      continue;
    }
    const Clock::duration time = Clock::now() - start;
    if (has_limit && time > schedule.limit) {
      ++client.late;
      continue;
    }
    client.latencies.add(time);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    client.right += best == label ? 1 : 0;
  }
} catch (const std::exception& error) {
  client.failure = error.what();
}

}  // namespace concurrent_inference
