// Cost of a DevicePool per tensor, with many live blocks, and the saving of a warm pool over fresh
// pages.
#include <hearth/memory/device_pool.hpp>
#include <hearth/memory/host_page_provider.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

using hearth::Acquire;
using hearth::Block;
using hearth::DevicePool;
using hearth::HostPageProvider;
using hearth::PoolKind;

std::vector<std::int64_t> mixed_sizes(std::size_t count, std::int64_t largest_bytes) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> sizes(count);
  for (std::int64_t& size : sizes) {
    size = 64 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest_bytes));
  }
  return sizes;
}

std::vector<Block> fill(DevicePool& pool,
                        const std::vector<std::int64_t>& sizes,
                        std::int64_t count) {
  std::vector<Block> blocks(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (pool.acquire(sizes[i % sizes.size()], PoolKind::temporary, blocks[i]) != Acquire::ok) {
      std::abort();
    }
  }
  return blocks;
}

// Frees a block of one random size and takes one of another, as a running program does, without
// helpful locality.
void BM_Pool_AllocateFree(benchmark::State& state) {
  HostPageProvider pages;
  DevicePool pool(pages);
  const std::vector<std::int64_t> sizes = mixed_sizes(4096, 60'000);
  std::vector<Block> live = fill(pool, sizes, state.range(0));
  std::mt19937_64 random(11);
  std::vector<std::uint32_t> victims(4096);
  for (std::uint32_t& victim : victims) {
    victim = static_cast<std::uint32_t>(random() % live.size());
  }
  std::size_t at = 0;
  for (auto _ : state) {
    Block& block = live[victims[at % victims.size()]];
    pool.release(block, {});
    benchmark::DoNotOptimize(pool.acquire(sizes[at % sizes.size()], PoolKind::temporary, block));
    ++at;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Pool_AllocateFree)->ArgName("live")->Arg(10)->Arg(1000)->Arg(10'000)->Arg(100'000);

// The common case of a steady program: it requests the size that was freed last.
void BM_Pool_ReuseLast(benchmark::State& state) {
  HostPageProvider pages;
  DevicePool pool(pages);
  const std::vector<Block> live = fill(pool, mixed_sizes(4096, 60'000), state.range(0));
  for (auto _ : state) {
    Block block;
    benchmark::DoNotOptimize(pool.acquire(4096, PoolKind::temporary, block));
    pool.release(block, {});
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Pool_ReuseLast)->ArgName("live")->Arg(10'000);

// Writes a 64 MiB tensor whose bytes are warm (trim 0), or fresh from the system each time (trim
// 1).
void BM_Pool_Write64MiB(benchmark::State& state) {
  HostPageProvider pages;
  DevicePool pool(pages);
  constexpr std::int64_t kSizeBytes = std::int64_t{64} << 20;
  for (auto _ : state) {
    Block block;
    benchmark::DoNotOptimize(pool.acquire(kSizeBytes, PoolKind::temporary, block));
    std::memset(block.data, 1, static_cast<std::size_t>(kSizeBytes));
    pool.release(block, {});
    if (state.range(0) == 1) {
      pool.trim();
    }
  }
  state.SetBytesProcessed(state.iterations() * kSizeBytes);
}
BENCHMARK(BM_Pool_Write64MiB)->ArgName("trim")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
