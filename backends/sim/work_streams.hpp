// The work of an asynchronous sim by stream: dependencies and point of each piece, and which pieces
// the host knows to have ended. Private to the sim. Owned by one device: no locks.
// Invariants: (1) a piece waits for earlier pieces of its own stream that access its bytes or
// cells, and for the given points, and for nothing else; (2) the points of a stream end in order;
// (3) a piece is forgotten once it has ended and the host knows that.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/sim/shadow_memory.hpp>
#include <hearth/backends/sim/sim_machine.hpp>

#include "number_set.hpp"
#include "stored_call.hpp"

namespace hearth::sim {

struct Work {
  Access access = {};
  /// Error cells that it reads, and the one that it writes; 0 is none.
  std::vector<ErrorCell> guards = {};
  ErrorCell cell = 0;
  std::chrono::nanoseconds cost{0};
  bool hangs = false;
  UniqueFunction<void()> effect = {};  ///< Runs at its end.
};

class WorkStreams final {
 public:
  /// Creates `queues` engines for ops and one engine for each direction of copies.
  WorkStreams(int queues, std::uint64_t reorder_seed, bool has_shadow);

  struct Added {
    TimelinePoint point;
    std::optional<ShadowReport> fault;
  };
  /// Adds a piece of work to a stream, behind `after`. A piece with a fault has no effect.
  [[nodiscard]] Added add(std::uint8_t stream, Work work, std::span<const TimelinePoint> after);
  /// Moves the clock to the next end of a piece. Returns false if that is past `limit`, or if no
  /// piece can end.
  bool run_next(std::chrono::nanoseconds limit);
  /// Advances the clock and ends the pieces that are due by then.
  void advance(std::chrono::nanoseconds duration) { machine_.advance(duration); }

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return machine_.now(); }
  [[nodiscard]] bool is_issued(TimelinePoint point) const noexcept;
  [[nodiscard]] bool has_ended(TimelinePoint point) const noexcept;
  /// Newest point value up to which all work of the stream has ended.
  [[nodiscard]] std::uint64_t ended(std::uint8_t stream) const noexcept;
  /// Whether a kernel that has not ended may still write this cell.
  [[nodiscard]] bool is_pending(ErrorCell cell) const;
  /// Number of pieces that it keeps.
  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }

  /// Records that the host knows the end of this point and of all earlier work that it depends on.
  /// Work that the host orders may reuse their bytes only from then on.
  void record_known(TimelinePoint point);

  void add_page(ByteRange page) { shadow_.add_page(page); }
  /// Shrinks or grows a page. Returns a fault if work may still use removed bytes; that work then
  /// has no effect.
  [[nodiscard]] std::optional<ShadowReport> resize_page(ByteRange page, std::int64_t size_bytes);
  [[nodiscard]] std::optional<ShadowReport> remove_page(ByteRange page);
  /// Records an access of the host to device bytes by their address.
  [[nodiscard]] std::optional<ShadowReport> record_host_access(ByteRange range, bool writes);

 private:
  struct Piece {
    std::uint64_t value = 0;  // on its stream
    std::uint8_t stream = kOpStream;
    bool has_ended = false;
    NumberSet ancestors;  // kept pieces that end before it begins
    Work work;
  };
  struct Stream {
    std::uint64_t issued = 0;
    std::uint64_t ended = 0;
    std::uint64_t known = 0;
    std::deque<std::uint64_t> numbers;  // of the pieces behind `ended`
  };

  [[nodiscard]] static bool conflict(const Work& a, const Work& b);
  struct Order {
    NumberSet ancestors;
    std::vector<std::uint64_t> parents;  // unended pieces that it must wait for directly
  };
  /// Dependencies of a new piece.
  [[nodiscard]] Order order_of(std::uint8_t stream,
                               const Work& work,
                               std::span<const TimelinePoint> after) const;
  [[nodiscard]] int engine_for(std::uint8_t stream) const;
  void end(std::uint64_t number);
  void drop_effects(ByteRange range);
  /// Whether the host knows that the piece has ended.
  [[nodiscard]] bool is_known(std::uint64_t number) const { return !pieces_.contains(number); }

  SimMachine machine_;
  bool has_shadow_;
  ShadowMemory shadow_;
  std::map<std::uint64_t, Piece> pieces_;  // by the machine's number
  std::array<Stream, kDownloadStream + 1> streams_;
};

}  // namespace hearth::sim
