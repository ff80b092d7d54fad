// The state of a Runtime: its devices with their threads, and what they share. Private to runtime.
// Threads: construction and destruction by one; the nodes do not change in between.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/last_act.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/thread_executor.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/backend_factory.hpp"
#include "runtime/device/device_actor.hpp"
#include "runtime/device/peaks/device_peaks.hpp"
#include "runtime/device/tuning/background_tuner.hpp"
#include "runtime/device/tuning/tune_subject.hpp"

namespace hearth {

struct Runtime::Impl {
  struct Node {
    IntrusivePtr<DeviceEndpoint> endpoint;
    std::shared_ptr<DeviceActor> actor;  ///< shared with its thread, which may be abandoned
    std::unique_ptr<detail::OwnedThread> thread;
    /// of an asynchronous device; shared with its thread
    std::shared_ptr<CompletionWaiter> waiter;
    std::unique_ptr<detail::OwnedThread> waiter_thread;
    std::shared_ptr<const void> witness;
    bool is_listed = true;  ///< Runtime::devices() lists it.
    PeakSubject measured = {};
    TuneSubject tuned = {};
    /// null if the device has no trials; shared with its thread, which may be abandoned
    std::shared_ptr<BackgroundTuner> tuner = {};
    std::unique_ptr<detail::OwnedThread> tuner_thread = {};
  };

  ThreadExecutor threads;
  detail::Executor* executor = nullptr;
  std::chrono::nanoseconds shutdown_limit{};
  std::shared_ptr<RuntimeTables> tables;
  std::string trace_file;
  std::string record_file;
  std::unique_ptr<LastAct> saves_trace;    // writes the trace of the whole run to trace_file
  std::shared_ptr<RecordScope> recording;  // the recording of the whole run
  std::unique_ptr<LastAct> saves_recording;
  std::unique_ptr<ContinuationRunner> continuations;
  std::vector<Node> nodes;
  const detail::BackendFactory* backend_factory = nullptr;  // only during the constructor
  std::vector<int> cpu_cores;  ///< Cores of all listed cpu devices, which share the memory.
  int copy_threads = 1;        ///< Threads of each GPU.
  bool has_async_sims = false;
  bool compiles_block = false;
  bool allows_f16_sums = false;
  bool allows_tf32 = false;
  Fusion fusion = Fusion::on;
  AutotuneLevel autotune = AutotuneLevel::balanced;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { close(); }  // also after an exception in Runtime's constructor

  /// Makes log, trace and failure book; determines where the files of the run go.
  void open_tables(const RuntimeOptions& options);
  void open(DeviceOptions options, SourceLoc loc);
  /// Opens the device's first backend, the only one with the requested faults.
  [[nodiscard]] std::unique_ptr<Backend> open_backend(const DeviceOptions& options,
                                                      SourceLoc loc) const;
  [[nodiscard]] DeviceActorOptions options_of_actor(const DeviceOptions& options,
                                                    const std::string& name) const;
  [[nodiscard]] BackendRequest request_for(const DeviceOptions& options) const;
  /// The subject whose measurement gives the device's peaks; empty if they would be meaningless.
  [[nodiscard]] PeakSubject peak_subject_of(const DeviceOptions& options,
                                            const BackendInfo& info) const;
  /// The subject of the device's trials; empty if kernels of the device have no choices.
  [[nodiscard]] TuneSubject tune_subject_of(const DeviceOptions& options,
                                            const BackendInfo& info) const;
  /// Starts the thread of the actor's loop, which has begun on return.
  [[nodiscard]] std::unique_ptr<detail::OwnedThread> start_thread(
      const DeviceOptions& options,
      const IntrusivePtr<DeviceEndpoint>& endpoint,
      const std::shared_ptr<DeviceActor>& actor);
  /// Starts the thread that waits for an asynchronous device.
  [[nodiscard]] std::unique_ptr<detail::OwnedThread> start_waiter(
      const IntrusivePtr<DeviceEndpoint>& endpoint,
      const std::shared_ptr<CompletionWaiter>& waiter);
  /// Starts the thread of a device's background trials.
  [[nodiscard]] std::unique_ptr<detail::OwnedThread> start_tuner(
      const DeviceOptions& options,
      const IntrusivePtr<DeviceEndpoint>& endpoint,
      const std::shared_ptr<BackgroundTuner>& tuner);
  /// Records the whole run to record_file.
  void record_run(const Runtime& runtime);
  /// Keeps the run's trace, which is already on, for trace_file.
  void keep_trace(const Runtime& runtime);
  /// Returns the node of a device. Errors: ArgumentError for a device of another runtime.
  [[nodiscard]] const Node& node_of(const Device& device, std::string_view op, SourceLoc loc) const;
  /// Ends the devices' actors and threads.
  void close();
};

}  // namespace hearth
