// Scratch memory of one CPU device: grows to the largest request and stays. Taken at the start of a
// kernel, given back at its end. Threads: owner only; loop bodies get their share from the kernel
// that took it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::cpu {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// 64-byte aligned, uninitialised, valid until the next take_all(). Errors: out_of_memory.
  [[nodiscard]] Result<std::byte*> take_all(std::int64_t size_bytes);
  [[nodiscard]] std::int64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

}  // namespace hearth::cpu
