// A memory trace as a picture: time to the right, bytes upwards, a named band for each tensor.
// Small tensors share a band.
#pragma once

#include <string>
#include <vector>

#include <hearth/runtime/tensor_origin.hpp>

namespace hearth::bench {

/// The picture as SVG text. The title is a line above it.
[[nodiscard]] std::string draw_memory_timeline(const MemoryTrace& trace, const std::string& title);

}  // namespace hearth::bench
