#include "own_scratch.hpp"

#include <algorithm>
#include <utility>

namespace hearth::gpu {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;

}  // namespace

Result<std::byte*> OwnScratch::take(std::int64_t size_bytes) {
  const std::int64_t own_bytes = piece_ == nullptr ? 0 : piece_->size_bytes();
  if (size_bytes > own_bytes) {
    HEARTH_TRY(const std::uint64_t ended, ops_.completed());
    while (!outgrown_.empty() && outgrown_.front().value <= ended) {
      outgrown_.pop_front();
    }
    HEARTH_TRY(std::unique_ptr<MemoryPiece> larger,
               device_.make_memory(std::max({size_bytes, 2 * own_bytes, kLeastBytes}),
                                   MemoryPlace::device));
    if (piece_ != nullptr) {
      outgrown_.push_back({std::move(piece_), ops_.open_value()});
    }
    piece_ = std::move(larger);
  }
  return reinterpret_cast<std::byte*>(piece_->address());  // NOLINT: never followed here
}

}  // namespace hearth::gpu
