// Descriptions of the tensors in a device's memory: which op made them, on which line of the
// program. Plain values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

struct TensorOrigin {
  std::string op;           ///< Op that made it, "matmul".
  std::string type;         ///< Type and shape, "f32[64, 10]".
  std::string module_path;  ///< Module path, "model.layers.3.inner", or empty.
  SourceLoc location;       ///< The user's call; line 0 = unknown.

  /// Formats all: "f32[64, 10] matmul in model.layers.3.inner at train.cpp:12".
  [[nodiscard]] std::string to_string() const;
};

/// Bytes that a tensor and its views share.
struct LiveTensor {
  std::int64_t size_bytes = 0;
  bool is_exclusive = false;  ///< True for weights and optimizer state.
  TensorOrigin origin;
};

/// One change of memory: a tensor was made, replaced another in place, or was freed.
struct MemoryEvent {
  enum class What : std::uint8_t { made, replaced, freed };

  What what = What::made;
  std::uint64_t block = 0;  ///< Identifies the bytes, from their first event to `freed`.
  detail::TimePoint time;
  LiveTensor tensor;  ///< For `freed`: the last tensor in these bytes.
};

/// All events of a device between start_memory_trace() and take_memory_trace(), in order. Begins
/// with a `made` event for each tensor that existed, all with one time.
using MemoryTrace = std::vector<MemoryEvent>;

}  // namespace hearth
