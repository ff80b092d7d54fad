#include <hearth/runtime/base/unique_number.hpp>

#include <atomic>

namespace hearth {

std::uint64_t unique_number() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_acq_rel) + 1;
}

}  // namespace hearth
