#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/last_act.hpp>
#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/base/thread_executor.hpp>
#include <hearth/runtime/base/unique_number.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/backend_factory.hpp"
#include "runtime/device/device_actor.hpp"
#include "runtime/device/memory/logged_memory.hpp"
#include "runtime/device/peaks/device_list.hpp"
#include "runtime/device/peaks/device_peaks.hpp"
#include "runtime/device/tuning/picks.hpp"
#include "runtime_impl.hpp"

namespace hearth {
namespace {

/// A file that is written when the runtime ends, and the setting that names it.
struct LateFile {
  std::string path;
  std::string_view named_by;
};

void require_writable(const LateFile& file) {
  if (file.path.empty()) {
    return;
  }
  if (const Status status = check_writable(file.path); !status.has_value()) {
    Error error = status.error();
    error.text = fmt::format("{}: {}", file.named_by, error.text);
    throw FileError(std::move(error));
  }
}

std::string_view variable_of(detail::Setting setting) {
  return detail::known_settings()[static_cast<std::size_t>(setting)].variable;
}

/// The value of HEARTH_FUSION. Errors: ArgumentError for an unknown mode.
Fusion fusion_of(const detail::Settings& settings) {
  constexpr std::array<std::string_view, 3> kModes = {"off", "single", "on"};
  constexpr auto kDefault = static_cast<std::size_t>(Fusion::on);
  return static_cast<Fusion>(
      settings.choice(detail::Setting::fusion, kModes).value().value_or(kDefault));
}

/// RuntimeOptions::busy_wait, or its default.
std::chrono::nanoseconds busy_wait_of(const RuntimeOptions& options,
                                      const detail::Executor& executor) {
  constexpr std::chrono::nanoseconds kDefault = std::chrono::microseconds(400);
  constexpr int kFewestCores = 4;
  if (executor.is_manual()) {
    return std::chrono::nanoseconds::zero();
  }
  return options.busy_wait.value_or(core_share() < kFewestCores ? std::chrono::nanoseconds::zero()
                                                                : kDefault);
}

void save_trace(const Device& device, const std::string& file) {
  RuntimeTables& tables = device.endpoint().tables();
  Result<detail::TraceLog> log = tables.trace().stop();
  const Status written =
      log.has_value() ? detail::write_trace(device, log.value(), file) : log.status();
  if (!written.has_value()) {
    tables.log.error(written.error().to_string());
  } else if (log.value().dropped_count > 0) {
    tables.log.warn(fmt::format("{}: {} events were kept; there was no room for {} more",
                                file,
                                log.value().event_count(),
                                log.value().dropped_count));
  }
}

/// Cores of the listed cpu devices, each once.
std::vector<int> cpu_cores_of(const DeviceList& list) {
  std::vector<int> cores;
  for (std::size_t i = 0; i < list.listed_count; ++i) {
    if (list.devices[i].name.starts_with("cpu:")) {
      cores.insert(cores.end(), list.devices[i].cores.begin(), list.devices[i].cores.end());
    }
  }
  std::ranges::sort(cores);
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
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

void Runtime::Impl::close() {
  for (Node& node : nodes) {
    if (node.tuner) {
      node.tuner->stop();
    }
    node.endpoint->close();
    node.endpoint->post(StopDevice{.limit = Deadline::in(shutdown_limit)});
  }
  constexpr std::chrono::seconds kGrace{5};  // for the op that runs when the limit passes
  const Deadline limit = Deadline::in(detail::saturated_sum(shutdown_limit, kGrace));
  for (Node& node : nodes) {
    node.witness.reset();
    node.thread->end(limit);
    if (node.waiter) {
      node.waiter->stop();
      node.waiter_thread->end(limit);
    }
    if (node.tuner) {
      constexpr std::chrono::seconds kTrialGrace{2};  // for a candidate that does not return
      node.tuner_thread->end(std::min(limit, Deadline::in(kTrialGrace)));
    }
  }
  nodes.clear();
}

BackendRequest Runtime::Impl::request_for(const DeviceOptions& options) const {
  const bool is_async_sim = has_async_sims && options.name.starts_with("sim:");
  return {
      .name = options.name,
      .cores = options.cores,
      .is_serial = executor->is_manual(),
      .sim_computes = options.sim_computes,
      .executor = executor->is_manual() ? nullptr : executor,
      .compiles_beside = !compiles_block,
      .copy_threads = executor->is_manual() ? 1 : copy_threads,
      .log = &tables->log,
      .wait_limit = executor->is_manual() ? kDefaultWait : tables->wait_limit,
      .allows_f16_sums = allows_f16_sums,
      .allows_tf32 = allows_tf32,
      .sim_schedule = is_async_sim && !options.sim_schedule ? SimSchedule{} : options.sim_schedule};
}

namespace {

Result<std::unique_ptr<Backend>> make_by(const detail::BackendFactory& factory,
                                         const BackendRequest& request) {
  std::unique_ptr<Backend> backend = factory.make ? factory.make(request) : nullptr;
  return backend ? Result(std::move(backend)) : make_backend(request);
}

}  // namespace

std::unique_ptr<Backend> Runtime::Impl::open_backend(const DeviceOptions& options,
                                                     SourceLoc loc) const {
  BackendRequest first = request_for(options);
  first.faults = options.faults.value_or(FaultPlan{});
  Result<std::unique_ptr<Backend>> opened = make_by(*backend_factory, first);
  if (!opened.has_value()) {
    Error refused = opened.error();
    refused.location = loc;
    throw_error(std::move(refused));
  }
  return std::move(opened).value();
}

DeviceActorOptions Runtime::Impl::options_of_actor(const DeviceOptions& options,
                                                   const std::string& name) const {
  DeviceActorOptions made{.budget_bytes = options.memory_budget_bytes,
                          .pooling = options.memory,
                          .make_memory = options.make_memory,
                          .fusion = fusion};
  // A copy: the caller's factory need not outlive the constructor.
  made.reopen = [factory = *backend_factory, request = request_for(options)] {
    return make_by(factory, request);
  };
  if (tables->log.is_enabled(detail::LogLevel::debug)) {
    made.make_memory = with_log(options.make_memory, options.memory, name, tables);
  }
  return made;
}

std::unique_ptr<detail::OwnedThread> Runtime::Impl::start_thread(
    const DeviceOptions& options,
    const IntrusivePtr<DeviceEndpoint>& endpoint,
    const std::shared_ptr<DeviceActor>& actor) {
  Promise<void> started(PendingOptions{.subject = "the start of a device"});
  Pending<void> ready = started.pending();
  auto body = [running = actor, endpoint, started = std::move(started)]() mutable {
    endpoint->attach_loop(*running,
                          IntrusivePtr<detail::Parker>(&detail::current_context().parker()));
    started.set_value();
    running->thread_main();
    endpoint->tables().log.debug([&] { return describe_end(*endpoint, *running); });
  };
  auto thread = std::make_unique<detail::OwnedThread>(
      *executor,
      detail::ThreadOptions{.name = endpoint->name(), .cores = options.cores},
      detail::OwnedThreadOptions{.subject = fmt::format("device {}", endpoint->name()),
                                 .observe = [endpoint] { return endpoint->describe_holder(); },
                                 .limit = shutdown_limit,
                                 .log = &tables->log},
      std::move(body));
  std::move(ready).get();
  return thread;
}

std::unique_ptr<detail::OwnedThread> Runtime::Impl::start_waiter(
    const IntrusivePtr<DeviceEndpoint>& endpoint, const std::shared_ptr<CompletionWaiter>& waiter) {
  const std::string subject = fmt::format("the waiter of device {}", endpoint->name());
  return std::make_unique<detail::OwnedThread>(
      *executor,
      detail::ThreadOptions{.name = endpoint->name() + " waiter"},
      detail::OwnedThreadOptions{.subject = subject,
                                 .observe = [] { return std::string("waits for the device"); },
                                 .limit = shutdown_limit,
                                 .log = &tables->log},
      [endpoint, waiter] { waiter->thread_main(*endpoint); });
}

// Cpu devices are measured together, since they work together: each gets its part of the total. A
// slow build has figures of its own.
PeakSubject Runtime::Impl::peak_subject_of(const DeviceOptions& options,
                                           const BackendInfo& info) const {
  if (info.peaks_name.empty() || backend_factory->make) {
    return {};
  }
  BackendRequest request = request_for(options);
  request.executor = nullptr;
  PeakSubject subject{.name = info.peaks_name,
                      .is_automatic = info.runs_inline && is_build_of_full_speed(),
                      .most_bytes = options.memory_budget_bytes / 2};
  if (info.runs_inline) {
    const bool is_one_of_several = options.cores.size() < cpu_cores.size();
    request.cores = is_one_of_several ? cpu_cores : options.cores;
    subject.name += fmt::format(", {} cores", request.cores.size());
    subject.part =
        static_cast<double>(options.cores.size()) / static_cast<double>(request.cores.size());
  }
  subject.name += is_build_of_full_speed() ? "" : ", a slow build";
  subject.open = [request] { return make_backend(request); };
  return subject;
}

// Trials of a device run on a backend of its own, with the device's cores.
TuneSubject Runtime::Impl::tune_subject_of(const DeviceOptions& options,
                                           const BackendInfo& info) const {
  if (info.fingerprint.empty()) {
    return {};
  }
  BackendRequest request = request_for(options);
  request.executor = nullptr;
  return {.open = [factory = *backend_factory, request] { return make_by(factory, request); },
          .fingerprint = detail::Fingerprint::of_text(info.fingerprint),
          .level = autotune};
}

std::unique_ptr<detail::OwnedThread> Runtime::Impl::start_tuner(
    const DeviceOptions& options,
    const IntrusivePtr<DeviceEndpoint>& endpoint,
    const std::shared_ptr<BackgroundTuner>& tuner) {
  return std::make_unique<detail::OwnedThread>(
      *executor,
      detail::ThreadOptions{.name = endpoint->name() + " trials", .cores = options.cores},
      detail::OwnedThreadOptions{.subject = fmt::format("the tuner of device {}", endpoint->name()),
                                 .observe = [tuner] { return tuner->describe(); },
                                 .limit = shutdown_limit,
                                 .log = &tables->log},
      [endpoint, tuner] { tuner->thread_main(*endpoint); });
}

// Phases: open the backend, which describes the device; make the endpoint, with its known speed;
// make the actor, with its picks; start the actor's thread, a waiter's for an asynchronous device,
// and a tuner's; register the watchdog's witness.
void Runtime::Impl::open(DeviceOptions options, SourceLoc loc) {
  std::unique_ptr<Backend> backend = open_backend(options, loc);
  const BackendInfo info = backend->info();
  if (options.memory_budget_bytes == 0) {
    options.memory_budget_bytes =
        info.memory_bytes > 0 ? info.memory_bytes / 10 * 9 : available_host_bytes() / 4;
  }
  auto endpoint = make_intrusive<DeviceEndpoint>(
      info.name, info.description, tables, unique_number(), info.runs_inline, options.cores);
  PeakSubject measured = peak_subject_of(options, info);
  if (fusion == Fusion::on && !tables->is_deterministic && !executor->is_manual() &&
      !options.faults) {
    if (const auto peaks = measured.known(tables->log)) {
      endpoint->set_peaks(*peaks);
    }
  }
  DeviceActorOptions actor_options = options_of_actor(options, info.name);
  auto waiter = info.runs_inline ? nullptr : std::make_shared<CompletionWaiter>();
  actor_options.waiter = waiter;
  TuneSubject tuned = tune_subject_of(options, info);
  std::shared_ptr<BackgroundTuner> tuner;
  if (tuned.has_trials() && !tables->is_deterministic) {
    tuner = std::make_shared<BackgroundTuner>(tuned);
  }
  if (tuned.has_picks()) {
    actor_options.picks = std::make_shared<Picks>(info.core_count, tuned.has_trials(), tuner);
    actor_options.picks->add(tuned.stored(tables->log));
  }
  auto actor = std::make_shared<DeviceActor>(endpoint, std::move(backend), actor_options);
  std::unique_ptr<detail::OwnedThread> waiter_thread =
      waiter ? start_waiter(endpoint, waiter) : nullptr;
  std::unique_ptr<detail::OwnedThread> thread = start_thread(options, endpoint, actor);
  std::unique_ptr<detail::OwnedThread> tuner_thread =
      tuner ? start_tuner(options, endpoint, tuner) : nullptr;
  std::shared_ptr<const void> witness =
      tables->watchdog->watch({.name = fmt::format("device {}", info.name),
                               .ask =
                                   [endpoint](Promise<std::string> answer) {
                                     endpoint->post(DescribeWaits{.answer = std::move(answer)});
                                   },
                               .observe = [endpoint] { return endpoint->describe_holder(); }});
  tables->log.debug([&] {
    return fmt::format("device {} opens: {}; cores {{{}}}, budget {} bytes",
                       info.name,
                       info.description,
                       fmt::join(options.cores, ", "),
                       options.memory_budget_bytes);
  });
  nodes.push_back(Node{.endpoint = std::move(endpoint),
                       .actor = std::move(actor),
                       .thread = std::move(thread),
                       .waiter = std::move(waiter),
                       .waiter_thread = std::move(waiter_thread),
                       .witness = std::move(witness),
                       .measured = std::move(measured),
                       .tuned = std::move(tuned),
                       .tuner = std::move(tuner),
                       .tuner_thread = std::move(tuner_thread)});
}

void Runtime::Impl::open_tables(const RuntimeOptions& options) {
  const detail::Settings settings = detail::Settings::from_environment();
  has_async_sims = settings.boolean(detail::Setting::async_sims).value().value_or(false);
  fusion = options.fusion.value_or(fusion_of(settings));
  // A program that steps its threads asks for trials, which read files, in its options alone.
  autotune = options.autotune.value_or(executor->is_manual() ? AutotuneLevel::off
                                                             : autotune_level(settings).value());
  const bool is_eager = settings.boolean(detail::Setting::eager_reports).value().value_or(false);
  tables = std::make_shared<RuntimeTables>(
      RuntimeId{unique_number()},
      detail::LogOptions{.level = detail::log_level(settings).value()},
      options.wait_limit,
      options.eager_reports || is_eager);
  tables->fuses = fusion == Fusion::on;
  tables->busy_wait = busy_wait_of(options, *executor);
  const std::optional<std::int64_t> limit =
      settings.integer(detail::Setting::fusion_limit, 0, std::numeric_limits<std::int64_t>::max())
          .value();
  if (options.fusion_limit || limit) {
    tables->fusion_limit.set(
        options.fusion_limit.value_or(static_cast<std::uint64_t>(limit.value_or(0))));
  }
  const bool rounds =
      settings.boolean(detail::Setting::round_intermediates).value().value_or(false);
  tables->is_deterministic =
      options.deterministic ||
      settings.boolean(detail::Setting::deterministic).value().value_or(false);
  tables->between = options.round_intermediates || rounds || tables->is_deterministic
                        ? Between::rounded
                        : Between::wide;
  allows_f16_sums = options.allow_f16_sums;
  allows_tf32 = options.allow_tf32;
  compiles_block = tables->is_deterministic || options.blocking_compiles ||
                   settings.boolean(detail::Setting::blocking_compiles).value().value_or(false);
  tables->failures().open(std::shared_ptr<detail::Log>(tables, &tables->log));
  for (const std::string& variable : detail::unknown_settings()) {
    tables->log.warn(fmt::format("{} is set, but there is no such setting", variable));
  }
  trace_file = settings.text(detail::Setting::trace_file).value_or("");
  const bool is_from_options = !options.record_file.empty();
  record_file = is_from_options ? options.record_file
                                : settings.text(detail::Setting::record_file).value_or("");
  require_writable({trace_file, variable_of(detail::Setting::trace_file)});
  require_writable({record_file,
                    is_from_options ? "RuntimeOptions::record_file"
                                    : variable_of(detail::Setting::record_file)});
  if (!trace_file.empty()) {
    tables->trace().start().value();
  }
}

void Runtime::Impl::record_run(const Runtime& runtime) {
  recording = std::make_shared<RecordScope>(runtime, record_file);
  saves_recording = std::make_unique<LastAct>([recorded = recording, shared = tables] {
    if (const Status status = recorded->stop_within(std::chrono::seconds(1)); !status.has_value()) {
      shared->log.error(status.error().to_string());
    }
  });
}

// Registers the trace to be written also if the program dies of an exception.
void Runtime::Impl::keep_trace(const Runtime& runtime) {
  saves_trace = std::make_unique<LastAct>(
      [device = runtime.every_device().front(), file = trace_file] { save_trace(device, file); });
}

// Phases: check the options; make the tables; make the continuation runner; open the devices, which
// share cores and memory; start a recording of the whole run.
Runtime::Runtime(RuntimeOptions options, const detail::BackendFactory& backends, SourceLoc loc) try
    : impl_(std::make_unique<Impl>()) {
  const detail::FloatEnvironment environment;  // inherited by threads of drivers and of OpenBLAS
  require_sound(options, loc);
  impl_->executor = options.executor != nullptr ? options.executor : &impl_->threads;
  impl_->shutdown_limit = options.shutdown_limit;
  impl_->backend_factory = &backends;
  impl_->open_tables(options);
  impl_->continuations = std::make_unique<ContinuationRunner>(
      *impl_->executor,
      ContinuationRunnerOptions{.shutdown_limit = options.shutdown_limit,
                                .log = &impl_->tables->log});
  const DeviceList list = device_list(options, loc);
  impl_->cpu_cores = cpu_cores_of(list);
  impl_->copy_threads = list.copy_threads;
  if (list.lacks_gpu) {
    impl_->tables->log.warn(list.choice);  // "auto" implies the wish for a GPU
  } else if (!list.choice.empty()) {
    impl_->tables->log.info(list.choice);
  }
  for (const DeviceOptions& device : list.devices) {
    try {
      impl_->open(device, loc);
    } catch (const ArgumentError& mistake) {
      throw_error(mistake_of(list, impl_->nodes.size(), mistake.error()));
    }
    impl_->nodes.back().is_listed = impl_->nodes.size() <= list.listed_count;
  }
  if (!impl_->record_file.empty()) {
    impl_->record_run(*this);
  }
  impl_->backend_factory = nullptr;
  if (!impl_->trace_file.empty()) {
    impl_->keep_trace(*this);
  }
} catch (const std::bad_alloc&) {
  throw_error(Error{.code = ErrorCode::out_of_memory,
                    .text = "Runtime: the program has no memory for its devices (ulimit -v)",
                    .op = "Runtime",
                    .location = loc});
}

Runtime::Runtime(RuntimeOptions options, SourceLoc loc)
    : Runtime(std::move(options), detail::BackendFactory{}, loc) {}

Runtime::~Runtime() {
  impl_->tables->log.debug([this] {
    return fmt::format(
        "the runtime ends: {} devices, at most {} for work in flight",
        impl_->nodes.size(),
        std::chrono::duration_cast<std::chrono::milliseconds>(impl_->shutdown_limit));
  });
  impl_->saves_recording.reset();
  impl_->saves_trace.reset();
  impl_->recording.reset();
  const Device traced = impl_->trace_file.empty() ? Device() : every_device().front();
  impl_->tables->failures().close();
  impl_->close();
  impl_->continuations.reset();  // continuations may still read failures
  impl_->tables->failures().report(impl_->tables->log);
  if (traced.is_valid()) {
    save_trace(traced, impl_->trace_file);
  }
}

std::vector<AvailableDevice> available_devices() {
  std::vector<AvailableDevice> devices;
  devices.push_back({.name = "cpu:0", .description = fmt::format("{} logical CPUs", core_share())});
  Result<std::vector<BackendOffer>> offers = offered_gpus({.loads_libraries = true});
  if (!offers.has_value()) {
    devices.push_back(
        {.name = offers.error().device, .description = {}, .lack = offers.error().text});
    return devices;
  }
  for (BackendOffer& offer : offers.value()) {
    devices.push_back({.name = std::move(offer.name),
                       .description = std::move(offer.description),
                       .is_gpu = offer.is_gpu,
                       .lack = std::move(offer.lack),
                       .same_card_as = std::move(offer.same_card_as),
                       .note = std::move(offer.note)});
  }
  return devices;
}

Device Runtime::device() const {
  return devices().front();
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

detail::Executor& Runtime::executor() const noexcept {
  return *impl_->executor;
}
detail::Log& Runtime::log() const noexcept {
  return impl_->tables->log;
}
std::chrono::nanoseconds Runtime::wait_limit() const noexcept {
  return impl_->tables->wait_limit;
}
bool Runtime::is_deterministic() const noexcept {
  return impl_->tables->is_deterministic;
}
detail::Watchdog& Runtime::watchdog() const noexcept {
  return *impl_->tables->watchdog;
}
ContinuationRunner& Runtime::continuations() const noexcept {
  return *impl_->continuations;
}

}  // namespace hearth
