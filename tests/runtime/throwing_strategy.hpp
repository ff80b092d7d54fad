// A program's memory strategy that throws: the library's, but acquire number `throws_at` from now on throws; 0: none does; -1: the next
// answers ok and gives no bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>

#include <hearth/memory/make_memory_strategy.hpp>

namespace hearth::testing {

class ThrowingStrategy final : public MemoryStrategy {
 public:
  ThrowingStrategy(PageProvider& pages, std::int64_t budget_bytes, int& throws_at)
      : real_(make_memory_strategy(MemoryPooling::default_pooling, pages, budget_bytes)),
        throws_at_(throws_at) {}
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
    if (throws_at_ > 0 && --throws_at_ == 0) {
      throw std::bad_alloc();
    }
    if (throws_at_ < 0) {
      throws_at_ = 0;
      out = {};
      return Acquire::ok;
    }
    return real_->acquire(size_bytes, kind, out);
  }
  void release(const Block& block, const LastUse& last_use) noexcept override {
    real_->release(block, last_use);
  }
  void retire(std::size_t stream, std::uint64_t value) noexcept override {
    real_->retire(stream, value);
  }
  void count_in_place(std::int64_t size_bytes) noexcept override {
    real_->count_in_place(size_bytes);
  }
  [[nodiscard]] MemoryReport report() const override { return real_->report(); }
  void reset_peak() noexcept override { real_->reset_peak(); }
  std::int64_t trim() noexcept override { return real_->trim(); }

 private:
  std::unique_ptr<MemoryStrategy> real_;
  int& throws_at_;
};

/// For DeviceOptions::make_memory.
[[nodiscard]] inline std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)>
throwing_memory(int& throws_at) {
  return [&throws_at](PageProvider& pages, std::int64_t budget_bytes) {
    return std::make_unique<ThrowingStrategy>(pages, budget_bytes, throws_at);
  };
}

}  // namespace hearth::testing
