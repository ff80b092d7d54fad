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
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sim_schedule.hpp>

namespace hearth {

struct BackendRequest {
  std::string name;             ///< "cpu:0": the kind of device before the colon, its number behind
  std::vector<int> cores = {};  ///< cpu: the logical CPUs of the device
  bool is_serial = false;       ///< never fork (manual executor)
  bool sim_computes = true;     ///< sim: false = kernels of no cost and no result
  /// vulkan: for threads that work for it beside the device's own; null = there are none
  detail::Executor* executor = nullptr;
  bool compiles_beside = true;  ///< vulkan: by such threads, not where a kernel is needed first
  int copy_threads = 1;         ///< vulkan: how many of the host's bring bytes into staging memory
  /// vulkan: for what happens where nobody waits for an answer; outlives it
  detail::Log* log = nullptr;
  FaultPlan faults = {};  ///< sim, vulkan: what goes wrong
  /// vulkan: how long the device's own thread waits for work that does not come on
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool allows_f16_sums = false;  ///< vulkan: products of f16 may be summed in f16
  /// sim: its work is asynchronous, and ends in this way; empty = inline
  std::optional<SimSchedule> sim_schedule = {};
};

/// A device that this machine may offer.
struct BackendOffer {
  std::string name;         ///< "vulkan:0"
  std::string description;  ///< "NVIDIA H200, NVIDIA 580.159.04"
  bool is_gpu = false;      ///< A real one: a driver in software is none.
  std::string lack = {};    ///< Why it cannot be opened; empty where it can.
  bool is_built = true;     ///< This build has its kind.
};
/// The GPUs, and what stands for one: a kind that this machine lacks is one entry that says why.
///
/// Errors: invalid_argument, a setting that names devices that are not there.
/// Cost: asks drivers, up to half a second.
[[nodiscard]] Result<std::vector<BackendOffer>> offered_gpus();

/// Errors: not_found, with the kinds of device that there are.
[[nodiscard]] Result<std::unique_ptr<Backend>> make_backend(const BackendRequest& request);
/// "cpu", "vulkan", "reference", "sim"; a machine may lack what one of them needs.
[[nodiscard]] std::vector<std::string_view> backend_kinds();

}  // namespace hearth
