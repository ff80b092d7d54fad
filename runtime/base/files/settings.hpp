// Settings from the environment: the one place that reads HEARTH_* variables. RuntimeOptions take
// precedence. A Settings is a copy of one moment, so later changes of the environment have no
// effect on it.
// Threads: values, any; from_environment() and unknown_settings() not while another thread changes
// the environment.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::detail {

enum class Setting : std::uint8_t {
  cache_dir,            ///< HEARTH_CACHE_DIR
  log_level,            ///< HEARTH_LOG_LEVEL
  trace_file,           ///< HEARTH_TRACE_FILE
  cpu_devices,          ///< HEARTH_CPU_DEVICES
  cores,                ///< HEARTH_CORES
  data_dir,             ///< HEARTH_DATA_DIR
  record_file,          ///< HEARTH_RECORD_FILE
  eager_reports,        ///< HEARTH_EAGER_REPORTS
  async_sims,           ///< HEARTH_ASYNC_SIMS
  fusion,               ///< HEARTH_FUSION
  fusion_limit,         ///< HEARTH_FUSION_LIMIT
  round_intermediates,  ///< HEARTH_ROUND_INTERMEDIATES
  deterministic,        ///< HEARTH_DETERMINISTIC
  blocking_compiles,    ///< HEARTH_BLOCKING_COMPILES
  autotune,             ///< HEARTH_AUTOTUNE
  devices,              ///< HEARTH_DEVICES
  vulkan_devices,       ///< HEARTH_VULKAN_DEVICES
  vulkan_shuffle,       ///< HEARTH_VULKAN_SHUFFLE
  vulkan_without,       ///< HEARTH_VULKAN_WITHOUT
  cuda_devices,         ///< HEARTH_CUDA_DEVICES
  cuda_library_path,    ///< HEARTH_CUDA_LIBRARY_PATH
  console,              ///< HEARTH_CONSOLE
  xdg_cache_home,       ///< XDG_CACHE_HOME, of the desktop standard
  home,                 ///< HOME
};
inline constexpr int kSettingCount = 24;
/// The highest value of Setting::cores.
inline constexpr std::int64_t kMostCores = 65536;

struct SettingInfo {
  Setting setting;
  std::string_view variable;
  std::string_view meaning;  ///< one sentence, as in the README
};
/// Returns all variables that the library reads, in the order of Setting.
[[nodiscard]] std::span<const SettingInfo> known_settings() noexcept;

class Settings final {
 public:
  Settings() = default;  ///< Nothing is set.
  /// Reads the environment. A variable with an empty value counts as not set.
  [[nodiscard]] static Settings from_environment();

  void set(Setting setting, std::string value);

  /// Getters. They return nothing if the variable is not set.
  ///
  /// Errors: invalid_argument: "HEARTH_X=abc: expected a whole number from 1 to 64".
  [[nodiscard]] const std::optional<std::string>& text(Setting setting) const noexcept;
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(Setting setting,
                                                            std::int64_t lowest,
                                                            std::int64_t highest) const;
  /// Reads on, true, yes, 1 or off, false, no, 0.
  [[nodiscard]] Result<std::optional<bool>> boolean(Setting setting) const;
  /// Reads a number of bytes with an optional suffix K, M, G or T (of 1024): "512M".
  [[nodiscard]] Result<std::optional<std::int64_t>> size_bytes(Setting setting) const;
  /// Reads an absolute path.
  [[nodiscard]] Result<std::optional<std::filesystem::path>> path(Setting setting) const;
  /// Returns the index of the value in `names`.
  [[nodiscard]] Result<std::optional<std::size_t>> choice(
      Setting setting, std::span<const std::string_view> names) const;

 private:
  std::array<std::optional<std::string>, kSettingCount> values_;
};

/// Returns the HEARTH_* variables in the environment that the library does not know: likely typing
/// errors.
[[nodiscard]] std::vector<std::string> unknown_settings();

}  // namespace hearth::detail
