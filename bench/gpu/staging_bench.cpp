// hearth-gpu-staging [DEVICE]: uploads and downloads 256 MiB of ordinary memory with pieces and
// threads of every size, one JSON line each. Beside it, the host's time for one piece, during which
// other streams wait. StagingOptions and the threads of device_list come from here.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <hearth/backends/vulkan/vulkan_backend.hpp>

#include "backends/gpu/copies/host_copier.hpp"
#include "bench/gpu/transfer_figures.hpp"

namespace hearth::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kBytes = std::size_t{256} << 20;

template <class Fn>
double median_seconds(int repeats, const Fn& fn) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    fn();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void measure(int index, std::int64_t piece_bytes, int threads) {
  const auto backend = vulkan::VulkanBackend::open({.name = fmt::format("vulkan:{}", index),
                                                    .index = index,
                                                    .staging = {.ring_bytes = 8 * piece_bytes,
                                                                .piece_bytes = piece_bytes,
                                                                .threads = threads}})
                           .value();
  const Page page = backend->pages().allocate_page(std::int64_t{kBytes}).value();
  std::vector<std::byte> host(kBytes, std::byte{1});
  const double up = median_seconds(7, [&] {
    TransferFigures::whole(*backend, kBytes, [&](std::size_t done) {
      return backend->copies().upload(page.data + done, std::span(host).subspan(done), {});
    });
  });
  const double down = median_seconds(7, [&] {
    TransferFigures::whole(*backend, kBytes, [&](std::size_t done) {
      return backend->copies().download(std::span(host).subspan(done), page.data + done, {});
    });
  });
  gpu::HostCopier copier(threads);
  std::vector<std::byte> ring(static_cast<std::size_t>(8 * piece_bytes));
  std::size_t place = 0;
  const double piece = median_seconds(64, [&] {
    const auto size = static_cast<std::size_t>(piece_bytes);
    copier.copy(ring.data() + place % ring.size(), std::span(host).subspan(place % kBytes, size));
    place += size;
  });
  fmt::print(
      "{{\"bench\": \"staging\", \"piece_KiB\": {}, \"threads\": {}, \"up_GBps\": {:.2f}, "
      "\"down_GBps\": {:.2f}, \"piece_us\": {:.0f}}}\n",
      piece_bytes >> 10,
      threads,
      static_cast<double>(kBytes) / up / 1e9,
      static_cast<double>(kBytes) / down / 1e9,
      piece * 1e6);
  std::fflush(stdout);
  backend->pages().free_page(page);
}

int run(int argc, char** argv) {
  const std::string_view asked = argc > 1 ? argv[1] : "0";
  if (argc > 2 || asked.empty() || asked.find_first_not_of("0123456789") != asked.npos) {
    const bool helps = argc == 2 && (asked == "--help" || asked == "-h");
    fmt::print(helps ? stdout : stderr, "usage: hearth-gpu-staging [NUMBER OF THE DEVICE]\n");
    return helps ? 0 : 2;
  }
  for (const int threads : {1, 2, 4, 8}) {
    for (const std::int64_t mebibytes : {1, 2, 4, 8, 16}) {
      measure(std::stoi(std::string(asked)), mebibytes << 20, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    return hearth::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "hearth-gpu-staging: {}\n", error.what());
    return 1;
  }
}
