// Compares a window arena with the pool by the memory that each keeps. The requests of programs are
// recorded and replayed in two ways. (1) The pool serves all of them, as in the library. (2) An
// arena, planned with full knowledge of a window of requests, serves the blocks that live within
// one window; the pool serves the rest. The arena keeps its largest window's bytes.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/memory/forwarding_strategy.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/memory/make_memory_strategy.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench_models.hpp"

namespace hearth::bench {
namespace {

constexpr std::size_t kNever = ~std::size_t{0};

/// A block of a program; times count its requests and releases.
struct Lifetime {
  std::int64_t size_bytes = 0;
  PoolKind kind = PoolKind::temporary;
  std::size_t made_at = 0;
  std::size_t freed_at = kNever;
};
struct History {
  std::vector<Lifetime> blocks;     // in the order of their requests
  std::vector<std::size_t> events;  // index of the block: its request first, then its release
  std::vector<std::size_t> reads;   // number of blocks when the program read a value
};

class Noting final : public ForwardingStrategy {
 public:
  Noting(PageProvider& pages, std::int64_t budget_bytes, History& history)
      : ForwardingStrategy(
            make_memory_strategy(MemoryPooling::default_pooling, pages, budget_bytes)),
        history_(history) {}

  Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
    const Acquire outcome = ForwardingStrategy::acquire(size_bytes, kind, out);
    if (outcome == Acquire::ok) {
      open_[out.data] = history_.blocks.size();
      history_.events.push_back(history_.blocks.size());
      history_.blocks.push_back(
          {.size_bytes = size_bytes, .kind = kind, .made_at = history_.events.size()});
    }
    return outcome;
  }
  void release(const Block& block, const LastUse& last_use) noexcept override {
    const std::size_t index = open_.at(block.data);
    history_.events.push_back(index);
    history_.blocks[index].freed_at = history_.events.size();
    ForwardingStrategy::release(block, last_use);
  }

