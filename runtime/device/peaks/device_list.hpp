// The devices that a runtime opens: checks the options, fills in defaults, and divides the
// machine's cores and memory. Private to runtime. Threads: any; a value.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <hearth/runtime/runtime.hpp>

namespace hearth {

struct DeviceList {
  std::vector<DeviceOptions> devices;
  /// Number of devices that Runtime::devices() lists; those come first.
  std::size_t listed_count = 0;
  int copy_threads = 1;  ///< Host threads that each GPU has for its copies.
  /// The device that "auto" selects, with the reason; empty without "auto".
  std::string choice = {};
  bool is_of_variable = false;  ///< Whether HEARTH_DEVICES names the listed devices.
  bool lacks_gpu = false;  ///< Whether "auto" fell back to the CPU in a build with GPU support.
};

/// Errors: ArgumentError that names the option, or the device and its option.
void require_sound(const RuntimeOptions& options, SourceLoc loc);

/// Lists the devices of options that require_sound() accepts. A device without cores or budget gets
/// its share.
/// Errors: ArgumentError for two devices of one name; for cores that this process may not use, or
/// that are named twice; for "auto" if HEARTH_CUDA_DEVICES or HEARTH_VULKAN_DEVICES names an absent
/// card, and if the list names the chosen card's Vulkan device too.
[[nodiscard]] DeviceList device_list(const RuntimeOptions& options, SourceLoc loc);

/// Converts the mistake of one device; it becomes a mistake in HEARTH_DEVICES if that names the
/// device.
[[nodiscard]] Error mistake_of(const DeviceList& list, std::size_t index, Error mistake);

}  // namespace hearth
