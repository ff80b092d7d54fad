#include <hearth/parallel/inproc_collective.hpp>

#include "reduce_loops.hpp"
#include "region_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace hearth {
namespace {

// Waking a device costs more than reducing fewer bytes on one that runs already.
constexpr std::size_t kLeastChunkBytes = std::size_t{16} * 1024;
// Chunks begin at cache lines of the regions, so that no two devices write to one line.
constexpr std::size_t kChunkAlignment = 64;

// Combines bytes [begin, end) of all regions. `detail` is the root of a broadcast, or the size of
// the regions for operations on their chunks.
using Combine = void (*)(std::span<std::byte* const> ranks,
                         DType dtype,
                         std::size_t detail,
                         std::size_t begin,
                         std::size_t end) noexcept;

void sum_bytes(std::span<std::byte* const> ranks,
               DType dtype,
               std::size_t /*detail*/,
               std::size_t begin,
               std::size_t end) noexcept {
  const auto element_bytes = static_cast<std::size_t>(size_bytes(dtype));
  detail::sum_ranks(ranks, ranks, dtype, begin / element_bytes, end / element_bytes);
}

// Calls fn(rank, from, to), in bytes, for the part of each rank's chunk that lies in [begin, end).
template <class Fn>
void for_each_chunk(std::size_t region_bytes,
                    std::size_t element_bytes,
                    std::size_t world,
                    std::size_t begin,
                    std::size_t end,
                    Fn fn) {
  for (std::size_t rank = 0; rank < world; ++rank) {
    const ElementRange chunk = chunk_of(region_bytes / element_bytes, world, rank);
    const std::size_t from = std::max(begin, chunk.begin * element_bytes);
    const std::size_t to = std::min(end, chunk.end * element_bytes);
    if (from < to) {
      fn(rank, from, to);
    }
  }
}

void sum_chunks(std::span<std::byte* const> ranks,
                DType dtype,
                std::size_t region_bytes,
                std::size_t begin,
                std::size_t end) noexcept {
  const auto element_bytes = static_cast<std::size_t>(size_bytes(dtype));
  for_each_chunk(
      region_bytes,
      element_bytes,
      ranks.size(),
      begin,
      end,
      [&](std::size_t rank, std::size_t from, std::size_t to) {
        detail::sum_ranks(
            ranks, ranks.subspan(rank, 1), dtype, from / element_bytes, to / element_bytes);
      });
}

void copy_chunks(std::span<std::byte* const> ranks,
                 DType dtype,
                 std::size_t region_bytes,
                 std::size_t begin,
                 std::size_t end) noexcept {
  for_each_chunk(region_bytes,
                 static_cast<std::size_t>(size_bytes(dtype)),
                 ranks.size(),
                 begin,
                 end,
                 [&](std::size_t rank, std::size_t from, std::size_t to) {
                   for (std::byte* const target : ranks) {
                     if (target != ranks[rank]) {
                       std::memcpy(target + from, ranks[rank] + from, to - from);
                     }
                   }
                 });
}

void copy_bytes(std::span<std::byte* const> ranks,
                DType /*dtype*/,
                std::size_t root,
                std::size_t begin,
                std::size_t end) noexcept {
  const std::byte* const source = ranks[root];
  for (std::byte* const target : ranks) {
    if (target != source && begin != end) {
      std::memcpy(target + begin, source + begin, end - begin);
    }
  }
}

// A collective under way. It counts the chunks and the caller that posts them; the last one to
// finish returns the regions.
class Round final {
 public:
  Round(std::vector<LentRegion> regions, Collective::Finished finished, std::size_t chunk_count)
      : regions_(std::move(regions)), finished_(std::move(finished)), left_(chunk_count + 1) {
    for (const LentRegion& region : regions_) {
      bytes_.push_back(region.bytes().data());
    }
  }

  [[nodiscard]] std::span<LentRegion> regions() noexcept { return regions_; }
  [[nodiscard]] std::span<std::byte* const> bytes() const noexcept { return bytes_; }

