#include "device_list.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/backends/builtin/builtin.hpp>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/base/settings.hpp>

namespace hearth {
namespace {

// Defaults without an explicit list: the cpu devices share the process's cores as evenly as
// possible. With more devices than cores, devices share cores.
std::vector<DeviceOptions> default_devices(int cpu_count) {
  std::vector<DeviceOptions> devices;
  for (int i = 0; i < cpu_count; ++i) {
    devices.push_back({.name = fmt::format("cpu:{}", i)});
  }
  return devices;
}

// Devices that a default runtime opens only by name. A program that computes on all devices must
// not include the oracle, which is a hundred times slower.
std::vector<DeviceOptions> unlisted_devices(const std::vector<DeviceOptions>& listed) {
  std::vector<DeviceOptions> devices{{.name = "cpu:0"}, {.name = "reference:0"}, {.name = "sim:0"}};
  std::erase_if(devices, [&](const DeviceOptions& device) {
    return std::ranges::find(listed, device.name, &DeviceOptions::name) != listed.end();
  });
  return devices;
}

// Named cores must be available: a device that silently ran on other cores would be slow without a
// visible reason.
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
         are_numbers(faults.late_failures) && are_numbers(faults.failing_compiles) &&
         are_numbers(faults.corrupted_downloads) && are_numbers(faults.forgotten_barriers);
}

bool is_gpu(std::string_view name) noexcept {
  return name.starts_with("vulkan:") || name.starts_with("cuda:");
}

/// A planned fault that the device does not support: a test that plans it would pass without it.
/// Empty if there is none.
std::string_view fault_without_effect(const FaultPlan& faults, bool is_of_gpu) {
  const auto which = [](std::initializer_list<std::pair<bool, std::string_view>> all) {
    for (const auto& [is_planned, name] : all) {
      if (is_planned) {
        return name;
      }
    }
    return std::string_view();
  };
  return is_of_gpu ? which({{!faults.failing_submits.empty(), "failing_submits"},
                            {!faults.late_failures.empty(), "late_failures"},
                            {faults.failing_allocation != 0, "failing_allocation"},
                            {faults.lost_at != std::chrono::nanoseconds::max(), "lost_at"},
                            {!faults.corrupted_downloads.empty(), "corrupted_downloads"},
                            {!faults.forgotten_barriers.empty(), "forgotten_barriers"}})
                   : which({{faults.lost_at_call != 0, "lost_at_call"},
                            {faults.refused_at_call != 0, "refused_at_call"}});
}

/// Mistake in the options of one device; empty if there is none.
std::string flaw_of(const DeviceOptions& device) {
  if (device.memory_budget_bytes < 0) {
    return fmt::format("memory_budget_bytes is {}, but must be 0 or more",
                       device.memory_budget_bytes);
  }
  if (device.memory > MemoryPooling::debug) {
    return fmt::format("memory is {}, which is no MemoryPooling", static_cast<int>(device.memory));
  }
  if (device.sim_schedule && !device.name.starts_with("sim:")) {
    return "a schedule is for sim devices alone";
  }
  if (device.sim_schedule && device.sim_schedule->queues < 1) {
    return fmt::format("sim_schedule has {} queues, but must have 1 or more",
                       device.sim_schedule->queues);
  }
  if (!device.faults) {
    return {};
  }
  const bool is_of_gpu = is_gpu(device.name);
  if (!device.name.starts_with("sim:") && !is_of_gpu) {
    return "faults are for sim, vulkan and cuda devices alone";
  }
  if (!is_sound(*device.faults)) {
    return "faults are numbered from 1, and the time of a loss is not below 0";
  }
  if (const auto without = fault_without_effect(*device.faults, is_of_gpu); !without.empty()) {
    return fmt::format("its faults have {}, which {} devices do not support; they support {}",
                       without,
                       std::string_view(device.name).substr(0, device.name.find(':')),
                       is_of_gpu ? "lost_at_submit, lost_at_call, refused_at_call, hanging_submit "
                                   "and failing_compiles"
                                 : "all but lost_at_call and refused_at_call");
  }
  return device.faults->forgotten_barriers.empty() || device.sim_schedule
             ? ""
             : "a barrier can be forgotten on an asynchronous sim alone (sim_schedule)";
}

void share_cores(std::vector<DeviceOptions>& devices, SourceLoc loc) {
  static_cast<void>(detail::Settings::from_environment()
                        .integer(detail::Setting::cores, 1, detail::kMostCores)
                        .value());  // thrown here, where the caller reads the error
  const std::vector<int> cores = shared_cores();
  std::vector<DeviceOptions*> cpus;
  for (DeviceOptions& device : devices) {
    if (!device.name.starts_with("cpu:")) {
      continue;
    }
    if (device.cores.empty()) {
      cpus.push_back(&device);
    } else {
      require_cores(device, available_cores(), loc);
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

// GPUs share the cores for their copies: at that time cpu devices are mostly idle. A few threads
// saturate a card's link.
int share_of_copies(const std::vector<DeviceOptions>& devices) {
  constexpr std::size_t kMost = 8;
  const auto gpus = static_cast<std::size_t>(std::ranges::count_if(
      devices, [](const DeviceOptions& device) { return is_gpu(device.name); }));
  return static_cast<int>(std::clamp<std::size_t>(
      static_cast<std::size_t>(core_share()) / std::max<std::size_t>(gpus, 1), 1, kMost));
}

// The listed devices share 60 %. Unlisted devices do not reduce that: each gets a sixteenth.
void share_memory(DeviceList& list) {
  const std::int64_t all = available_host_bytes();
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    // A GPU's budget refers to its own memory, which is known once it is open.
    if (list.devices[i].memory_budget_bytes == 0 && !is_gpu(list.devices[i].name)) {
      list.devices[i].memory_budget_bytes =
          i < list.listed_count ? all / 10 * 6 / static_cast<std::int64_t>(list.listed_count)
                                : all / 16;
    }
  }
}

// Parses names separated by commas. Errors: ArgumentError for an empty name.
std::vector<DeviceOptions> named_devices(const std::string& text, SourceLoc loc) {
  std::vector<DeviceOptions> devices;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("HEARTH_DEVICES={}: expected names of devices with "
                                            "commas between them",
                                            text),
                        .location = loc});
    }
    devices.push_back({.name = text.substr(begin, end - begin)});
    begin = end + 1;
  }
  return devices;
}

