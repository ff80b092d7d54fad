// Peak rates of a device, measured by two kernels on an otherwise idle backend. They are kept on
// disk, so that later programs need not measure again. The tape uses them to decide whether
// recomputing a value costs less than storing it. Private to runtime. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/device.hpp>

namespace hearth {

struct MeasuredPeaks {
  DevicePeaks peaks;
  /// Whether the judge of `autotune` found the samples undisturbed. If not, the device may be
  /// faster.
  bool is_clean = false;
};

/// Measures the peaks by duels of each kernel against itself, using at most `most_bytes` of the
/// backend's memory. Requires an idle backend; afterwards the backend may only be destroyed.
///
/// Cost: a tenth of a second, at most one on a busy machine; on a GPU also two compilations.
/// Errors: invalid_argument for too few bytes or a test's clock; those of the backend;
/// deadline_exceeded.
[[nodiscard]] Result<MeasuredPeaks> measure_peaks(Backend& backend, std::int64_t most_bytes);

/// Peaks stored under this name; nullopt if none can be read.
[[nodiscard]] std::optional<DevicePeaks> kept_peaks(const std::string& name);

/// A device whose peaks are measured. A value.
struct PeakSubject {
  std::string name = {};  ///< Key of the stored peaks; equal for devices of equal speed.
  /// Opens a backend to measure on. Empty if the speed of this build is not representative.
  std::function<Result<std::unique_ptr<Backend>>()> open = {};
  bool is_automatic = false;  ///< Measured at the device's first openings, without a request.
  std::int64_t most_bytes = 0;
  double part = 1;  ///< The device's share of the measured rates.

  /// Returns the stored peaks. An automatic device is also measured at its first four openings if
  /// the result can be stored. The maximum of each rate counts, because other programs only ever
  /// slow a run down. Returns nullopt if there are no peaks; the log reports a failed measurement.
  [[nodiscard]] std::optional<DevicePeaks> known(detail::Log& log) const;
  /// Measures, and returns the larger of each measured and each stored rate, which is then stored:
  /// a busy machine never lowers a peak. Requires `open`. Errors: those of opening and
  /// measuring; io_error; not_found if there is no cache folder.
  [[nodiscard]] Result<DevicePeaks> measure_now() const;

 private:
  [[nodiscard]] Result<MeasuredPeaks> measure() const;
  [[nodiscard]] DevicePeaks part_of(const DevicePeaks& whole) const noexcept;
};

/// Whether this build is optimised and has no sanitizer, so that its speed is representative.
[[nodiscard]] bool is_build_of_full_speed() noexcept;

}  // namespace hearth
