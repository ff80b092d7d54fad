// Decides how many dispatches a batch holds when it begins to run without a flush. A begin costs
// the host 5 to 10 us, so few are better; yet the device must not wait for work. The first batch
// therefore begins early. Each batch that finds the device idle again doubles the length. Threads:
// owner only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth::gpu {

class BatchLength final {
 public:
  static constexpr std::uint32_t kFew = 8;
  static constexpr std::uint32_t kMost = 128;

  /// Returns true if a batch of `dispatches` begins now; called after each launch. `has_work()`
  /// returns whether the device has other work. It queries the driver, so it is called seldom.
  template <class HasWork>
  [[nodiscard]] bool is_enough(std::uint32_t dispatches, const HasWork& has_work) {
    if (dispatches < last_) {
      next_query_at_ = enough_;  // a new batch: the last one was begun elsewhere
    }
    last_ = dispatches;
    if (dispatches >= kMost) {
      next_query_at_ = enough_;
      return true;
    }
    if (dispatches < next_query_at_) {
      return false;
    }
    if (has_work()) {
      enough_ = kFew;
      next_query_at_ = dispatches + kFew;
      return false;
    }
    enough_ = std::min(2 * enough_, kMost);
    next_query_at_ = enough_;
    return true;
  }
  /// Restarts with the first length, because a caller waits for the submitted work.
  void begin_anew() noexcept { *this = {}; }

 private:
  std::uint32_t enough_ = kFew;         ///< Length of a batch when the device is idle.
  std::uint32_t next_query_at_ = kFew;  ///< Dispatches of the open batch at the next query.
  std::uint32_t last_ = 0;              ///< Dispatches at the last call.
};

}  // namespace hearth::gpu
