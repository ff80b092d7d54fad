// The section `transfers` of hearth-gpu-bench: uploads and downloads in GB/s, from ordinary and
// from pinned memory. It also measures the time of a small op on another stream during a large
// upload. Ordinary memory goes through a runtime. Pinned memory goes through the backend's
// interface, because the public interface has none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

namespace hearth::bench {

class TransferFigures {
 public:
  explicit TransferFigures(Device device) : device_(std::move(device)) {}

  void measure(const std::string& name) const {
    ordinary();
    pinned(name);
    other_stream();
  }

  /// Runs all parts of a copy. `one_part` receives the number of bytes done and starts the next
  /// part.
  template <class Part>
  static void whole(Backend& backend, std::size_t size, const Part& one_part) {
    CopyPart last;
    for (std::size_t done = 0; done < size; done += last.size_bytes) {
      last = one_part(done).value();
      if (last.size_bytes == 0) {
        wait(backend, last.point);
      }
    }
    wait(backend, last.point);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kElements = std::size_t{64} << 20;  // 256 MiB
  static constexpr std::size_t kBytes = kElements * sizeof(float);
  static constexpr int kRepeats = 11;

  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  static void wait(Backend& backend, const TimelinePoint& point) {
    if (!point.is_done()) {
      static_cast<void>(backend.wait({&point, 1}, Deadline::in(kDefaultWait)));
      static_cast<void>(backend.completed(point.stream));
    }
  }
  static void print_row(const char* name, const char* memory, std::vector<double> seconds) {
    std::ranges::sort(seconds);
    const double median = seconds[seconds.size() / 2];
    fmt::print(
        "{{\"bench\": \"{}\", \"memory\": \"{}\", \"median_us\": {:.1f}, \"min_us\": {:.1f}, "
        "\"max_us\": {:.1f}, \"GBps\": {:.2f}}}\n",
        name,
        memory,
        median * 1e6,
        seconds.front() * 1e6,
        seconds.back() * 1e6,
        static_cast<double>(kBytes) / median / 1e9);
    std::fflush(stdout);
  }

  void ordinary() const {
    std::vector<double> up;
    std::vector<double> down;
    const auto target = std::make_shared<std::vector<float>>(kElements);
    for (int i = 0; i < kRepeats; ++i) {
      std::vector<float> values(kElements, 1.0F);
      device_.sync();
      auto start = Clock::now();
      const Tensor there = Tensor::from(device_, std::move(values), {std::int64_t{kElements}});
      device_.sync();
      up.push_back(seconds_since(start));
      start = Clock::now();
      there.read_into(std::as_writable_bytes(std::span(*target)), target).get();
      down.push_back(seconds_since(start));
    }
    print_row("upload_256MiB", "ordinary", std::move(up));
    print_row("download_256MiB", "ordinary", std::move(down));
  }

  static void pinned(const std::string& name) {
    const auto backend = make_backend({.name = name}).value();
    const Page page = backend->pages().allocate_page(std::int64_t{kBytes}).value();
    {
      const HostBytes host = backend->copies().host_bytes(kBytes);
      std::ranges::fill(host.span(), std::byte{1});
      std::vector<double> up;
      std::vector<double> down;
      for (int i = 0; i < kRepeats; ++i) {
        auto start = Clock::now();
        whole(*backend, kBytes, [&](std::size_t done) {
          return backend->copies().upload(page.data + done, host.span().subspan(done), {});
        });
        up.push_back(seconds_since(start));
        start = Clock::now();
        whole(*backend, kBytes, [&](std::size_t done) {
          return backend->copies().download(host.span().subspan(done), page.data + done, {});
        });
        down.push_back(seconds_since(start));
      }
      print_row("upload_256MiB", "host_bytes", std::move(up));
      print_row("download_256MiB", "host_bytes", std::move(down));
    }
    backend->pages().free_page(page);
  }

  /// Time from the op's submit to its value on the host: alone, and beside a copy of 1 GiB.
  void other_stream() const {
    constexpr std::size_t kLarge = std::size_t{256} << 20;  // elements
    const Tensor small = ones(device_, {1});
    Stream first(device_);
    Stream second(device_);
    const auto ask = [&] {
      const StreamScope scope(second);
      const auto start = Clock::now();
      static_cast<void>((small + 1.0).item());
      return seconds_since(start);
    };
    std::vector<double> alone;
    for (int i = 0; i < 1000; ++i) {
      alone.push_back(ask());
    }
    say_latency("alone", std::move(alone), 0);
    std::vector<float> values(kLarge, 1.0F);
    const auto start = Clock::now();
    Tensor large;
    Pending<void> done;
    {
      const StreamScope scope(first);
      large = Tensor::from(device_, std::move(values), {std::int64_t{kLarge}});
      done = device_.sync_later();
    }
    std::vector<double> beside;
    while (!done.is_ready()) {
      beside.push_back(ask());
    }
    say_latency("beside_upload_1GiB", std::move(beside), seconds_since(start));
  }
  static void say_latency(const char* name, std::vector<double> seconds, double upload_seconds) {
    if (seconds.empty()) {
      fmt::print("{{\"bench\": \"small_op_{}\", \"asked\": 0}}\n", name);
      return;
    }
    std::ranges::sort(seconds);
    fmt::print(
        "{{\"bench\": \"small_op_{}\", \"asked\": {}, \"median_us\": {:.1f}, \"p99_us\": {:.1f}, "
        "\"max_us\": {:.1f}, \"upload_ms\": {:.1f}}}\n",
        name,
        seconds.size(),
        seconds[seconds.size() / 2] * 1e6,
        seconds[seconds.size() * 99 / 100] * 1e6,
        seconds.back() * 1e6,
        upload_seconds * 1e3);
    std::fflush(stdout);
  }

  Device device_;
};

}  // namespace hearth::bench
