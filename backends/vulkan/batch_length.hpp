// How many dispatches a batch has when it begins to run without a flush. To begin one costs the
// host 5 to 10 us, so few are better; the device must not wait for work, so the first begins early,
// and each that finds the device without work again is twice as long. Touched by the owner only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth::vulkan {

class BatchLength final {
 public:
  /// Whether a batch of so many dispatches begins now. `has_work()`, whether the device has other
  /// work, costs a question to the driver and is asked seldom.
  template <class HasWork>
  [[nodiscard]] bool is_enough(std::uint32_t dispatches, const HasWork& has_work) {
    if (dispatches >= kMost) {
      return true;
    }
    if (dispatches < enough_ || dispatches % kFew != 0) {
      return false;
    }
    if (has_work()) {
      enough_ = kFew;
      return false;
    }
    enough_ = std::min(2 * enough_, kMost);
    return true;
  }
  /// Somebody waits for what was submitted.
  void begin_anew() noexcept { enough_ = kFew; }

 private:
  static constexpr std::uint32_t kFew = 8;
  static constexpr std::uint32_t kMost = 128;

  std::uint32_t enough_ = kFew;
};

}  // namespace hearth::vulkan
