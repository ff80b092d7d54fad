// Factory of the library's memory strategies. Threads: any.
#pragma once

#include <hearth/memory/memory_pooling.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>

#include <cstdint>
#include <memory>

namespace hearth {

/// Makes the strategy of this name.
///
/// Lifetime: the provider outlives the strategy.
[[nodiscard]] std::unique_ptr<MemoryStrategy> make_memory_strategy(MemoryPooling pooling,
                                                                   PageProvider& provider,
                                                                   std::int64_t budget_bytes);

}  // namespace hearth
