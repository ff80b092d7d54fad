#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/base/chrome_trace.hpp>
#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/last_act.hpp>
#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/base/thread_executor.hpp>
#include <hearth/runtime/base/unique_number.hpp>
#include <hearth/runtime/recording.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/backend_factory.hpp"
#include "runtime/device/device_actor.hpp"
#include "runtime/device/logged_memory.hpp"

namespace hearth {
namespace {

// Without an explicit list: the cpu devices share the process's cores, as evenly as they can; with
// more devices than cores they double up.
std::vector<DeviceOptions> default_devices(int cpu_count) {
  std::vector<DeviceOptions> devices;
  for (int i = 0; i < cpu_count; ++i) {
    devices.push_back({.name = fmt::format("cpu:{}", i)});
  }
  return devices;
}

// What a default runtime also has, for programs that ask for it by name. To compute on all devices
// must not mean to compute on the oracle too, which is a hundred times slower.
std::vector<DeviceOptions> unlisted_devices() {
  return {{.name = "reference:0"}, {.name = "sim:0"}};
}

// Cores that were named must be there: a device that quietly ran elsewhere would be slow, and
// nobody would know why.
void require_cores(const DeviceOptions& device, const std::vector<int>& available, SourceLoc loc) {
  std::vector<int> sorted = device.cores;
  std::ranges::sort(sorted);
  const bool is_repeated = std::ranges::adjacent_find(sorted) != sorted.end();
  if (is_repeated || !std::ranges::includes(available, sorted)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("DeviceOptions: '{}' is given cores {{{}}}, but this "
                                          "process may use {{{}}}, each once",
                                          device.name,
                                          fmt::join(device.cores, ", "),
                                          fmt::join(available, ", ")),
                      .device = device.name,
                      .location = loc});
  }
}

constexpr int kMostDevices = 256;

bool is_sound(const FaultPlan& faults) {
  const auto are_numbers = [](const std::vector<std::uint64_t>& numbers) {
    return std::ranges::find(numbers, 0U) == numbers.end();
  };
  return faults.failing_allocation >= 0 && faults.failing_allocation_count >= 0 &&
         faults.lost_at >= std::chrono::nanoseconds(0) && are_numbers(faults.failing_submits) &&
         are_numbers(faults.failing_compiles) && are_numbers(faults.corrupted_downloads);
}

void require_sound(const RuntimeOptions& options, SourceLoc loc) {
  const auto refuse = [loc](std::string text) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument, .text = std::move(text), .location = loc});
  };
  if (options.shutdown_limit < Duration::zero()) {
    refuse("RuntimeOptions: shutdown_limit is below 0");
  }
  if (options.wait_limit <= Duration::zero()) {
    refuse("RuntimeOptions: wait_limit is not above 0");
  }
  if (options.cpu_device_count < 0 || options.cpu_device_count > kMostDevices) {
    refuse(fmt::format("RuntimeOptions: cpu_device_count is {}, but must be 0 to {}",
                       options.cpu_device_count,
                       kMostDevices));
  }
  for (const DeviceOptions& device : options.devices) {
    if (device.memory_budget_bytes < 0) {
      refuse(fmt::format("device '{}': memory_budget_bytes is {}, but must be 0 or more",
                         device.name,
                         device.memory_budget_bytes));
    }
    if (device.memory > MemoryPooling::debug) {
      refuse(fmt::format("device '{}': memory is {}, which is no MemoryPooling",
                         device.name,
                         static_cast<int>(device.memory)));
    }
    if (device.faults && !device.name.starts_with("sim:")) {
      refuse(fmt::format("device '{}': faults are for sim devices alone", device.name));
    }
    if (device.faults && !is_sound(*device.faults)) {
      refuse(fmt::format(
          "device '{}': faults are numbered from 1, and the time of a loss is not below 0",
          device.name));
    }
    if (device.faults && !device.faults->forgotten_barriers.empty()) {
      refuse(fmt::format(
          "device '{}': a barrier can be forgotten between several queues alone, and this has one",
          device.name));
    }
  }
}

