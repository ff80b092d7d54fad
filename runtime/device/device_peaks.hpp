// What a device reaches at most, measured by two kernels on a backend that nobody else uses, and
// kept on disk, so that a machine need not measure its devices again and again. A tape decides by
// it whether making a value again costs less than keeping it. Private to runtime. Threads: any.
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

/// Measures, in at most so many bytes of the backend's own memory. Nothing else may be under way on
/// it, and nothing comes behind but its end.
///
/// Cost: some tens of milliseconds; on a GPU two compilations besides.
/// Errors: invalid_argument: too few bytes, or the thread's time is a test's; those of the backend;
/// deadline_exceeded.
[[nodiscard]] Result<DevicePeaks> measure_peaks(Backend& backend, std::int64_t most_bytes);

/// What is kept under this name. Empty: nothing, or nothing that can be read.
[[nodiscard]] std::optional<DevicePeaks> kept_peaks(const std::string& name);

/// A device to be measured. Values.
struct PeakSubject {
  std::string name = {};  ///< Under which it is kept: of one name, all are equally fast.
  /// Opens a backend to measure on. Empty: its speed says nothing.
  std::function<Result<std::unique_ptr<Backend>>()> open = {};
  bool is_automatic = false;  ///< It is measured when it is opened, as long as that is new.
  std::int64_t most_bytes = 0;
  double part = 1;  ///< The device's, of what is measured.

  /// What is kept. One that is automatic is measured besides at its first four openings, where
  /// there is a place to keep it: since others only ever take time away, the most of each counts.
  /// Empty: neither, which the log says where measuring failed.
  [[nodiscard]] std::optional<DevicePeaks> known(detail::Log& log) const;
  /// Measures, and keeps that in place of what was. Requires `open`. Errors: those of opening and
  /// measuring; io_error, and not_found where there is no folder for caches.
  [[nodiscard]] Result<DevicePeaks> measure_now() const;

 private:
  [[nodiscard]] Result<DevicePeaks> measure() const;
  [[nodiscard]] DevicePeaks part_of(const DevicePeaks& whole) const noexcept;
};

/// Whether the speed of this build says something: it is optimised and has no sanitizer.
[[nodiscard]] bool is_build_of_full_speed() noexcept;

}  // namespace hearth