// A program that names a card as another device, besides "auto", would hold it twice.
void require_other_card(const DeviceList& list,
                        const std::vector<BackendOffer>& offers,
                        const BackendOffer& chosen,
                        SourceLoc loc) {
  for (const BackendOffer& offer : offers) {
    if (offer.same_card_as == chosen.name &&
        std::ranges::find(list.devices, offer.name, &DeviceOptions::name) != list.devices.end()) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format("{}: '{}' is the card of '{}'; {}",
                                    list.is_of_variable ? "HEARTH_DEVICES" : "RuntimeOptions",
                                    offer.name,
                                    chosen.name,
                                    list.choice),
                .location = loc});
    }
  }
}

// Selects the first usable GPU. A software driver is slower than cpu:0.
std::string automatic_device(DeviceList& list, SourceLoc loc) {
  Result<std::vector<BackendOffer>> offers = offered_gpus();
  if (!offers.has_value()) {
    Error error = offers.error();
    error.location = loc;
    throw_error(std::move(error));
  }
  std::string lacks;
  bool has_backend = false;
  for (const BackendOffer& offer : offers.value()) {
    if (offer.is_gpu && offer.lack.empty()) {
      list.choice = fmt::format("auto is {}: {}{}{}",
                                offer.name,
                                offer.description,
                                lacks.empty() ? "" : "; passed over: ",
                                lacks);
      require_other_card(list, offers.value(), offer, loc);
      return offer.name;
    }
    has_backend = has_backend || offer.is_built;
    lacks += lacks.empty() ? "" : "; ";
    lacks += offer.lack.empty()
                 ? fmt::format("{} is a driver in software, {}", offer.name, offer.description)
                 : offer.lack;
  }
  list.lacks_gpu = has_backend;
  list.choice = fmt::format("auto is cpu:0, as there is no GPU: {}", lacks);
  return "cpu:0";
}

/// Devices of the options, or of the environment if the options name none.
DeviceList listed_devices(const RuntimeOptions& options, SourceLoc loc) {
  if (!options.devices.empty()) {
    return {.devices = options.devices};
  }
  if (const auto names = detail::Settings::from_environment().text(detail::Setting::devices)) {
    return {.devices = named_devices(*names, loc), .is_of_variable = true};
  }
  const int count =
      options.cpu_device_count != 0
          ? options.cpu_device_count
          : static_cast<int>(detail::Settings::from_environment()
                                 .integer(detail::Setting::cpu_devices, 1, kMostDevices)
                                 .value()
                                 .value_or(1));
  return {.devices = default_devices(count)};
}

void require_different_names(const DeviceList& list, SourceLoc loc) {
  std::set<std::string_view> names;
  for (const DeviceOptions& device : list.devices) {
    if (!names.insert(device.name).second) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format("{}: two devices are called '{}'{}{}",
                                    list.is_of_variable ? "HEARTH_DEVICES" : "RuntimeOptions",
                                    device.name,
                                    list.choice.empty() ? "" : "; ",
                                    list.choice),
                .location = loc});
    }
  }
}

}  // namespace

void require_sound(const RuntimeOptions& options, SourceLoc loc) {
  const auto refuse = [loc](std::string text) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument, .text = std::move(text), .location = loc});
  };
  if (options.shutdown_limit < std::chrono::nanoseconds::zero()) {
    refuse("RuntimeOptions: shutdown_limit is below 0");
  }
  if (options.wait_limit <= std::chrono::nanoseconds::zero()) {
    refuse("RuntimeOptions: wait_limit is not above 0");
  }
  if (options.busy_wait && *options.busy_wait < std::chrono::nanoseconds::zero()) {
    refuse("RuntimeOptions: busy_wait is below 0");
  }
  if (options.cpu_device_count < 0 || options.cpu_device_count > kMostDevices) {
    refuse(fmt::format("RuntimeOptions: cpu_device_count is {}, but must be 0 to {}",
                       options.cpu_device_count,
                       kMostDevices));
  }
  for (const DeviceOptions& device : options.devices) {
    if (const std::string flaw = flaw_of(device); !flaw.empty()) {
      refuse(fmt::format("device '{}': {}", device.name, flaw));
    }
  }
}

DeviceList device_list(const RuntimeOptions& options, SourceLoc loc) {
  DeviceList list = listed_devices(options, loc);
  for (DeviceOptions& device : list.devices) {
    if (device.name == "auto") {
      device.name = automatic_device(list, loc);
    }
  }
  list.listed_count = list.devices.size();
  require_different_names(list, loc);
  if (options.devices.empty()) {
    std::ranges::move(unlisted_devices(list.devices), std::back_inserter(list.devices));
  }
  share_cores(list.devices, loc);
  share_memory(list);
  list.copy_threads = share_of_copies(list.devices);
  return list;
}

Error mistake_of(const DeviceList& list, std::size_t index, Error mistake) {
  if (list.is_of_variable && index < list.listed_count) {
    mistake.text.insert(0, "HEARTH_DEVICES: ");
  }
  return mistake;
}

}  // namespace hearth
