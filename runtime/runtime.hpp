// Runtime: owns the devices, their actors and their shared state. A value of the program; several
// may coexist. The destructor stops intake, drains the actors with a limit and ends their threads.
// Remaining tensors, pendings and devices stay safe to use: they report device_closed. The log then
// reports the number of failures that the program never read, and the first.
// Threads: device() and devices() from any thread; construction and destruction by one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/autotune/numerics.hpp>
#include <hearth/memory/memory_pooling.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/runtime/base/sim_schedule.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/fusion.hpp>

namespace hearth {

namespace detail {
struct BackendFactory;
class Executor;
class Log;
class Watchdog;
}  // namespace detail
class MemoryStrategy;
class PageProvider;

/// The types of Runtime::executor(), log() and watchdog(), for functions that pass them on. An
/// executor of your own derives from the first (`runtime/base/threads/executor.hpp`).
using RuntimeExecutor = detail::Executor;
using RuntimeLog = detail::Log;
using RuntimeWatchdog = detail::Watchdog;

/// One device for the runtime to open.
struct DeviceOptions {
  /// Name of the device: "cpu:0", "cuda:0", "vulkan:0", "reference:0" or "sim:0". "auto" is the
  /// first GPU, by CUDA or else by Vulkan. Without a GPU it is cpu:0, with a warning in the log.
  std::string name;
  /// Logical CPUs of a cpu device, each once; empty = its share of the CPUs that the process may
  /// use.
  std::vector<int> cores = {};
  /// Limit on the device's memory; 0 = an equal share of 60 % of the memory that is free at start.
  /// A default runtime's reference:0 and sim:0 get a sixteenth each; a GPU gets nine tenths of its
  /// own memory.
  std::int64_t memory_budget_bytes = 0;
  /// How the device allocates memory.
  MemoryPooling memory = MemoryPooling::default_pooling;
  /// The program's own memory strategy, which keeps to the budget with the given pages
  /// (examples/memory_strategy.cpp). Called when the device opens, and again at each restart.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider& pages, std::int64_t budget_bytes)>
      make_memory = {};
  bool sim_computes = true;  ///< sim only: false = kernels of no cost and no result.
  /// Faults to inject on the device, for tests; a generation that restart() begins has none. sim:
  /// all faults; vulkan: lost_at_submit, lost_at_call, refused_at_call, hanging_submit and
  /// failing_compiles; others are refused.
  std::optional<FaultPlan> faults = {};
  /// sim only: makes the device asynchronous, like a GPU. Work stays in flight until a wait, and
  /// completes in the order and at the times of the schedule. Empty = work completes at submission.
  std::optional<SimSchedule> sim_schedule = {};
};

struct RuntimeOptions {
  /// The devices to open; empty = those in HEARTH_DEVICES, else one "cpu:0" with all cores.
  /// "reference:0" and "sim:0" also exist then, for checks and tests, but devices() does not list
  /// them.
  std::vector<DeviceOptions> devices = {};
  /// Number of cpu devices that share the cores, without an explicit list. 0 = the value of
  /// HEARTH_CPU_DEVICES, else 1.
  int cpu_device_count = 0;
  /// How long the destructor waits for work in flight, and then for continuations that run. A
  /// kernel that does not return gets five more seconds; then the log names it, and its thread is
  /// abandoned.
  std::chrono::nanoseconds shutdown_limit = std::chrono::seconds(30);
  /// How long a read or another wait without its own deadline continues without progress. If the
  /// device has begun no op for this time (or an eighth more), DeadlineExceeded reports its current
  /// op. nanoseconds::max() = no limit.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  /// How long the thread of a GPU's device, and one that waits for its results, look for the end of
  /// work before they sleep. A sleeping thread wakes 10 to 60 us late, which counts in steps of
  /// less than a millisecond. Empty: 400 us if the process may use four cores or more, else 0.
  /// Threads that an executor steps never look.
  std::optional<std::chrono::nanoseconds> busy_wait = {};
  /// Makes the report of a wait's error (which thread waits for which) at once, for logs of CI or
  /// of a hanging training run. what() prints it, and the error comes up to 100 ms after its
  /// deadline. If false, HEARTH_EAGER_REPORTS=on sets it.
  bool eager_reports = false;
  /// Whether neighbouring ops of a stream run as one kernel. Empty: the value of HEARTH_FUSION,
  /// else on.
  std::optional<Fusion> fusion = {};
  /// Number of groups of ops, counted from the start, that run as one kernel. The others run one by
  /// one, and the log names the last such group at `warn`. Finds the first faulty group, as
  /// `hearth-bench bisect` does. Empty: the value of HEARTH_FUSION_LIMIT, else no limit.
  std::optional<std::uint64_t> fusion_limit = {};
  /// Rounds the f16 or bf16 result of each op in a fused group as if it ran alone. Fusion then
  /// changes no bit of these results. Otherwise such values stay f32 within a group: faster and
  /// more exact, but group ends may depend on timing (f32 and f64 are not affected). If false,
  /// HEARTH_ROUND_INTERMEDIATES=on sets it.
  bool round_intermediates = false;
  /// Makes every bit of a result the same in every run; with one submitting thread also the groups
  /// and the device's counters. Devices then look ahead until the program gives a reason to stop (a
  /// read, a sync, a full window), and `round_intermediates` holds. An op without a reader may run
  /// late. If false, HEARTH_DETERMINISTIC=on sets it.
  bool deterministic = false;
  /// Makes a device wait while the kernel of a group is compiled. Otherwise threads compile it and
  /// the ops run one by one meanwhile. Which bits a GPU's results get then depends on timing, so
  /// `deterministic` waits too. If false, HEARTH_BLOCKING_COMPILES=on sets it.
  bool blocking_compiles = false;
  /// Allows devices to sum products of f16 (matmul, convolutions) in f16, which matrix units of
  /// some GPUs do twice as fast. Sums then have the precision of f16, 2^-11 of their value at each
  /// step, and overflow above 65,504. Only Vulkan devices with such units use it. As PyTorch's
  /// allow_fp16_accumulation.
  bool allow_f16_sums = false;
  /// Allows devices to round the factors of f32 products (matmul) to TF32, which matrix units
  /// multiply some seven times as fast. A factor then has 11 bits in place of 24, and an error of
  /// up to 2^-11 of its value; sums stay f32. Only CUDA devices use it, for products that cuBLASLt
  /// computes. As PyTorch's allow_tf32.
  bool allow_tf32 = false;
  /// Whether kernels follow stored picks, and how many candidates trials compare for a call. Trials
  /// run while a device is idle, for at most 2 % of the time, and in tune(). No level changes a bit
  /// of a result. Empty: the value of HEARTH_AUTOTUNE, else balanced; with an executor that steps
  /// threads, off.
  std::optional<AutotuneLevel> autotune = {};
  /// File that gets a recording of the whole run (recording.hpp) when the runtime ends. Empty: the
  /// value of HEARTH_RECORD_FILE.
  std::string record_file = {};
  /// Executor that runs the threads; nullptr = operating system threads. A ManualExecutor steps
  /// them, for a program's tests. Must outlive the Runtime.
  RuntimeExecutor* executor = nullptr;
};

/// A device that this machine may offer to a runtime.
struct AvailableDevice {
  std::string name;  ///< Name of the device, "vulkan:0".
  /// Description of the hardware and driver, "NVIDIA H200, NVIDIA 580.159.04".
  std::string description;
  bool is_gpu = false;    ///< True for a hardware GPU; false for a software driver.
  std::string lack = {};  ///< Why the device cannot be opened; empty if it can.
  /// Name of a usable CUDA device on the same card ("cuda:0", for a "vulkan:0"); empty: there is
  /// none. A program that opens all GPUs skips this one.
  std::string same_card_as = {};
  std::string note = {};  ///< A lack that only slows the device down; empty: none.
};
/// Lists "cpu:0" and the GPUs that drivers report: first those of CUDA, then those of Vulkan.
/// Without a driver, one entry states that.
///
/// Cost: queries the drivers and loads cuBLASLt, up to a second. Threads: any.
[[nodiscard]] std::vector<AvailableDevice> available_devices();

/// Result of Runtime::tune(), in calls of different sizes, layouts or types.
struct TuneReport {
  int tuned_count = 0;     ///< Calls whose trials ended; the store keeps their results.
  int improved_count = 0;  ///< Tuned calls that another kernel runs from now on.
  int unclear_count = 0;   ///< Tuned calls without a verdict: the machine was too busy.
  int left_count = 0;      ///< Calls for which the time was too short.

