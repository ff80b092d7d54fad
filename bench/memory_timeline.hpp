// Draws a memory trace: time or events to the right, bytes upwards, and a band for each tensor,
// labelled as far as there is room. The full label appears under the pointer.
#pragma once

#include <string>
#include <vector>

#include <hearth/runtime/tensor_origin.hpp>

namespace hearth::bench {

/// Unit of the x axis.
enum class MemoryAxis : std::uint8_t {
  events,  ///< All allocations and releases have the same width.
  time,
};

/// Returns the picture as SVG text, with the title in a line above it.
[[nodiscard]] std::string draw_memory_timeline(const MemoryTrace& trace,
                                               const std::string& title,
                                               MemoryAxis axis = MemoryAxis::events);

/// Round numbers from 0 to `last`, about `count` of them: 1, 2 or 5 times a power of ten apart.
[[nodiscard]] std::vector<double> round_numbers(double last, int count);

}  // namespace hearth::bench
