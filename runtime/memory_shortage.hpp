// What a device says when its memory is used up: how much was wanted, what the pools hold, who holds most.
// Private to runtime. Touched by the token holder only.
#pragma once

#include <cstdint>

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/runtime/base/error.hpp>

#include "device_endpoint.hpp"
#include "handle_table.hpp"

namespace hearth {

[[nodiscard]] Error out_of_memory_error(const HandleTable& handles,
                                        const RuntimeTables& tables,
                                        std::int64_t size_bytes,
                                        Acquire outcome);

}  // namespace hearth
