// A model thread's knowledge: the steps of other threads that happened before, and the oldest
// visible store of each atomic. Values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::model {

inline constexpr std::size_t kMaxThreads = 4;  // including the setup
inline constexpr std::size_t kMaxLocations = 40;

struct View {
  std::array<std::uint16_t, kMaxThreads> times{};     // steps of each thread that happened before
  std::array<std::uint16_t, kMaxLocations> oldest{};  // oldest store still visible, by atomic

  void join(const View& other) noexcept {
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i] = std::max(times[i], other.times[i]);
    }
    for (std::size_t i = 0; i < oldest.size(); ++i) {
      oldest[i] = std::max(oldest[i], other.oldest[i]);
    }
  }
};

}  // namespace hearth::model