  /// Formats the counts: "3 calls tuned, 2 faster, 0 unclear, 1 left".
  [[nodiscard]] std::string to_string() const;
};

class Runtime {
 public:
  /// Opens the devices.
  /// Errors: ArgumentError for options that contradict the machine or one another; ArgumentError
  /// for an unknown or repeated device, cores that this process may not use, or faults that the
  /// device does not support. FileError if a recording or a trace cannot be written to its path.
  /// OutOfMemory if the system has no thread or no memory for a device.
  explicit Runtime(RuntimeOptions options = {}, SourceLoc loc = SourceLoc::current());
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  /// The first of devices(), for programs that can use any device.
  [[nodiscard]] Device device() const;
  /// The device with this name. Errors: ArgumentError not_found, with the names that exist.
  [[nodiscard]] Device device(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
  // A literal 0 would be a null pointer to a name. Compilers show the line below: its comment is
  // the message.
  // clang-format off
  Device device(std::nullptr_t, SourceLoc = SourceLoc::current()) const = delete;  // devices have names, "cpu:0"; device() is the first, and devices() lists them
  // clang-format on
  /// The devices to work on: those of RuntimeOptions, else the cpu devices.
  [[nodiscard]] std::vector<Device> devices() const;
  /// All devices of a kind, such as "cpu" or "reference"; may be empty.
  [[nodiscard]] std::vector<Device> devices(std::string_view kind) const;
  /// Measures the device's peak rates (Device::peaks) on a separate backend, and stores them in the
  /// cache folder for later runs. Cpu devices of a runtime are measured together; each gets its
  /// part. The result is lower while the device or another program works.
  ///
  /// Errors: ArgumentError for a device of another runtime, or of a kind without meaningful speed
  /// (reference, sim); OutOfMemory; DeviceError; FileError if the result cannot be stored.
  /// Cost: a tenth of a second; a GPU also compiles two kernels.
  DevicePeaks measure_peaks(const Device& device, SourceLoc loc = SourceLoc::current()) const;
  /// Finds the fastest kernels for the calls that the device has run so far, by trials on memory of
  /// their own. The device uses the results from now on; later runs read them from the cache
  /// folder. Results keep all their bits. Call it on an idle machine, after a first step.
  ///
  /// Units: `limit`: time after which no further trial begins.
  /// Errors: ArgumentError for a device of another runtime, and if `autotune` allows no trials;
  /// OutOfMemory; DeviceError; FileError if the results cannot be stored.
  /// Cost: 50 to 500 ms for each call. Devices without choices return at once. A candidate that
  /// does not return blocks the call; once the program was ended, no later run tries it.
  TuneReport tune(const Device& device,
                  std::chrono::nanoseconds limit = std::chrono::minutes(1),
                  SourceLoc loc = SourceLoc::current()) const;
  /// The level of RuntimeOptions::autotune, or that of the environment.
  [[nodiscard]] AutotuneLevel autotune() const noexcept;
  [[nodiscard]] RuntimeExecutor& executor() const noexcept;
  /// The log for the person who runs the program; the library reports everything else there.
  [[nodiscard]] RuntimeLog& log() const noexcept;
  /// The watchdog, which records which thread waits for which and reports it when a deadline
  /// passes. Waits of other components (workers, servers) register themselves.
  [[nodiscard]] RuntimeWatchdog& watchdog() const noexcept;
  /// RuntimeOptions::wait_limit, for waits of other components.
  [[nodiscard]] std::chrono::nanoseconds wait_limit() const noexcept;
  /// RuntimeOptions::deterministic, or the value of HEARTH_DETERMINISTIC.
  [[nodiscard]] bool is_deterministic() const noexcept;
  /// The runner of the continuations of Pending::then.
  [[nodiscard]] ContinuationRunner& continuations() const noexcept;

  // ---- for the library ----
  /// Opens the devices with other backends than the built-in ones. The factory need not outlive the
  /// constructor.
  Runtime(RuntimeOptions options,
          const detail::BackendFactory& backends,
          SourceLoc loc = SourceLoc::current());
  /// All devices, including those that devices() does not list.
  [[nodiscard]] std::vector<Device> every_device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
