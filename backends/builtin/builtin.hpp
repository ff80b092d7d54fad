// The backends that this build has: from a device's name to its backend.
// An explicit list; nothing registers itself. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sim_schedule.hpp>

namespace hearth {

struct BackendRequest {
  std::string name;             ///< "cpu:0": the kind of device before the colon, its number behind
  std::vector<int> cores = {};  ///< cpu: the logical CPUs of the device
  bool is_serial = false;       ///< never fork (manual executor)
  bool sim_computes = true;     ///< sim: false = kernels of no cost and no result
  FaultPlan faults = {};        ///< sim, vulkan: what goes wrong
  /// sim: its work is asynchronous, and ends in this way; empty = inline
  std::optional<SimSchedule> sim_schedule = {};
};

/// Errors: not_found, with the kinds of device that there are.
[[nodiscard]] Result<std::unique_ptr<Backend>> make_backend(const BackendRequest& request);
/// "cpu", "vulkan", "reference", "sim"; a machine may lack what one of them needs.
[[nodiscard]] std::vector<std::string_view> backend_kinds();

}  // namespace hearth
