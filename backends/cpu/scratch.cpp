#include "scratch.hpp"

#include <algorithm>
#include <cstdlib>

namespace hearth::cpu {

Scratch::~Scratch() {
  std::free(data_);
}

Result<std::byte*> Scratch::take_all(std::int64_t size_bytes) {
  if (size_bytes > size_bytes_) {
    constexpr std::int64_t kAlignment = 64;
    // Grown by half, so that slowly rising requests do not allocate each time.
    const std::int64_t wanted = std::max(size_bytes, size_bytes_ + size_bytes_ / 2);
    const std::int64_t rounded = (wanted + kAlignment - 1) / kAlignment * kAlignment;
    std::free(data_);
    size_bytes_ = 0;
    data_ = static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kAlignment),
                                                       static_cast<std::size_t>(rounded)));
    if (data_ == nullptr) {
      return Error{
          .code = ErrorCode::out_of_memory,
          .text = "cpu scratch: the machine refused " + std::to_string(rounded) + " bytes"};
    }
    size_bytes_ = rounded;
  }
  return data_;
}

}  // namespace hearth::cpu
