// The backends of this build: creates a backend from a device name. An explicit table; nothing
// registers itself. Threads: any.
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
  std::string name;             ///< "cpu:0": device kind, colon, number
  std::vector<int> cores = {};  ///< cpu: the logical CPUs of the device
  bool is_serial = false;       ///< cpu: never fork (manual executor)
  bool sim_computes = true;     ///< sim: false: kernels have no cost and no results
  /// GPUs: executor of helper threads; null: none
  detail::Executor* executor = nullptr;
  /// GPUs: compile on helper threads where the kernel is not needed at once
  bool compiles_beside = true;
  int copy_threads = 1;  ///< GPUs: number of host threads that copy into staging memory
  /// GPUs: receives events that no caller waits for; outlives the backend
  detail::Log* log = nullptr;
  FaultPlan faults = {};  ///< sim, GPUs: injected faults
  /// GPUs: time limit of the device thread's wait for work that makes no progress
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool allows_f16_sums = false;  ///< vulkan: allow f16 accumulation in f16 products
  bool allows_tf32 = false;      ///< cuda: allow f32 products to round factors to TF32
  /// sim: schedule of asynchronous work; empty: inline
  std::optional<SimSchedule> sim_schedule = {};
};

/// A device that this machine may offer.
struct BackendOffer {
  std::string name;         ///< "vulkan:0"
  std::string description;  ///< "NVIDIA H200, NVIDIA 580.159.04"
  bool is_gpu = false;      ///< A hardware GPU; false for a software driver.
  std::string lack = {};    ///< Why the device cannot be opened; empty if it can.
  bool is_built = true;     ///< Whether this build has its kind.
  std::string card = {};    ///< UUID of the card; empty if it is not known.
  /// Name of a usable CUDA device on the same card, which `auto` prefers; empty: there is none.
  std::string same_card_as = {};
  std::string note = {};  ///< What the device does without, with the remedy; empty: nothing.
};

struct OfferQuery {
  bool loads_libraries = false;  ///< Loads the libraries of products, to note their absence.
};
/// Lists the GPUs that `auto` may take, in its order: cards of CUDA's driver, then Vulkan's. A kind
/// that is not available has one entry with the reason; that of CUDA is the last.
///
/// Errors: invalid_argument, with the first device of its kind, if a setting names devices that do
/// not exist.
/// Cost: queries the drivers, up to half a second; a third more with libraries.
[[nodiscard]] Result<std::vector<BackendOffer>> offered_gpus(const OfferQuery& query = {});

/// Creates the backend of a device name.
/// Errors: not_found, with the list of device kinds.
[[nodiscard]] Result<std::unique_ptr<Backend>> make_backend(const BackendRequest& request);
/// Returns "cpu", "vulkan", "cuda", "reference", "sim". The machine may lack the hardware of a
/// kind.
[[nodiscard]] std::vector<std::string_view> backend_kinds();

}  // namespace hearth
