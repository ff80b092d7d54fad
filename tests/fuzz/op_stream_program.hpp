// Programs of the public API from bytes: the same bytes give the same ops on any devices and under
// any schedule of threads. All values are small integers that every float type holds, and all ops
// exact, so that devices must agree to the last bit. Threads: stepped by a ManualExecutor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth::fuzz {

struct StreamProgram {
  std::span<const std::byte> bytes;
  std::uint64_t schedule = 0;  ///< Who runs next.
  bool has_groups = true;      ///< Optimizer steps, too.
};

/// A tensor that is alive at the end.
struct Outcome {
  std::vector<double> values = {};
  ErrorRef error = {};
};

struct StreamRun {
  std::vector<Outcome> outcomes;
  OpTrace trace;
  bool was_cut_short =
      false;  ///< A lost device takes no more ops: the tensors are others than without the loss.
  std::int64_t leaked_tensors = 0;
  std::int64_t leaked_bytes = 0;
};

/// Runs it on two devices of this type: "cpu", "sim", "reference". The faults are those of the
/// first sim device.
[[nodiscard]] StreamRun run_stream_program(const StreamProgram& program,
                                           const std::string& device_type,
                                           const std::optional<FaultPlan>& faults);

}  // namespace hearth::fuzz
