// The physical streams of a device, and points in their work. Values. Threads: any.
#pragma once

#include <cstdint>

namespace hearth {

/// The physical streams of a device, numbered below kMaxPhysicalStreams.
inline constexpr std::uint8_t kOpStream = 0;
inline constexpr std::uint8_t kUploadStream = 1;
inline constexpr std::uint8_t kDownloadStream = 2;

/// The completion of one piece of a stream's work and of all work before it. Value 0 is always
/// done.
struct TimelinePoint {
  std::uint64_t value = 0;
  std::uint8_t stream = kOpStream;

  [[nodiscard]] bool is_done() const noexcept { return value == 0; }
  friend bool operator==(const TimelinePoint&, const TimelinePoint&) = default;
};

}  // namespace hearth
