// A memory strategy of your own: it keeps freed blocks by rounded size for the next tensor of that
// size. A training run on it is compared with one on the library's own strategy.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include <hearth/hearth.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>

// A device calls its strategy from one thread at a time, so there are no locks.
class SizeCache final : public hearth::MemoryStrategy {
 public:
  SizeCache(hearth::PageProvider& pages, std::int64_t budget_bytes) : pages_(pages) {
    counts_.budget_bytes = budget_bytes;
  }
  ~SizeCache() override {
    for (const hearth::Page& page : all_) {
      pages_.free_page(page);
    }
  }

  hearth::Acquire acquire(std::int64_t size_bytes,
                          hearth::PoolKind /*kind*/,
                          hearth::Block& out) override {
    const std::int64_t rounded = round_up(size_bytes);
    std::vector<std::uint32_t>& free = free_[rounded];
    if (free.empty()) {
      if (rounded > counts_.budget_bytes - counts_.total.reserved_bytes) {
        // a better strategy would first release free blocks of other sizes
        return hearth::Acquire::over_budget;
      }
      const hearth::Result<hearth::Page> page = pages_.allocate_page(rounded);
      if (!page.has_value()) {
        return hearth::Acquire::exhausted;
      }
      free.push_back(static_cast<std::uint32_t>(all_.size()));
      all_.push_back(page.value());
      counts_.total.reserved_bytes += page.value().size_bytes;
      counts_.total.page_count = static_cast<std::int64_t>(all_.size());
    }
    const std::uint32_t index = free.back();
    free.pop_back();
    out = {.data = all_[index].data, .size_bytes = size_bytes, .index = index};
    count_live(all_[index].size_bytes, 1);
    ++counts_.total.acquire_count;
    return hearth::Acquire::ok;
  }

  // A CPU device has finished a block's work when it releases the block: `last_use` names no other
  // stream, so retire() has nothing to do.
  void release(const hearth::Block& block, const hearth::LastUse& /*last_use*/) noexcept override {
    free_[round_up(block.size_bytes)].push_back(block.index);
    count_live(-all_[block.index].size_bytes, -1);
  }
  void retire(std::size_t /*stream*/, std::uint64_t /*value*/) noexcept override {}

  void count_in_place(std::int64_t size_bytes) noexcept override {
    ++counts_.in_place_count;
    counts_.in_place_bytes += size_bytes;
  }
  hearth::MemoryReport report() const override {
    hearth::MemoryReport report = counts_;
    report.total.free_bytes = report.total.reserved_bytes - report.total.live_bytes;
    return report;
  }
  void reset_peak() noexcept override { counts_.total.peak_live_bytes = counts_.total.live_bytes; }
  std::int64_t trim() noexcept override { return 0; }  // pages stay until the device ends

 private:
  static std::int64_t round_up(std::int64_t size_bytes) noexcept {
    std::int64_t rounded = 4096;
    while (rounded < size_bytes) {
      rounded *= 2;
    }
    return rounded;
  }
  void count_live(std::int64_t bytes, std::int64_t count) noexcept {
    hearth::MemoryUsage& total = counts_.total;
    total.live_bytes += bytes;
    total.live_count += count;
    total.peak_live_bytes = std::max(total.peak_live_bytes, total.live_bytes);
    total.peak_reserved_bytes = std::max(total.peak_reserved_bytes, total.reserved_bytes);
  }

  hearth::PageProvider& pages_;
  std::vector<hearth::Page> all_;
  std::map<std::int64_t, std::vector<std::uint32_t>> free_;
  hearth::MemoryReport counts_;
};

static void train(const char* name, const hearth::DeviceOptions& options) {
  const hearth::Runtime runtime({.devices = {options}});
  const hearth::Device device = runtime.device(options.name);
  hearth::Generator generator(1);
  hearth::Linear model({.in = 256, .out = 10}, device, generator);
  hearth::Adam adam({.learning_rate = 1e-2});
  const hearth::Tensor x = random_normal(device, {64, 256}, generator);
  const hearth::Tensor y = cast(random_uniform(device, {64}, generator, 0, 10), hearth::DType::i64);
  double loss = 0;
  for (int step = 0; step < 20; ++step) {
    auto [value, gradients] = hearth::value_and_grad(
        model, [&](const hearth::Linear& tracked) { return cross_entropy(tracked.forward(x), y); });
    auto report = adam.step(model, std::move(gradients));
    loss = value.item();
  }
  const hearth::MemoryReport memory = device.memory_report();
  std::printf(
      "%-16s loss %.4f, peak live %6.1f KiB, peak reserved %6.1f KiB, in place %llu times\n",
      name,
      loss,
      static_cast<double>(memory.total.peak_live_bytes) / 1024,
      static_cast<double>(memory.total.peak_reserved_bytes) / 1024,
      static_cast<unsigned long long>(memory.in_place_count));
}

int main() {
  train("default_pooling", {.name = "cpu:0"});
  train("exclusive", {.name = "cpu:0", .memory = hearth::MemoryPooling::exclusive});
  train("debug", {.name = "cpu:0", .memory = hearth::MemoryPooling::debug});
  train(
      "SizeCache",
      {.name = "cpu:0", .make_memory = [](hearth::PageProvider& pages, std::int64_t budget_bytes) {
         return std::make_unique<SizeCache>(pages, budget_bytes);
       }});
}
