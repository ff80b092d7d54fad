// The error of a device whose memory is used up: requested size, contents of the pools, largest
// tensors. Private to runtime. Touched by the token holder only.
#pragma once

#include <cstdint>

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/runtime/base/error.hpp>

#include "handle_table.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

[[nodiscard]] Error out_of_memory_error(const HandleTable& handles,
                                        const RuntimeTables& tables,
                                        std::int64_t size_bytes,
                                        Acquire outcome);

}  // namespace hearth
