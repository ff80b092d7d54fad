// A memory strategy that logs the use of a device's memory. It logs changes of the held bytes by
// more than an eighth, and the number of shortages. It wraps the real strategy only while the log
// level is debug. Owned by the device actor. Threads: as MemoryStrategy.
// Invariant: the number of lines grows with the logarithm of the number of events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <hearth/memory/memory_pooling.hpp>
#include <hearth/memory/memory_strategy.hpp>

namespace hearth {

class PageProvider;
struct RuntimeTables;

using MakeMemory =
    std::function<std::unique_ptr<MemoryStrategy>(PageProvider& pages, std::int64_t budget_bytes)>;

/// Wraps the strategy of `make`, or without `make` the library's own of this pooling, with the log
/// of `tables`.
[[nodiscard]] MakeMemory with_log(MakeMemory make,
                                  MemoryPooling pooling,
                                  std::string device,
                                  std::shared_ptr<RuntimeTables> tables);

/// Describes peaks and rungs in one line of text.
[[nodiscard]] std::string describe(const MemoryReport& report);

}  // namespace hearth
