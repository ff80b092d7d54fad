// Results of concurrent_inference's clients, as a live line and as a table. A part of
// concurrent_inference.cpp.
#pragma once

#include "client.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <hearth/hearth.hpp>

namespace concurrent_inference {

inline Clock::duration duration_of(double seconds) {
  // Rounded up, so that a time above 0 stays above 0.
  return std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline Latencies::Counts counts_of(const std::vector<std::unique_ptr<Client>>& clients) {
  Latencies::Counts sum{};
  for (const auto& client : clients) {
    client->latencies.add_to(sum);
  }
  return sum;
}

inline double device_mib(const std::vector<hearth::Device>& devices) {
  std::int64_t bytes = 0;
  for (const hearth::Device& device : devices) {
    bytes += device.memory().reserved_bytes;
  }
  return static_cast<double>(bytes) / (1 << 20);
}

inline double process_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// Totals of all clients.
struct Figures {
  Latencies::Counts counts{};
  std::uint64_t right = 0;
  std::uint64_t shed = 0;
  std::uint64_t late = 0;

  void add(const Client& client) {
    client.latencies.add_to(counts);
    right += client.right;
    shed += client.shed;
    late += client.late;
  }
  void print(const std::string& name, double seconds) const {
    const auto requests = static_cast<double>(Latencies::total(counts));
    std::printf("%-10s %10.0f %12.0f %10.0f %10.0f %9.2f %% %10llu %10llu\n",
                name.c_str(),
                requests,
                requests / seconds,
                Latencies::quantile_us(counts, 0.5),
                Latencies::quantile_us(counts, 0.99),
                100 * static_cast<double>(right) / std::max(requests, 1.0),
                static_cast<unsigned long long>(shed),
                static_cast<unsigned long long>(late));
  }
};

/// The clients of one run, and its duration.
struct Run {
  std::vector<std::unique_ptr<Client>> clients;
  double seconds = 0;

  [[nodiscard]] Figures figures() const {
    Figures all;
    for (const auto& client : clients) {
      all.add(*client);
    }
    return all;
  }
  [[nodiscard]] double answers_per_second() const {
    return static_cast<double>(Latencies::total(counts_of(clients))) / seconds;
  }
};

inline void print_table(const Run& run, const std::vector<hearth::Device>& devices) {
  std::printf("\n%-10s %10s %12s %10s %10s %11s %10s %10s\n",
              "device",
              "answered",
              "answers/s",
              "p50 us",
              "p99 us",
              "right",
              "shed",
              "late");
  for (const hearth::Device& device : devices) {
    Figures own;
    for (const auto& client : run.clients) {
      if (client->device == device) {
        own.add(*client);
      }
    }
    own.print(device.name(), run.seconds);
  }
  run.figures().print("all", run.seconds);
  std::printf("device memory %.1f MiB, process %.1f MiB\n", device_mib(devices), process_mib());
}

/// Prints a line twice a second until the time is over.
inline void watch(const std::vector<std::unique_ptr<Client>>& clients,
                  const std::vector<hearth::Device>& devices,
                  double seconds) {
  const Pause pause;
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  const Clock::time_point start = Clock::now();
  const auto seconds_since = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  Latencies::Counts before{};
  Clock::time_point last = start;
  while (seconds_since(start) < seconds) {
    const double left = seconds - seconds_since(start);
    pause.until(Clock::now() + duration_of(std::clamp(left, 0.01, 0.5)));
    const Latencies::Counts now = counts_of(clients);
    Latencies::Counts window{};
    for (std::size_t i = 0; i < now.size(); ++i) {
      window[i] = now[i] - before[i];
    }
    std::printf("%s%4.1f s  %7.0f requests/s  p50 %5.0f us  p99 %6.0f us  memory %5.1f MiB%s",
                is_terminal ? "\r" : "",
                seconds_since(start),
                static_cast<double>(Latencies::total(window)) / seconds_since(last),
                Latencies::quantile_us(window, 0.5),
                Latencies::quantile_us(window, 0.99),
                device_mib(devices),
                is_terminal ? "  " : "\n");
    std::fflush(stdout);
    before = now;
    last = Clock::now();
  }
}

}  // namespace concurrent_inference
