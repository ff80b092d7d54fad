#include "own_scratch.hpp"

#include <algorithm>
#include <utility>

namespace hearth::vulkan {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;

}  // namespace

Result<std::byte*> OwnScratch::take(std::int64_t size_bytes) {
  if (size_bytes > buffer_.size_bytes()) {
    HEARTH_TRY(const std::uint64_t ended, ops_.completed());
    while (!outgrown_.empty() && outgrown_.front().value <= ended) {
      outgrown_.pop_front();
    }
    HEARTH_TRY(Buffer larger,
               device_.make_buffer(std::max({size_bytes, 2 * buffer_.size_bytes(), kLeastBytes}),
                                   BufferPlace::device));
    if (!buffer_.is_empty()) {
      outgrown_.push_back({std::move(buffer_), ops_.open_value()});
    }
    buffer_ = std::move(larger);
  }
  return reinterpret_cast<std::byte*>(buffer_.address());  // NOLINT: never followed here
}

}  // namespace hearth::vulkan
