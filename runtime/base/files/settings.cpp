#include <hearth/runtime/base/settings.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

namespace hearth::detail {
namespace {

constexpr std::string_view kPrefix = "HEARTH_";

constexpr std::array<SettingInfo, kSettingCount> kSettings = {{
    {Setting::cache_dir,
     "HEARTH_CACHE_DIR",
     "Folder for files that the library keeps between runs: compiled kernels of GPUs, and what "
     "devices reach at most."},
    {Setting::log_level,
     "HEARTH_LOG_LEVEL",
     "How much is logged: trace, debug, info, warn (the default), error or off."},
    {Setting::trace_file,
     "HEARTH_TRACE_FILE",
     "File that gets a trace of the run, for Perfetto and hearth-bench trace, when the runtime "
     "ends."},
    {Setting::cpu_devices,
     "HEARTH_CPU_DEVICES",
     "How many cpu devices share the machine's cores (1 when not set)."},
    {Setting::cores,
     "HEARTH_CORES",
     "How many cores' worth of time the library takes for its threads (what control groups leave, "
     "when not set)."},
    {Setting::data_dir,
     "HEARTH_DATA_DIR",
     "Folder with real data sets, for the tests and examples that need one."},
    {Setting::record_file,
     "HEARTH_RECORD_FILE",
     "File that gets a recording of the run, for replays, when the runtime ends."},
    {Setting::eager_reports,
     "HEARTH_EAGER_REPORTS",
     "on: an error of a passed deadline lists the open waits at once (off when not set)."},
    {Setting::async_sims,
     "HEARTH_ASYNC_SIMS",
     "on: sim devices are asynchronous, as a GPU is (off when not set)."},
    {Setting::fusion,
     "HEARTH_FUSION",
     "on: neighbouring ops run as one kernel; single: devices look ahead as they do for that, and "
     "run the ops one by one; off: each op is a kernel of its own (on when not set)."},
    {Setting::fusion_limit,
     "HEARTH_FUSION_LIMIT",
     "How many groups of ops run as one kernel, counted from the start; the others run one by one: "
     "to find the first group that goes wrong (no limit when not set)."},
    {Setting::round_intermediates,
     "HEARTH_ROUND_INTERMEDIATES",
     "on: ops of a fused group round their f16 and bf16 results as they do alone, so that fusion "
     "changes no bit of them (off when not set)."},
    {Setting::deterministic,
     "HEARTH_DETERMINISTIC",
     "on: what runs as one kernel, and each bit of a result, follows from the program, not from "
     "time (off when not set)."},
    {Setting::blocking_compiles,
     "HEARTH_BLOCKING_COMPILES",
     "on: a device waits for the kernel of a group of ops, instead of running them one by one "
     "until "
     "it is compiled (off when not set)."},
    {Setting::autotune,
     "HEARTH_AUTOTUNE",
     "Whether kernels follow stored picks, and how much Runtime::tune tries: off, cached_only, "
     "minimal, balanced (the default) or full."},
    {Setting::devices,
     "HEARTH_DEVICES",
     "Names of the devices that a runtime opens where its program names none, with commas between "
     "them; auto is the GPU, by CUDA or else by Vulkan, or cpu:0 where there is none (the cpu "
     "devices when not set)."},
    {Setting::vulkan_devices,
     "HEARTH_VULKAN_DEVICES",
     "Numbers of the physical devices that vulkan:0, vulkan:1 and so on are, with commas between "
     "them (all that Vulkan shows, real GPUs first, when not set)."},
    {Setting::vulkan_shuffle,
     "HEARTH_VULKAN_SHUFFLE",
     "A number: kernels of Vulkan devices that may run side by side run in an order drawn from it, "
     "and drivers in software copy through staging memory (off when not set)."},
    {Setting::vulkan_without,
     "HEARTH_VULKAN_WITHOUT",
     "Names of Vulkan's extensions, with commas between them, that devices do without although "
     "their drivers have them (none when not set)."},
    {Setting::cuda_devices,
     "HEARTH_CUDA_DEVICES",
     "Numbers of the cards that cuda:0, cuda:1 and so on are, with commas between them (all that "
     "CUDA shows, in its order, when not set)."},
    {Setting::cuda_library_path,
     "HEARTH_CUDA_LIBRARY_PATH",
     "Folders with NVIDIA's libraries for cuda devices (driver, NVRTC, cuBLASLt), with colons "
     "between them; looked through before the usual places (none when not set)."},
    {Setting::console,
     "HEARTH_CONSOLE",
     "Display of a Trainer whose program sets none: live, dashboard, plain or silent (live on a "
     "terminal, else plain, when not set)."},
    {Setting::xdg_cache_home,
     "XDG_CACHE_HOME",
     "Folder for caches of all programs; used when HEARTH_CACHE_DIR is not set."},
    {Setting::home, "HOME", "The user's folder; .cache below it is the last choice for caches."},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kSettings.size(); ++i) {
    if (kSettings[i].setting != static_cast<Setting>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order(), "one row for each Setting, in its order");

Error unexpected(Setting setting, std::string_view value, std::string_view expected) {
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}={}: expected {}",
                                   kSettings[static_cast<std::size_t>(setting)].variable,
                                   value,
                                   expected)};
}

// Splits a text into its leading number and the rest. Empty if there is no number or it is too
// large.
std::optional<std::pair<std::int64_t, std::string_view>> leading_number(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  return std::pair(value, std::string_view(rest, static_cast<std::size_t>(end - rest)));
}

// Returns the shift of a unit, or -1.
int unit_shift(std::string_view unit) {
  constexpr std::string_view kUnits = "KMGT";
  if (unit.empty()) {
    return 0;
  }
  const std::size_t place = kUnits.find(unit.front());
  return unit.size() > 1 || place == std::string_view::npos ? -1 : 10 * static_cast<int>(place + 1);
}

}  // namespace

