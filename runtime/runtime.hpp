// Runtime: owns the devices, their actors and what they share. A value of the program; several may
// live side by side. Destroying it stops intake, drains the actors with a limit, and ends their
// threads; tensors, pendings and devices that are left over stay safe to use: they report
// device_closed. The log then says how many failures the program has never read, and the first.
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

/// What Runtime::executor(), log() and watchdog() give, for functions of your own that pass it on;
/// an executor of your own derives from the first (`runtime/base/executor.hpp`).
using RuntimeExecutor = detail::Executor;
using RuntimeLog = detail::Log;
using RuntimeWatchdog = detail::Watchdog;

/// One device for the runtime to open.
struct DeviceOptions {
  std::string name;  ///< "cpu:0", "vulkan:0", "reference:0", "sim:0"; "auto": the first
                     ///< GPU, or cpu:0 where there is none, as the log says (as a warning)
  std::vector<int> cores = {};  ///< Logical CPUs of a cpu device, each once; empty = its share of
                                ///< what the process may use.
  std::int64_t memory_budget_bytes =
      0;  ///< 0 = an equal share of 60 % of the memory that is free at start; of a default
          ///< runtime's reference:0 and sim:0, a sixteenth each; of a GPU, nine tenths of its own.
  /// How it hands out its memory.
  MemoryPooling memory = MemoryPooling::default_pooling;
  /// A strategy of the program's own instead, which keeps to the budget given with the pages
  /// (examples/memory_strategy.cpp). Called when the device opens, and again at each restart.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider& pages, std::int64_t budget_bytes)>
      make_memory = {};
  bool sim_computes = true;  ///< sim only: false = kernels of no cost and no result.
  /// What goes wrong on a device, and when, for tests of how a program bears it. A generation that
  /// restart() begins has no faults. sim: all of them; vulkan: lost_at_submit, lost_at_call,
  /// refused_at_call, hanging_submit and failing_compiles alone; what a device does not know is
  /// refused.
  std::optional<FaultPlan> faults = {};
  /// sim only: the device is asynchronous, as a GPU is. Its work is in flight until somebody waits
  /// for it, and ends in an order and at times that this gives. Empty = work has ended when it is
  /// submitted.
  std::optional<SimSchedule> sim_schedule = {};
};

struct RuntimeOptions {
  /// Empty = those that HEARTH_DEVICES names, else one "cpu:0" with all cores. "reference:0" and
  /// "sim:0" are there too, for checks and tests, but only for a program that names them: devices()
  /// does not list them.
  std::vector<DeviceOptions> devices = {};
  /// Without an explicit list: how many cpu devices share the cores. HEARTH_CPU_DEVICES sets it
  /// when 0; then 1.
  int cpu_device_count = 0;
  /// How long the destructor waits for work in flight, and then for continuations that run. A
  /// kernel that does not come back gets five seconds more. Who is still at it then is named in the
  /// log, and its thread is abandoned.
  std::chrono::nanoseconds shutdown_limit = std::chrono::seconds(30);
  /// How long a read, or another wait that names no deadline of its own, goes on without progress:
  /// when the device has begun no op for so long (or an eighth more), DeadlineExceeded says at what
  /// it is. A device that is busy with many ops keeps nobody from waiting on; one op that takes
  /// longer counts as a hang. nanoseconds::max(): for ever.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  /// Whether a wait's error has its report, who waits for whom, made at once, for logs of CI or of
  /// a training that hangs: what() prints it then, and the error comes up to 100 ms after its
  /// deadline. HEARTH_EAGER_REPORTS=on sets it when false.
  bool eager_reports = false;
  /// Whether neighbouring ops of a stream run as one kernel. Empty: what HEARTH_FUSION says, else
  /// on.
  std::optional<Fusion> fusion = {};
  /// How many groups of ops run as one kernel, counted from the start; the others run one by one.
  /// The log names the last, at `warn`: to find the first group that goes wrong, as `hearth-bench
  /// bisect` does. Empty: what HEARTH_FUSION_LIMIT says, else no limit.
  std::optional<std::uint64_t> fusion_limit = {};
  /// Whether each op of a fused group rounds its f16 or bf16 result, as it does alone: then fusion
  /// changes no bit of them, in whatever groups the ops run. Else such values stay f32 inside of a
  /// group, which is faster and more exact, but where a group ends may be a matter of time; f32 and
  /// f64 have the same bits in either case. HEARTH_ROUND_INTERMEDIATES=on sets it when false.
  bool round_intermediates = false;
  /// Whether nothing that can be seen of fusion is a matter of time. A device then looks ahead
  /// until the program gives it a reason to stop (a read, a sync, a full window), not until no op
  /// has come for a moment; and `round_intermediates` holds. So each bit of a result is the same in
  /// every run, and where one thread submits, groups, their numbers and the device's counters are,
  /// too. An op that nobody asks for may run late. HEARTH_DETERMINISTIC=on sets it when false.
  bool deterministic = false;
  /// Whether a device waits while the kernel of a group of ops is compiled. Else threads compile
  /// it, and the ops run one by one until it is there: which bits of a GPU's results they get is a
  /// matter of time, so `deterministic` makes devices wait. HEARTH_BLOCKING_COMPILES=on sets it
  /// when false.
  bool blocking_compiles = false;
  /// Whether devices may sum products of f16 (matmul, convolutions) in f16 where that is faster:
  /// matrix units of some GPUs are twice as fast so. Sums then have the precision of f16, 2^-11 of
  /// what they are at each step, and overflow above 65,504. Vulkan devices whose matrix units can
  /// do it do; others go on to sum in f32. PyTorch's allow_fp16_accumulation.
  bool allow_f16_sums = false;
  /// File that gets a recording of the whole run (recording.hpp) when the runtime ends.
  /// HEARTH_RECORD_FILE sets it when empty.
  std::string record_file = {};
  /// Who runs the threads; nullptr = operating system threads. A ManualExecutor steps them, for a
  /// program's tests. Must outlive the Runtime.
  RuntimeExecutor* executor = nullptr;
};

