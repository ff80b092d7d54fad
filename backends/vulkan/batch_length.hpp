// How many dispatches a batch has when it begins to run without a flush. To begin one costs the
// host 5 to 10 us, so few are better; the device must not wait for work, so the first begins early,
// and each that finds the device without work again is twice as long. Touched by the owner only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth::vulkan {

class BatchLength final {
 public:
  static constexpr std::uint32_t kFew = 8;
  static constexpr std::uint32_t kMost = 128;

  /// Whether a batch of so many dispatches begins now; asked behind each launch. `has_work()`,
  /// whether the device has other work, costs a question to the driver and is asked seldom.
  template <class HasWork>
  [[nodiscard]] bool is_enough(std::uint32_t dispatches, const HasWork& has_work) {
    if (dispatches < last_) {
      asks_at_ = enough_;  // another batch: somebody has begun the last one
    }
    last_ = dispatches;
    if (dispatches >= kMost) {
      asks_at_ = enough_;
      return true;
    }
    if (dispatches < asks_at_) {
      return false;
    }
    if (has_work()) {
      enough_ = kFew;
      asks_at_ = dispatches + kFew;
      return false;
    }
    enough_ = std::min(2 * enough_, kMost);
    asks_at_ = enough_;
    return true;
  }
  /// Somebody waits for what was submitted: the next batch is a first one.
  void begin_anew() noexcept { *this = {}; }

 private:
  std::uint32_t enough_ = kFew;   ///< Of a batch, when the device has nothing to do.
  std::uint32_t asks_at_ = kFew;  ///< Dispatches of the open batch.
  std::uint32_t last_ = 0;        ///< What it had when it was asked.
};

}  // namespace hearth::vulkan
