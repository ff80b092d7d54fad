// Memory strategy that forwards every call to another one. Derive from it to observe the calls or
// to change one of them.
// Owned by the owner of a strategy. Threads: as MemoryStrategy.
#pragma once

#include <hearth/memory/memory_strategy.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace hearth {

class ForwardingStrategy : public MemoryStrategy {
 public:
  explicit ForwardingStrategy(std::unique_ptr<MemoryStrategy> real) noexcept
      : real_(std::move(real)) {}

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
  [[nodiscard]] bool is_checked() const noexcept override { return real_->is_checked(); }
  [[nodiscard]] Status check(const Block& block) override { return real_->check(block); }

 private:
  std::unique_ptr<MemoryStrategy> real_;
};

}  // namespace hearth
