// A program's memory strategy that forwards to the library's; tests override the calls that they
// observe.
#pragma once

#include <cstdint>

#include <hearth/memory/forwarding_strategy.hpp>
#include <hearth/memory/make_memory_strategy.hpp>

namespace hearth::testing {

class ForwardingStrategy : public hearth::ForwardingStrategy {
 public:
  ForwardingStrategy(PageProvider& pages, std::int64_t budget_bytes)
      : hearth::ForwardingStrategy(
            make_memory_strategy(MemoryPooling::default_pooling, pages, budget_bytes)) {}
};

}  // namespace hearth::testing
