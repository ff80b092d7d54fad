// A program's memory strategy that forwards to the library's, but throws in acquire number
// `throws_at` from now on. 0: none throws; -1: the next returns ok without bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>

#include "forwarding_strategy.hpp"

namespace hearth::testing {

class ThrowingStrategy final : public ForwardingStrategy {
 public:
  ThrowingStrategy(PageProvider& pages, std::int64_t budget_bytes, int& throws_at)
      : ForwardingStrategy(pages, budget_bytes), throws_at_(throws_at) {}
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
    if (throws_at_ > 0 && --throws_at_ == 0) {
      throw std::bad_alloc();
    }
    if (throws_at_ < 0) {
      throws_at_ = 0;
      out = {};
      return Acquire::ok;
    }
    return ForwardingStrategy::acquire(size_bytes, kind, out);
  }

 private:
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
