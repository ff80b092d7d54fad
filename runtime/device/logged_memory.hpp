// A device's memory strategy that logs what becomes of its memory: when what is held grows or
// shrinks by more than an eighth, and how often it was short. Stands before the real one only while
// the log is at debug. Owned by the device actor. Threads: as MemoryStrategy. Invariant: the number
// of lines grows with the logarithm of what happens.
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

/// What `make` makes, or without one the library's own of this pooling, with the log that the
/// tables have.
[[nodiscard]] MakeMemory with_log(MakeMemory make,
                                  MemoryPooling pooling,
                                  std::string device,
                                  std::shared_ptr<RuntimeTables> tables);

/// For people: peaks and rungs, in one line.
[[nodiscard]] std::string describe(const MemoryReport& report);

}  // namespace hearth