 private:
  History& history_;
  std::unordered_map<const std::byte*, std::size_t> open_;
};

// ---- programs ----

enum class Program : std::int64_t { training_step, batches_of_all_sizes, growing_cache };

template <class AfterRead>
void train(const Device& device, bool varies, const AfterRead& after_read) {
  Generator generator(1);
  Cnn model(device, generator);
  Adam adam({.learning_rate = 1e-3});
  std::mt19937 random(5);
  for (int step = 0; step < 30; ++step) {
    const std::int64_t batch = varies ? 1 + static_cast<std::int64_t>(random() % 128) : 64;
    const Tensor x = random_normal(device, Cnn::input_shape(batch), generator);
    const Tensor classes = zeros(device, {batch}, DType::i64);
    auto [loss, gradients] = value_and_grad(
        model, [&](const Cnn& tracked) { return cross_entropy(tracked.forward(x), classes); });
    adam.step(model, std::move(gradients)).get();
    benchmark::DoNotOptimize(loss.item());
    after_read();
  }
}

template <class AfterRead>
void decode(const Device& device, const AfterRead& after_read) {
  std::vector<std::pair<Tensor, Tensor>> caches;
  for (int layer = 0; layer < 8; ++layer) {
    caches.emplace_back(zeros(device, {32, 512}), zeros(device, {32, 512}));
  }
  for (int token = 0; token < 300; ++token) {
    Tensor x = ones(device, {1, 512});
    for (auto& [keys, values] : caches) {
      keys = concat({keys, x * 2}, 0);
      values = concat({values, x * 3}, 0);
      x = matmul(softmax(matmul(x, permute(keys, {1, 0})), 1), values);
    }
    benchmark::DoNotOptimize(x.to_vector<float>());
    after_read();
  }
}

History history_of(Program program) {
  History history;
  const auto noting = [&history](PageProvider& pages, std::int64_t budget_bytes) {
    return std::make_unique<Noting>(pages, budget_bytes, history);
  };
  const Runtime runtime(
      {.devices = {{.name = "sim:0", .make_memory = noting, .sim_computes = false}}});
  const Device device = runtime.device("sim:0");
  // After a read this thread has no work under way, so the history does not change.
  const auto after_read = [&] {
    device.sync();
    history.reads.push_back(history.blocks.size());
  };
  if (program == Program::growing_cache) {
    decode(device, after_read);
  } else {
    train(device, program == Program::batches_of_all_sizes, after_read);
  }
  return history;
}

// ---- the two ways ----

struct Kept {
  std::int64_t peak_live_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
};

/// Replays the history with the pool, without the blocks in `elsewhere`.
Kept by_pool(const History& history, const std::vector<bool>& elsewhere) {
  HostPageProvider pages;
  const auto pool =
      make_memory_strategy(MemoryPooling::default_pooling, pages, std::int64_t{1} << 40);
  std::vector<Block> out(history.blocks.size());
  for (const std::size_t index : history.events) {
    if (elsewhere[index]) {
      continue;
    }
    if (out[index].data == nullptr) {
      const Lifetime& block = history.blocks[index];
      if (pool->acquire(block.size_bytes, block.kind, out[index]) != Acquire::ok) {
        throw_error(Error{.code = ErrorCode::out_of_memory, .text = "the replay got no memory"});
      }
    } else {
      pool->release(out[index], {});
    }
  }
  const MemoryUsage total = pool->report().total;
  return {total.peak_live_bytes, total.peak_reserved_bytes};
}

/// Plans blocks largest first, each at the lowest place that is free while it lives; in practice no
/// plan is better.
std::int64_t planned_extent(std::vector<Lifetime> blocks) {
  struct Placed {
    std::int64_t begin;
    Lifetime block;
  };
  std::ranges::sort(blocks, std::greater(), &Lifetime::size_bytes);
  std::vector<Placed> placed;
  std::int64_t extent = 0;
  for (const Lifetime& block : blocks) {
    std::vector<std::pair<std::int64_t, std::int64_t>> busy;
    for (const Placed& other : placed) {
      if (other.block.made_at < block.freed_at && block.made_at < other.block.freed_at) {
        busy.emplace_back(other.begin, other.begin + other.block.size_bytes);
      }
    }
    std::ranges::sort(busy);
    std::int64_t place = 0;
    for (const auto& [begin, end] : busy) {
      if (begin - place >= block.size_bytes) {
        break;
      }
      place = std::max(place, end);
    }
    placed.push_back({place, block});
    extent = std::max(extent, place + block.size_bytes);
  }
  return extent;
}

/// Ends of windows of `length` requests, or of those between two reads.
std::vector<std::size_t> window_ends(const History& history, std::size_t length) {
  if (length == 0) {
    return history.reads;
  }
  std::vector<std::size_t> ends;
  for (std::size_t end = length; end < history.blocks.size() + length; end += length) {
    ends.push_back(std::min(end, history.blocks.size()));
  }
  return ends;
}

void BM_Memory_WindowArena(benchmark::State& state) {
  const History history = history_of(static_cast<Program>(state.range(0)));
  const std::size_t count = history.blocks.size();
  const Kept today = by_pool(history, std::vector<bool>(count, false));
  std::vector<bool> is_in_arena(count, false);
  std::int64_t arena_bytes = 0;
  std::size_t inside_count = 0;
  Kept rest;
  for (auto _ : state) {
    std::size_t begin = 0;
    for (const std::size_t end : window_ends(history, static_cast<std::size_t>(state.range(1)))) {
      const std::size_t closes =
          end < count ? history.blocks[end].made_at : history.events.size() + 1;
      std::vector<Lifetime> inside;
      for (std::size_t index = begin; index < end; ++index) {
        const Lifetime& block = history.blocks[index];
        if (block.kind == PoolKind::temporary && block.freed_at < closes) {
          is_in_arena[index] = true;
          inside.push_back(block);
        }
      }
      inside_count += inside.size();
      arena_bytes = std::max(arena_bytes, planned_extent(std::move(inside)));
      begin = end;
    }
    rest = by_pool(history, is_in_arena);
  }
  const auto live = static_cast<double>(today.peak_live_bytes);
  state.counters["blocks_in_arena"] =
      static_cast<double>(inside_count) / static_cast<double>(count);
  state.counters["pool_to_live"] = static_cast<double>(today.peak_reserved_bytes) / live;
  state.counters["arena_and_pool_to_live"] =
      static_cast<double>(arena_bytes + rest.peak_reserved_bytes) / live;
}
// window: in requests for memory; 0: from one read of the program to the next.
BENCHMARK(BM_Memory_WindowArena)
    ->ArgNames({"program", "window"})
    ->ArgsProduct({{0, 1, 2}, {32, 256, 1024, 0}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::bench
