// A batch: dispatches or copies that a queue runs together, as a list. Threads: one owner at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/encoder/kernel_handle.hpp"
#include "backends/gpu/encoder/library_product.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {

class Queue;

struct Dispatch {
  KernelHandle kernel;      ///< None: `call` runs.
  const LibraryCall* call;  ///< Its parameters: the addresses of a, b, y, bias and scratch.
  Grid grid;
  bool is_behind_barrier;  ///< A barrier makes earlier writes visible to it.
  std::uint32_t timed_as;  ///< Launch::timed_as.
  /// The parameters lie in the queue's ring: `parameters` holds their address there.
  bool is_in_ring;
  std::uint32_t parameter_bytes;
  std::array<std::byte, kPushBytes> parameters;
};

/// A place in a piece of memory, as the device's copies name it.
struct CopyPlace {
  std::uint64_t piece = 0;  ///< The driver's word for the piece.
  std::int64_t offset_bytes = 0;
};

struct Copy {
  CopyPlace from;
  CopyPlace to;
  std::int64_t size_bytes = 0;
};

/// A value of a queue's timeline.
struct QueueValue {
  const Queue* queue = nullptr;
  std::uint64_t value = 0;
};

/// Objects of the driver for one batch. Each kind of queue derives from it.
class BatchObjects {
 public:
  BatchObjects() = default;
  BatchObjects(const BatchObjects&) = delete;
  BatchObjects& operator=(const BatchObjects&) = delete;
  virtual ~BatchObjects() = default;
};

struct Batch {
  std::unique_ptr<BatchObjects> objects;
  std::uint64_t value = 0;           ///< Value of the timeline at the batch's end.
  std::uint64_t parameters_end = 0;  ///< Position of the parameter ring that the batch's end frees.
  std::vector<QueueValue> waits;     ///< The batch begins behind these values.
  std::vector<Dispatch> dispatches;
  std::vector<Copy> copies;
  std::size_t recorded = 0;  ///< Number of dispatches that the queue has recorded.
  bool is_timed = false;     ///< Queue::time() was called.
  bool hangs = false;        ///< The batch never runs, for tests.
};

}  // namespace hearth::gpu
