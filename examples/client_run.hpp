// Runs the clients of concurrent_inference for a given time. A part of concurrent_inference.cpp.
#pragma once

#include "client_figures.hpp"
#include "concurrent_inference_options.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include <hearth/hearth.hpp>

namespace concurrent_inference {

/// `offered`: requests per second from all clients together; 0: each client waits for its last
/// answer.
template <class Model>
Run run_clients(const std::vector<hearth::Frozen<Model>>& replicas,
                const std::vector<hearth::Device>& devices,
                const hearth::ImageDataset& pictures,
                const Options& options,
                double offered,
                double limit_ms) {
  Run run;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  const double interval = offered > 0 ? options.clients / offered : 0;
  for (int i = 0; i < options.clients; ++i) {
    const auto& replica = replicas[static_cast<std::size_t>(i) % replicas.size()];
    run.clients.push_back(std::make_unique<Client>());
    run.clients.back()->device = replica.device();
    const Schedule schedule{.interval = duration_of(interval),
                            .limit = duration_of(limit_ms / 1000),
                            .next = start + duration_of(interval * i / options.clients)};
    threads.emplace_back([&, i, schedule, client = run.clients.back().get()] {
      ask(*client, replica, pictures, i * 101, schedule, is_over);
    });
  }
  watch(run.clients, devices, options.seconds);
  is_over.store(true, std::memory_order_release);
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return run;
}

inline int failures_of(const Run& run) {
  int failures = 0;
  for (const auto& client : run.clients) {
    if (!client->failure.empty()) {
      std::fprintf(stderr,
                   "a client on %s ended: %s\n",
                   client->device.name().c_str(),
                   client->failure.c_str());
      ++failures;
    }
  }
  return failures;
}

}  // namespace concurrent_inference