void share_cores(std::vector<DeviceOptions>& devices, SourceLoc loc) {
  const std::vector<int> cores = available_cores();
  std::vector<DeviceOptions*> cpus;
  for (DeviceOptions& device : devices) {
    if (!device.name.starts_with("cpu:")) {
      continue;
    }
    if (device.cores.empty()) {
      cpus.push_back(&device);
    } else {
      require_cores(device, cores, loc);
    }
  }
  const std::size_t count = cpus.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (count >= cores.size()) {
      cpus[i]->cores = {cores[i % cores.size()]};
      continue;
    }
    const std::size_t begin = i * cores.size() / count;
    const std::size_t end = (i + 1) * cores.size() / count;
    cpus[i]->cores.assign(cores.begin() + static_cast<std::ptrdiff_t>(begin),
                          cores.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

void share_memory(std::vector<DeviceOptions>& devices) {
  const std::int64_t all = available_host_bytes() / 10 * 6;
  const auto count = static_cast<std::int64_t>(devices.size());
  for (DeviceOptions& device : devices) {
    if (device.memory_budget_bytes == 0) {
      device.memory_budget_bytes = all / std::max<std::int64_t>(count, 1);
    }
  }
}

void require_writable(const std::string& file) {
  if (const Status status = check_writable(file); !status.has_value()) {
    throw FileError(status.shared_error());
  }
}

std::string describe_end(const DeviceEndpoint& endpoint, DeviceActor& actor) {
  const DeviceStatistics done = actor.statistics();
  return fmt::format(
      "device {} ends: {} records, {} kernels, {} ops joined with like ones, {} poisoned; memory: "
      "{}",
      endpoint.name(),
      done.records,
      done.kernels,
      done.joined_ops,
      done.poisoned_ops,
      describe(actor.memory_report()));
}

}  // namespace

struct Runtime::Impl {
  struct Node {
    IntrusivePtr<DeviceEndpoint> endpoint;
    std::shared_ptr<DeviceActor> actor;  ///< shared with its thread, which may be left behind
    std::unique_ptr<OwnedThread> thread;
    std::shared_ptr<const void> witness;
    bool is_listed = true;  ///< By Runtime::devices().
  };

  ThreadExecutor threads;
  Executor* executor = nullptr;
  std::chrono::nanoseconds shutdown_limit{};
  std::shared_ptr<RuntimeTables> tables;
  std::string trace_file;
  std::unique_ptr<ChromeTrace> chrome_trace;
  std::shared_ptr<RecordScope> recording;  // of the whole run
  std::unique_ptr<LastAct> saves_recording;
  std::unique_ptr<ContinuationRunner> continuations;
  std::vector<Node> nodes;
  const BackendFactory* backend_factory = nullptr;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { close(); }  // also when the Runtime's constructor gave up half-way

  void open(const DeviceOptions& options, SourceLoc loc);
  /// Ends the devices' actors and threads.
  void close();
};

void Runtime::Impl::close() {
  for (Node& node : nodes) {
    node.endpoint->close();
    node.endpoint->post(StopDevice{.limit = Deadline::in(shutdown_limit)});
  }
  constexpr std::chrono::seconds kGrace{5};  // for the op that runs when the limit passes
  const Deadline limit = Deadline::in(saturated_sum(shutdown_limit, kGrace));
  for (Node& node : nodes) {
    node.witness.reset();
    node.thread->end(limit);
  }
  nodes.clear();
}

void Runtime::Impl::open(const DeviceOptions& options, SourceLoc loc) {
  for (const Node& node : nodes) {
    if (node.endpoint->name() == options.name) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format("RuntimeOptions: two devices are called '{}'", options.name),
                .location = loc});
    }
  }
  const BackendRequest request{.name = options.name,
                               .cores = options.cores,
                               .is_serial = executor->is_manual(),
                               .sim_computes = options.sim_computes};
  const BackendFactory chosen = backend_factory != nullptr ? *backend_factory : BackendFactory{};
  const auto open_backend =
      [factory = chosen](const BackendRequest& asked) -> Result<std::unique_ptr<Backend>> {
    std::unique_ptr<Backend> backend = factory.make ? factory.make(asked) : nullptr;
    return backend ? Result(std::move(backend)) : make_backend(asked);
  };
  const auto reopen = [open_backend, request] { return open_backend(request); };
  BackendRequest first = request;
  first.faults = options.faults.value_or(FaultPlan{});
  Result<std::unique_ptr<Backend>> opened = open_backend(first);
  if (!opened.has_value()) {
    Error refused = opened.error();
    refused.location = loc;
    throw_error(std::move(refused));
  }
  std::unique_ptr<Backend> backend = std::move(opened).value();
  const BackendInfo info = backend->info();
  auto endpoint = make_intrusive<DeviceEndpoint>(
      info.name, info.description, tables, unique_number(), info.is_host, options.cores);
  DeviceActorOptions memory{.budget_bytes = options.memory_budget_bytes,
                            .pooling = options.memory,
                            .make_memory = options.make_memory,
                            .reopen = reopen};
  if (tables->log.is_enabled(LogLevel::debug)) {
    memory.make_memory = with_log(options.make_memory, options.memory, info.name, tables);
  }
  auto actor = std::make_shared<DeviceActor>(endpoint, std::move(backend), memory);
  Promise<void> started(PendingOptions{.subject = "the start of a device"});
  Pending<void> ready = started.pending();
  auto body = [running = actor, endpoint, started = std::move(started)]() mutable {
    endpoint->attach_loop(*running, IntrusivePtr<Parker>(&current_context().parker()));
    started.set_value();
    running->thread_main();
    endpoint->tables().log.debug([&] { return describe_end(*endpoint, *running); });
  };
  auto thread = std::make_unique<OwnedThread>(
      *executor,
      ThreadOptions{.name = info.name, .cores = options.cores},
      OwnedThreadOptions{.subject = fmt::format("device {}", info.name),
                         .observe = [endpoint] { return endpoint->what_holder_does(); },
                         .limit = shutdown_limit,
                         .log = &tables->log},
      std::move(body));
  std::move(ready).get();
  std::shared_ptr<const void> witness =
      tables->watchdog->watch({.name = fmt::format("device {}", info.name),
                               .ask =
                                   [endpoint](Promise<std::string> answer) {
                                     endpoint->post(DescribeWaits{.answer = std::move(answer)});
                                   },
                               .observe = [endpoint] { return endpoint->what_holder_does(); }});
  tables->log.debug([&] {
    return fmt::format("device {} opens: {}; cores {{{}}}, budget {} bytes",
                       info.name,
                       info.description,
                       fmt::join(options.cores, ", "),
                       options.memory_budget_bytes);
  });
  nodes.push_back(
      Node{std::move(endpoint), std::move(actor), std::move(thread), std::move(witness)});
}

