#include "work_streams.hpp"

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <utility>

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;

bool share_bytes(const std::vector<ByteRange>& some, const std::vector<ByteRange>& others) {
  return std::ranges::any_of(some, [&](const ByteRange& a) {
    return std::ranges::any_of(others, [&](const ByteRange& b) { return a.overlaps(b); });
  });
}

bool uses_cell(const WorkAccess& access, ErrorCell cell) {
  return cell != 0 &&
         (access.cell == cell || std::ranges::find(access.guards, cell) != access.guards.end());
}

}  // namespace

WorkStreams::WorkStreams(int queues, std::uint64_t reorder_seed, bool has_shadow)
    : machine_({.queues = queues, .copy_engines = 2, .reorder_seed = reorder_seed}),
      has_shadow_(has_shadow) {}

bool WorkStreams::conflict(const WorkAccess& a, const WorkAccess& b) {
  return share_bytes(a.writes, b.reads) || share_bytes(a.writes, b.writes) ||
         share_bytes(a.reads, b.writes) || uses_cell(a, b.cell) || uses_cell(b, a.cell);
}

int WorkStreams::engine_for(std::uint8_t stream) const {
  return stream == kOpStream ? machine_.least_busy_queue() : machine_.queue_count() + stream - 1;
}

WorkStreams::Added WorkStreams::add(std::uint8_t stream,
                                    Work work,
                                    std::span<const TimelinePoint> after) {
  // What it waits for, its command and its point, and what shadow memory says to its bytes.
  HEARTH_ASSERT(stream <= kDownloadStream, "work on a stream that the sim does not have");
  SimCommand command{.engine = engine_for(stream),
                     .cost = work.cost,
                     .after = {},
                     .effect = {},
                     .hangs = work.hangs};
  Piece piece;
  const auto is_named = [after](const Piece& earlier) {
    return std::ranges::any_of(after, [&](const TimelinePoint& point) {
      return point.stream == earlier.stream && earlier.value <= point.value;
    });
  };
  for (const auto& [number, earlier] : pieces_) {
    if (is_named(earlier) || (earlier.stream == stream && conflict(earlier.access, work.access))) {
      piece.ancestors.insert(number);
      piece.ancestors.insert(earlier.ancestors.begin(), earlier.ancestors.end());
      if (!earlier.has_ended) {
        command.after.push_back(number);
      }
    }
  }
  piece.value = ++streams_[stream].issued;
  piece.stream = stream;
  piece.access = std::move(work.access);
  piece.effect = std::move(work.effect);
  const TimelinePoint point{.value = piece.value, .stream = stream};
  const std::uint64_t number = machine_.submitted() + 1;
  command.effect = [this, number] { end(number); };
  streams_[stream].numbers.push_back(number);
  const Piece& added = pieces_.emplace(number, std::move(piece)).first->second;
  machine_.submit(std::move(command));
  std::optional<ShadowReport> fault;
  if (has_shadow_) {
    fault =
        shadow_.access(number, added.access.reads, added.access.writes, [&](std::uint64_t earlier) {
          return is_known(earlier) || added.ancestors.contains(earlier);
        });
  }
  return {point, std::move(fault)};
}

void WorkStreams::end(std::uint64_t number) {
  Piece& piece = pieces_.at(number);
  piece.has_ended = true;
  const std::uint8_t index = piece.stream;
  if (UniqueFunction<void()> effect = std::move(piece.effect)) {
    effect();
  }
  Stream& stream = streams_[index];
  const auto has_ended_piece = [this](std::uint64_t first) {
    const auto found = pieces_.find(first);
    return found == pieces_.end() || found->second.has_ended;
  };
  while (!stream.numbers.empty() && has_ended_piece(stream.numbers.front())) {
    stream.numbers.pop_front();
    ++stream.ended;
  }
  if (!has_shadow_) {
    pieces_.erase(number);  // nobody asks what the host knows
  }
}

bool WorkStreams::run_next(nanoseconds limit) {
  return machine_.run_next(limit);
}

bool WorkStreams::is_issued(TimelinePoint point) const noexcept {
  return point.is_done() ||
         (point.stream < streams_.size() && point.value <= streams_[point.stream].issued);
}

bool WorkStreams::has_ended(TimelinePoint point) const noexcept {
  return point.is_done() || point.value <= ended(point.stream);
}

std::uint64_t WorkStreams::ended(std::uint8_t stream) const noexcept {
  return stream < streams_.size() ? streams_[stream].ended : 0;
}

bool WorkStreams::is_pending(ErrorCell cell) const {
  return std::ranges::any_of(pieces_, [cell](const auto& each) {
    return !each.second.has_ended && each.second.access.cell == cell;
  });
}

void WorkStreams::note_known(TimelinePoint point) {
  std::set<std::uint64_t> known;
  for (const auto& [number, piece] : pieces_) {
    if (piece.stream == point.stream && piece.value <= std::min(point.value, ended(point.stream))) {
      known.insert(number);
      known.insert(piece.ancestors.begin(), piece.ancestors.end());
    }
  }
  for (const std::uint64_t number : known) {
    pieces_.erase(number);
  }
}

// ---- memory ----

std::optional<ShadowReport> WorkStreams::resize_page(ByteRange page, std::int64_t size_bytes) {
  auto fault = shadow_.resize_page(
      page, size_bytes, [this](std::uint64_t number) { return is_known(number); });
  if (fault) {
    drop_effects({page.data + size_bytes, page.size_bytes - size_bytes});
  }
  return fault;
}

std::optional<ShadowReport> WorkStreams::remove_page(ByteRange page) {
  auto fault = shadow_.remove_page(page, [this](std::uint64_t number) { return is_known(number); });
  if (fault) {
    drop_effects(page);
  }
  return fault;
}

void WorkStreams::drop_effects(ByteRange range) {
  for (auto& [number, piece] : pieces_) {
    if (share_bytes(piece.access.reads, {range}) || share_bytes(piece.access.writes, {range})) {
      piece.effect = {};
    }
  }
}

std::optional<ShadowReport> WorkStreams::note_host_access(ByteRange range, bool writes) {
  const std::span<const ByteRange> bytes(&range, 1);
  const std::span<const ByteRange> none;
  return shadow_.access(ShadowMemory::kHost,
                        writes ? none : bytes,
                        writes ? bytes : none,
                        [this](std::uint64_t number) { return is_known(number); });
}

}  // namespace hearth::sim
