// The work of an asynchronous sim by stream: what each piece waits for, its point, and which pieces
// the host knows to have ended. Private to the sim. Owned by one device: no locks.
// Invariants: (1) a piece waits for earlier pieces of its own stream that touch its bytes or cells,
// and for the points it is given; for nothing else; (2) the points of a stream end in their order;
// (3) a piece is forgotten when it has ended and the host knows it.
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
  UniqueFunction<void()> effect = {};  ///< When it ends.
};

class WorkStreams final {
 public:
  /// `queues` run the ops; each kind of copy has an engine of its own.
  WorkStreams(int queues, std::uint64_t reorder_seed, bool has_shadow);

  struct Added {
    TimelinePoint point;
    std::optional<ShadowReport> fault;
  };
  /// Puts a piece of work on a stream, behind `after`. With a fault it has no effect.
  [[nodiscard]] Added add(std::uint8_t stream, Work work, std::span<const TimelinePoint> after);
  /// Moves the clock to the next end of a piece, if that is not past `limit`; false if it is, or if
  /// nothing can end.
  bool run_next(std::chrono::nanoseconds limit);
  /// Moves the clock on; what ends by then ends.
  void advance(std::chrono::nanoseconds duration) { machine_.advance(duration); }

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return machine_.now(); }
  [[nodiscard]] bool is_issued(TimelinePoint point) const noexcept;
  [[nodiscard]] bool has_ended(TimelinePoint point) const noexcept;
  /// The value up to which the stream's work has ended.
  [[nodiscard]] std::uint64_t ended(std::uint8_t stream) const noexcept;
  /// Whether a kernel that has not ended may still write this cell.
  [[nodiscard]] bool is_pending(ErrorCell cell) const;
  /// How many pieces it remembers.
  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }

  /// The host has learned that this point has ended, and with it all that led there. Only from now
  /// on may work that the host orders use its bytes anew.
  void note_known(TimelinePoint point);

  void add_page(ByteRange page) { shadow_.add_page(page); }
  /// What may still use the bytes that go, if anything; work that is left there has no effect.
  [[nodiscard]] std::optional<ShadowReport> resize_page(ByteRange page, std::int64_t size_bytes);
  [[nodiscard]] std::optional<ShadowReport> remove_page(ByteRange page);
  /// The host reads or writes bytes of the device by their address.
  [[nodiscard]] std::optional<ShadowReport> note_host_access(ByteRange range, bool writes);

 private:
  struct Piece {
    std::uint64_t value = 0;  // on its stream
    std::uint8_t stream = kOpStream;
    bool has_ended = false;
    NumberSet ancestors;  // pieces that end before it begins, as far as they were remembered
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
    std::vector<std::uint64_t> parents;  // those that have not ended, and stand for all others
  };
  /// What a new piece waits for.
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
