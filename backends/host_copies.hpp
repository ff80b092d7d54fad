// Copies of an inline backend whose memory is host memory: they have ended when the call returns.
// Threads: as CopyEngine.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <hearth/backends/copy_engine.hpp>

namespace hearth {

class HostCopies final : public CopyEngine {
 public:
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> /*after*/) override {
    return copy(to, from.data(), from.size());
  }
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> /*after*/) override {
    return copy(to.data(), from, to.size());
  }

 private:
  static CopyPart copy(std::byte* to, const std::byte* from, std::size_t size_bytes) {
    if (size_bytes > 0) {  // memcpy takes no null pointer
      std::memcpy(to, from, size_bytes);
    }
    return {.size_bytes = size_bytes};
  }
};

}  // namespace hearth
