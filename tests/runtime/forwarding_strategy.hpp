// A program's memory strategy that leaves the work to the library's: tests override what they look at.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/memory/make_memory_strategy.hpp>

namespace hearth::testing {

class ForwardingStrategy : public MemoryStrategy {
 public:
  ForwardingStrategy(PageProvider& pages, std::int64_t budget_bytes)
      : real_(make_memory_strategy(MemoryPooling::default_pooling, pages, budget_bytes)) {}
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
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
};

}  // namespace hearth::testing
