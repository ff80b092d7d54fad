// What a device's memory holds, in words: which op made a tensor, on which line of the program.
// Plain values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

struct TensorOrigin {
  std::string op;           ///< "matmul"
  std::string type;         ///< "f32[64, 10]"
  std::string module_path;  ///< "model.layers.3.inner", or empty.
  SourceLoc location;       ///< The user's call; line 0 = unknown.

  /// "f32[64, 10] matmul in model.layers.3.inner at train.cpp:12"
  [[nodiscard]] std::string to_string() const;
};

/// Bytes that a tensor and its views share.
struct LiveTensor {
  std::int64_t size_bytes = 0;
  bool is_exclusive = false;  ///< Weights and optimizer state.
  TensorOrigin origin;
};

/// A tensor was made, took over the bytes of another in place, or was freed.
struct MemoryEvent {
  enum class What : std::uint8_t { made, replaced, freed };

  What what = What::made;
  std::uint64_t block = 0;  ///< Names the bytes, from their first event to `freed`.
  detail::TimePoint time;
  LiveTensor tensor;  ///< Of `freed`: the one that was there last.
};

/// All events of a device between start_memory_trace() and take_memory_trace(), in order. It begins
/// with a `made` for each tensor that was there, all with one time.
using MemoryTrace = std::vector<MemoryEvent>;

}  // namespace hearth