Runtime::Runtime(RuntimeOptions options, SourceLoc loc) try : impl_(std::make_unique<Impl>()) {
  require_sound(options, loc);
  impl_->executor = options.executor != nullptr ? options.executor : &impl_->threads;
  impl_->shutdown_limit = options.shutdown_limit;
  impl_->backend_factory = options.backend_factory;
  const Settings settings = Settings::from_environment();
  const bool is_eager = settings.boolean(Setting::eager_reports).value().value_or(false);
  impl_->tables = std::make_shared<RuntimeTables>(RuntimeId{unique_number()},
                                                  LogOptions{.level = log_level(settings).value()},
                                                  options.wait_limit,
                                                  options.eager_reports || is_eager);
  impl_->tables->failures().open(std::shared_ptr<Log>(impl_->tables, &impl_->tables->log));
  for (const std::string& variable : unknown_settings()) {
    impl_->tables->log.warn(fmt::format("{} is set, but there is no such setting", variable));
  }
  impl_->trace_file = settings.text(Setting::trace_file).value_or("");
  const std::string record_file = options.record_file.empty()
                                      ? settings.text(Setting::record_file).value_or("")
                                      : options.record_file;
  for (const std::string& written_at_the_end : {impl_->trace_file, record_file}) {
    if (!written_at_the_end.empty()) {
      require_writable(written_at_the_end);
    }
  }
  if (!impl_->trace_file.empty()) {
    impl_->chrome_trace = std::make_unique<ChromeTrace>(impl_->tables->trace);
  }
  impl_->continuations = std::make_unique<ContinuationRunner>(
      *impl_->executor,
      ContinuationRunnerOptions{.shutdown_limit = options.shutdown_limit,
                                .log = &impl_->tables->log});
  std::vector<DeviceOptions> devices = std::move(options.devices);
  const bool is_default = devices.empty();
  if (is_default) {
    int count = options.cpu_device_count;
    if (count == 0) {
      count = static_cast<int>(
          settings.integer(Setting::cpu_devices, 1, kMostDevices).value().value_or(1));
    }
    devices = default_devices(count);
  }
  const std::size_t listed_count = devices.size();
  if (is_default) {
    std::ranges::move(unlisted_devices(), std::back_inserter(devices));
  }
  share_cores(devices, loc);
  share_memory(devices);
  for (const DeviceOptions& device : devices) {
    impl_->open(device, loc);
    impl_->nodes.back().is_listed = impl_->nodes.size() <= listed_count;
  }
  if (!record_file.empty()) {
    impl_->recording = std::make_shared<RecordScope>(*this, record_file);
    impl_->saves_recording =
        std::make_unique<LastAct>([recording = impl_->recording, tables = impl_->tables] {
          if (const Status status = recording->stop_within(std::chrono::seconds(1));
              !status.has_value()) {
            tables->log.error(status.error().to_string());
          }
        });
  }
} catch (const std::bad_alloc&) {
  throw_error(Error{.code = ErrorCode::out_of_memory,
                    .text = "Runtime: the program has no memory for its devices (ulimit -v)",
                    .op = "Runtime",
                    .location = loc});
}