/// A device that this machine may offer to a runtime.
struct AvailableDevice {
  std::string name;         ///< "vulkan:0"
  std::string description;  ///< "NVIDIA H200, NVIDIA 580.159.04"
  bool is_gpu = false;      ///< A real one: a driver in software is none.
  std::string lack = {};    ///< Why it cannot be opened; empty where it can.
};
/// "cpu:0", and the GPUs that drivers show. Where there is no driver one entry says so.
///
/// Cost: asks the drivers, up to half a second. Threads: any.
[[nodiscard]] std::vector<AvailableDevice> available_devices();

class Runtime {
 public:
  /// Errors: ArgumentError for options that contradict the machine or one another: an unknown or
  /// repeated device, cores that this process may not use, faults that the device does not know.
  /// FileError when a recording or a trace cannot be written to its path. OutOfMemory when the
  /// system gives no thread for a device, or no memory.
  explicit Runtime(RuntimeOptions options = {}, SourceLoc loc = SourceLoc::current());
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  /// The first of devices(): for programs that mean any device.
  [[nodiscard]] Device device() const;
  /// Errors: ArgumentError not_found, with the names that exist.
  [[nodiscard]] Device device(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
  // A number 0 would be a null pointer to a name. Compilers show the line: it is the message.
  // clang-format off
  Device device(std::nullptr_t, SourceLoc = SourceLoc::current()) const = delete;  // devices have names, "cpu:0"; device() is the first, and devices() lists them
  // clang-format on
  /// The devices that RuntimeOptions name, else the cpu devices: those to work on.
  [[nodiscard]] std::vector<Device> devices() const;
  /// All devices of a kind, "cpu" or "reference" say; none is no error.
  [[nodiscard]] std::vector<Device> devices(std::string_view kind) const;
  /// Measures what the device reaches at most (Device::peaks), on a backend of its own beside the
  /// device's, and keeps it in the folder for caches, for later runs too. Cpu devices of a runtime
  /// are measured together; each has its part. While the device works, or another program does, it
  /// measures less.
  ///
  /// Cost: a tenth of a second; a GPU compiles two kernels besides.
  /// Errors: ArgumentError for a device of another runtime, or of a kind whose speed says nothing
  /// (reference, sim); OutOfMemory; DeviceError; FileError where it cannot be kept.
  DevicePeaks measure_peaks(const Device& device, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] RuntimeExecutor& executor() const noexcept;
  /// Lines for the person who runs the program: all else that the library reports goes here.
  [[nodiscard]] RuntimeLog& log() const noexcept;
  /// Who waits for whom: what an error says of a deadline that passed. Waits of others (workers,
  /// servers) enter themselves.
  [[nodiscard]] RuntimeWatchdog& watchdog() const noexcept;
  /// RuntimeOptions::wait_limit, for the waits of others.
  [[nodiscard]] std::chrono::nanoseconds wait_limit() const noexcept;
  /// RuntimeOptions::deterministic, or what HEARTH_DETERMINISTIC says.
  [[nodiscard]] bool is_deterministic() const noexcept;
  /// Where continuations of Pending::then run.
  [[nodiscard]] ContinuationRunner& continuations() const noexcept;

  // ---- for the library ----
  /// With other backends than the built-in ones. The factory need not outlive the constructor.
  Runtime(RuntimeOptions options,
          const detail::BackendFactory& backends,
          SourceLoc loc = SourceLoc::current());
  /// All devices, those too that devices() does not list.
  [[nodiscard]] std::vector<Device> every_device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
