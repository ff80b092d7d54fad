#include "device_scratch.hpp"

#include <stdexcept>
#include <utility>

#include <hearth/backends/backend.hpp>

namespace hearth {

Result<std::byte*> DeviceScratch::take(std::int64_t size_bytes) {
  if (reserved_.data != nullptr && size_bytes <= reserved_.size_bytes) {
    return reserved_.data;
  }
  const Acquire outcome = memory_.acquire(size_bytes, PoolKind::scratch, taken_);
  if (outcome != Acquire::ok) {
    shortage_ = Shortage{.size_bytes = size_bytes, .outcome = outcome};
    return Error{.code = ErrorCode::out_of_memory, .text = "no scratch memory for the kernel"};
  }
  if (taken_.data == nullptr) {
    throw std::logic_error("the memory strategy answered ok and gave no bytes");
  }
  return taken_.data;
}

void DeviceScratch::release_after(std::uint64_t op_value) noexcept {
  if (taken_.data != nullptr) {
    LastUse use;
    use.add(kOpStream, op_value);
    memory_.release(std::exchange(taken_, {}), use);
  }
}

}  // namespace hearth