Runtime::~Runtime() {
  impl_->tables->log.debug([this] {
    return fmt::format(
        "the runtime ends: {} devices, at most {} for what is under way",
        impl_->nodes.size(),
        std::chrono::duration_cast<std::chrono::milliseconds>(impl_->shutdown_limit));
  });
  impl_->saves_recording.reset();
  impl_->recording.reset();
  impl_->tables->failures().close();
  impl_->close();
  impl_->continuations.reset();  // they may still read what failed
  impl_->tables->failures().report(impl_->tables->log);
  if (impl_->chrome_trace) {
    if (const Status written = impl_->chrome_trace->write(impl_->trace_file);
        !written.has_value()) {
      impl_->tables->log.error(written.error().to_string());
    }
  }
}

Device Runtime::device(std::string_view name, SourceLoc loc) const {
  std::vector<std::string_view> names;
  for (const Impl::Node& node : impl_->nodes) {
    if (node.endpoint->name() == name) {
      return Device(node.endpoint);
    }
    names.push_back(node.endpoint->name());
  }
  throw_error(Error{
      .code = ErrorCode::not_found,
      .text = fmt::format("no device '{}': this runtime has {}", name, fmt::join(names, ", ")),
      .location = loc});
}

std::vector<Device> Runtime::devices() const {
  std::vector<Device> listed;
  for (const Impl::Node& node : impl_->nodes) {
    if (node.is_listed) {
      listed.emplace_back(node.endpoint);
    }
  }
  return listed;
}

std::vector<Device> Runtime::devices(std::string_view kind) const {
  std::vector<Device> all = every_device();
  std::erase_if(all, [kind](const Device& device) {
    const std::string& name = device.name();
    return std::string_view(name).substr(0, name.find(':')) != kind;
  });
  return all;
}

std::vector<Device> Runtime::every_device() const {
  std::vector<Device> all;
  for (const Impl::Node& node : impl_->nodes) {
    all.emplace_back(node.endpoint);
  }
  return all;
}

Executor& Runtime::executor() const noexcept {
  return *impl_->executor;
}
Trace& Runtime::trace() const noexcept {
  return impl_->tables->trace;
}
Log& Runtime::log() const noexcept {
  return impl_->tables->log;
}
std::chrono::nanoseconds Runtime::wait_limit() const noexcept {
  return impl_->tables->wait_limit;
}
Watchdog& Runtime::watchdog() const noexcept {
  return *impl_->tables->watchdog;
}
ContinuationRunner& Runtime::continuations() const noexcept {
  return *impl_->continuations;
}

}  // namespace hearth
