#include <hearth/memory/make_memory_strategy.hpp>

#include <hearth/memory/debug_pool.hpp>
#include <hearth/memory/device_pool.hpp>
#include <hearth/memory/exclusive_pool.hpp>

namespace hearth {

std::unique_ptr<MemoryStrategy> make_memory_strategy(MemoryPooling pooling,
                                                     PageProvider& provider,
                                                     std::int64_t budget_bytes) {
  switch (pooling) {
    case MemoryPooling::exclusive:
      return std::make_unique<ExclusivePool>(provider, budget_bytes);
    case MemoryPooling::debug:
      return std::make_unique<DebugPool>(provider, budget_bytes);
    case MemoryPooling::default_pooling:
      break;
  }
  return std::make_unique<DevicePool>(provider, PoolOptions{.budget_bytes = budget_bytes});
}

}  // namespace hearth
