#include "work_streams.hpp"

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <utility>

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;

bool uses_cell(const Work& work, ErrorCell cell) {
  return cell != 0 &&
         (work.cell == cell || std::ranges::find(work.guards, cell) != work.guards.end());
}

}  // namespace

WorkStreams::WorkStreams(int queues, std::uint64_t reorder_seed, bool has_shadow)
    : machine_({.queues = queues, .copy_engines = 2, .reorder_seed = reorder_seed}),
      has_shadow_(has_shadow) {}

bool WorkStreams::conflict(const Work& a, const Work& b) {
  return a.access.conflicts_with(b.access) || uses_cell(a, b.cell) || uses_cell(b, a.cell);
}

int WorkStreams::engine_for(std::uint8_t stream) const {
  return stream == kOpStream ? machine_.least_busy_queue() : machine_.queue_count() + stream - 1;
}

WorkStreams::Order WorkStreams::order_of(std::uint8_t stream,
                                         const Work& work,
                                         std::span<const TimelinePoint> after) const {
  const auto is_named = [after](const Piece& earlier) {
    return std::ranges::any_of(after, [&](const TimelinePoint& point) {
      return point.stream == earlier.stream && earlier.value <= point.value;
    });
  };
  Order order;
  for (auto each = pieces_.rbegin(); each != pieces_.rend(); ++each) {
    const auto& [number, earlier] = *each;
    if (order.ancestors.contains(number)) {
      continue;  // a later piece already waits for it
    }
    if (is_named(earlier) || (earlier.stream == stream && conflict(earlier.work, work))) {
      order.ancestors.insert(number);
      order.ancestors.insert_from(earlier.ancestors, pieces_.begin()->first);
      if (!earlier.has_ended) {
        order.parents.push_back(number);
      }
    }
  }
  return order;
}

WorkStreams::Added WorkStreams::add(std::uint8_t stream,
                                    Work work,
                                    std::span<const TimelinePoint> after) {
  // Phases: dependencies, point, command, check by shadow memory.
  HEARTH_ASSERT(stream <= kDownloadStream, "work on a stream that the sim does not have");
  const std::uint64_t number = machine_.submitted() + 1;
  Order order = order_of(stream, work, after);
  SimCommand command{.engine = engine_for(stream),
                     .cost = work.cost,
                     .after = std::move(order.parents),
                     .effect = [this, number] { end(number); },
                     .hangs = work.hangs};
  Stream& line = streams_[stream];
  line.numbers.push_back(number);
  const TimelinePoint point{.value = ++line.issued, .stream = stream};
  Piece& piece = pieces_
                     .emplace(number,
                              Piece{.value = point.value,
                                    .stream = stream,
                                    .has_ended = false,
                                    .ancestors = std::move(order.ancestors),
                                    .work = std::move(work)})
                     .first->second;
  machine_.submit(std::move(command));
  if (!has_shadow_) {
    return {point, std::nullopt};
  }
  const auto is_ordered = [&](std::uint64_t earlier) {
    return is_known(earlier) || piece.ancestors.contains(earlier);
  };
  std::optional<ShadowReport> fault =
      shadow_.access(number, piece.work.access.reads, piece.work.access.writes, is_ordered);
  if (fault) {
    piece.work.effect = {};
  }
  return {point, std::move(fault)};
}

void WorkStreams::end(std::uint64_t number) {
  Piece& piece = pieces_.at(number);
  piece.has_ended = true;
  const std::uint8_t index = piece.stream;
  if (UniqueFunction<void()> effect = std::move(piece.work.effect)) {
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
    pieces_.erase(number);  // without a shadow only the end counts, not the host's knowledge
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
    return !each.second.has_ended && each.second.work.cell == cell;
  });
}

void WorkStreams::record_known(TimelinePoint point) {
  if (point.stream >= streams_.size()) {
    return;
  }
  Stream& stream = streams_[point.stream];
  const std::uint64_t value = std::min(point.value, stream.ended);
  if (value <= stream.known || pieces_.empty()) {
    return;
  }
  stream.known = value;
  NumberSet known;
  for (auto each = pieces_.rbegin(); each != pieces_.rend(); ++each) {
    const auto& [number, piece] = *each;
    if (piece.stream == point.stream && piece.value <= value && !known.contains(number)) {
      known.insert(number);
      known.insert_from(piece.ancestors, pieces_.begin()->first);
    }
  }
  std::erase_if(pieces_, [&known](const auto& each) { return known.contains(each.first); });
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
    if (piece.work.access.overlaps(range)) {
      piece.work.effect = {};
    }
  }
}

std::optional<ShadowReport> WorkStreams::record_host_access(ByteRange range, bool writes) {
  const std::span<const ByteRange> bytes(&range, 1);
  const std::span<const ByteRange> none;
  return shadow_.access(ShadowMemory::kHost,
                        writes ? none : bytes,
                        writes ? bytes : none,
                        [this](std::uint64_t number) { return is_known(number); });
}

}  // namespace hearth::sim