  void finish_chunk(bool was_combined) noexcept {
    if (!was_combined) {
      is_broken_.store(true, std::memory_order_release);  // partner: the load below
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      return_regions(is_broken_.load(std::memory_order_acquire)
                         ? Status(Error{.code = ErrorCode::collective_failed,
                                        .text = "a device stopped in the middle of a collective",
                                        .cause = failure_})
                         : Status());
    }
  }
  /// Sets the reason for which the caller could not post all chunks. Called before the caller's own
  /// finish_chunk().
  void register_failure(ErrorRef error) noexcept { failure_ = std::move(error); }
  void return_regions(const Status& status) {
    for (LentRegion& region : regions_) {
      region.done(status);
    }
    if (finished_) {
      finished_(status);
    }
  }

 private:
  std::vector<LentRegion> regions_;
  std::vector<std::byte*> bytes_;
  Collective::Finished finished_;
  std::atomic<std::size_t> left_;
  std::atomic<bool> is_broken_{false};
  ErrorRef failure_;
};

// A chunk queued on a device. A device that stops destroys it without running it; it counts as
// finished all the same.
class Chunk final {
 public:
  Chunk(std::shared_ptr<Round> round,
        Combine combine,
        std::size_t detail,
        std::size_t begin,
        std::size_t end)
      : round_(std::move(round)), combine_(combine), detail_(detail), begin_(begin), end_(end) {}
  Chunk(Chunk&&) noexcept = default;
  Chunk& operator=(Chunk&&) noexcept = delete;
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() {
    if (round_) {
      round_->finish_chunk(false);
    }
  }

  void run() {
    const auto round = std::exchange(round_, nullptr);
    combine_(round->bytes(), round->regions().front().dtype(), detail_, begin_, end_);
    round->finish_chunk(true);
  }

 private:
  std::shared_ptr<Round> round_;
  Combine combine_;
  std::size_t detail_;
  std::size_t begin_;
  std::size_t end_;
};

void start(std::vector<LentRegion> regions,
           const Status& checked,
           Combine combine,
           std::size_t detail,
           Collective::Finished finished) {
  const std::size_t size = regions.empty() ? 0 : regions.front().bytes().size();
  if (!checked.has_value() || size == 0) {
    Round(std::move(regions), std::move(finished), 1).return_regions(checked);
    return;
  }
  const std::size_t count = std::clamp<std::size_t>(size / kLeastChunkBytes, 1, regions.size());
  const auto round = std::make_shared<Round>(std::move(regions), std::move(finished), count);
  const auto edge = [&](std::size_t index) {
    return index == count ? size : size / count * index / kChunkAlignment * kChunkAlignment;
  };
  std::vector<Chunk> chunks;  // unposted chunks are destroyed here and count as not combined
  chunks.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    chunks.emplace_back(round, combine, detail, edge(index), edge(index + 1));
  }
  try {
    for (std::size_t index = 0; index < count; ++index) {
      round->regions()[index].run_on_device(
          [chunk = std::move(chunks[index])]() mutable { chunk.run(); });
    }
  } catch (...) {
    round->register_failure(detail::error_of_current_exception());
  }
  round->finish_chunk(true);  // the regions were valid until here
}

}  // namespace

void InprocCollective::all_reduce(std::vector<LentRegion> regions,
                                  ReduceOp /*op*/,
                                  Finished finished) {
  const Status checked = detail::check_regions(regions, true);
  start(std::move(regions), checked, &sum_bytes, 0, std::move(finished));
}

void InprocCollective::reduce_scatter(std::vector<LentRegion> regions,
                                      ReduceOp /*op*/,
                                      Finished finished) {
  const Status checked = detail::check_regions(regions, true);
  const std::size_t size = regions.empty() ? 0 : regions.front().bytes().size();
  start(std::move(regions), checked, &sum_chunks, size, std::move(finished));
}

void InprocCollective::all_gather(std::vector<LentRegion> regions, Finished finished) {
  const Status checked = detail::check_regions(regions, false);
  const std::size_t size = regions.empty() ? 0 : regions.front().bytes().size();
  start(std::move(regions), checked, &copy_chunks, size, std::move(finished));
}

void InprocCollective::broadcast(std::vector<LentRegion> regions, int root, Finished finished) {
  Status checked = detail::check_regions(regions, false);
  if (checked.has_value() && (root < 0 || static_cast<std::size_t>(root) >= regions.size())) {
    checked =
        Error{.code = ErrorCode::out_of_range,
              .text = fmt::format("collective: root {} of a world of {}", root, regions.size())};
  }
  start(std::move(regions),
        checked,
        &copy_bytes,
        static_cast<std::size_t>(root),
        std::move(finished));
}

}  // namespace hearth