std::span<const SettingInfo> known_settings() noexcept {
  return kSettings;
}

Settings Settings::from_environment() {
  Settings settings;
  for (const SettingInfo& info : kSettings) {
    // The names are literals, so data() is zero-terminated.
    if (const char* value = std::getenv(info.variable.data()); value != nullptr && *value != '\0') {
      settings.set(info.setting, value);
    }
  }
  return settings;
}

void Settings::set(Setting setting, std::string value) {
  values_[static_cast<std::size_t>(setting)] = std::move(value);
}

const std::optional<std::string>& Settings::text(Setting setting) const noexcept {
  return values_[static_cast<std::size_t>(setting)];
}

Result<std::optional<std::int64_t>> Settings::integer(Setting setting,
                                                      std::int64_t lowest,
                                                      std::int64_t highest) const {
  const std::optional<std::string>& value = text(setting);
  if (!value) {
    return std::optional<std::int64_t>();
  }
  const auto number = leading_number(*value);
  if (!number || !number->second.empty() || number->first < lowest || number->first > highest) {
    return unexpected(
        setting, *value, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return std::optional(number->first);
}

Result<std::optional<bool>> Settings::boolean(Setting setting) const {
  constexpr std::array<std::string_view, 8> kNames = {
      "on", "true", "yes", "1", "off", "false", "no", "0"};
  const std::optional<std::string>& value = text(setting);
  if (!value) {
    return std::optional<bool>();
  }
  const auto* found = std::find(kNames.begin(), kNames.end(), *value);
  if (found == kNames.end()) {
    return unexpected(setting, *value, "on or off");
  }
  return std::optional(found - kNames.begin() < 4);
}

Result<std::optional<std::int64_t>> Settings::size_bytes(Setting setting) const {
  const std::optional<std::string>& value = text(setting);
  if (!value) {
    return std::optional<std::int64_t>();
  }
  const auto number = leading_number(*value);
  const int shift = number ? unit_shift(number->second) : -1;
  if (shift < 0 || number->first < 0 ||
      number->first > std::numeric_limits<std::int64_t>::max() >> shift) {
    return unexpected(setting, *value, "a size such as 4096, 512M or 2G");
  }
  return std::optional(number->first << shift);
}

Result<std::optional<std::filesystem::path>> Settings::path(Setting setting) const {
  const std::optional<std::string>& value = text(setting);
  if (!value) {
    return std::optional<std::filesystem::path>();
  }
  std::filesystem::path path(*value);
  if (!path.is_absolute()) {
    return unexpected(setting, *value, "an absolute path");
  }
  return std::optional(std::move(path));
}

Result<std::optional<std::size_t>> Settings::choice(Setting setting,
                                                    std::span<const std::string_view> names) const {
  const std::optional<std::string>& value = text(setting);
  if (!value) {
    return std::optional<std::size_t>();
  }
  const auto found = std::find(names.begin(), names.end(), *value);
  if (found == names.end()) {
    return unexpected(setting, *value, fmt::format("one of {}", fmt::join(names, ", ")));
  }
  return std::optional(static_cast<std::size_t>(found - names.begin()));
}

std::vector<std::string> unknown_settings() {
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view variable = text.substr(0, text.find('='));
    const bool is_known = std::any_of(kSettings.begin(), kSettings.end(), [&](const auto& info) {
      return info.variable == variable;
    });
    if (variable.substr(0, kPrefix.size()) == kPrefix && !is_known) {
      unknown.emplace_back(variable);
    }
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

}  // namespace hearth::detail
