// A memory trace as a picture: time or events to the right, bytes upwards, a band for each tensor
// with what it is, as far as there is room; all of it is said where the pointer rests.
#pragma once

#include <string>
#include <vector>

#include <hearth/runtime/tensor_origin.hpp>

namespace hearth::bench {

/// What is counted along x.
enum class MemoryAxis : std::uint8_t {
  events,  ///< Each allocation and release is as wide as the next.
  time,
};

/// The picture as SVG text. The title is a line above it.
[[nodiscard]] std::string draw_memory_timeline(const MemoryTrace& trace,
                                               const std::string& title,
                                               MemoryAxis axis = MemoryAxis::events);

/// Round numbers from 0 to `last`, about `count` of them: 1, 2 or 5 times a power of ten apart.
[[nodiscard]] std::vector<double> round_numbers(double last, int count);

}  // namespace hearth::bench
