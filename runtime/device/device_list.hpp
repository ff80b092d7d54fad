// Which devices a runtime opens: its options checked, the defaults where they name none, and the
// machine's cores and memory shared among them. Private to runtime. Threads: any; a value.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <hearth/runtime/runtime.hpp>

namespace hearth {

struct DeviceList {
  std::vector<DeviceOptions> devices;
  std::size_t listed_count = 0;  ///< By Runtime::devices(); those come first.
  int copy_threads = 1;          ///< How many of the host's each GPU has for its copies.
  std::string choice = {};       ///< Which device "auto" is, and why; empty where none is.
  bool is_of_variable = false;   ///< HEARTH_DEVICES names those that are listed.
  bool lacks_gpu = false;        ///< It is the CPU, although this build has GPUs.
};

/// Errors: ArgumentError, which names the option, or the device and its option.
void require_sound(const RuntimeOptions& options, SourceLoc loc);

/// Of sound options. A device that names no cores or no budget has its share of them.
/// Errors: ArgumentError for two devices of one name; for cores that this process may not use, or
/// that are named twice; for "auto", where HEARTH_VULKAN_DEVICES names a card that is not there.
[[nodiscard]] DeviceList device_list(const RuntimeOptions& options, SourceLoc loc);

/// What is wrong with that device of the list, as a mistake in HEARTH_DEVICES where that names it.
[[nodiscard]] Error mistake_of(const DeviceList& list, std::size_t index, Error mistake);

}  // namespace hearth
