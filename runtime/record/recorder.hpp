// Recorder: turns the records that a runtime's streams push into an op trace. Private to runtime;
// one in each RuntimeTables. Threads: any.
// Invariants: (1) a record is noted before it is pushed. No other thread can name its results
// before its push returns, so the noted order keeps every dependency; (2) only its owner reads a
// ticket, before the push passes it on; (3) noting never fails the op.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/path_table.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape_table.hpp>
#include <hearth/runtime/base/source_table.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

class DeviceEndpoint;
class ExpressionTable;
struct ReadTicket;
struct TraceOp;

class Recorder {
 public:
  /// Identifies a noted op.
  struct Mark {
    std::uint64_t recording = 0;
    std::size_t op = 0;
  };
  /// A tensor that existed before the recording: it is entered as an upload, whose bytes come from
  /// a read pushed before the op.
  struct UnrecordedInput {
    Operand operand;
    std::unique_ptr<ReadTicket> read;
  };

  Recorder(const ShapeTable& shapes,
           const SourceTable& sources,
           const PathTable& paths,
           const ExpressionTable& expressions) noexcept;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  [[nodiscard]] bool is_on() const noexcept {
    return is_on_.load(std::memory_order_acquire);  // partners: start, stop, end_early
  }
  /// Starts a recording. Errors: invalid_argument if one is under way.
  [[nodiscard]] Status start(std::span<const Device> devices, const RecordOptions& options);
  /// Ends the recording. Errors: invalid_argument if there is none.
  [[nodiscard]] Result<OpTrace> stop();
  /// The number of a tensor's value. A tensor that the recording does not know is entered as an
  /// upload without bytes.
  /// Errors: invalid_argument if there is no recording, or none of that device.
  [[nodiscard]] Result<std::uint32_t> value_of(const DeviceEndpoint& endpoint,
                                               LaneId lane,
                                               const Operand& operand);

  // ---- for streams, before they push ----
  /// The inputs whose production was not recorded, each with a read to push first if its bytes are
  /// recorded.
  [[nodiscard]] std::vector<UnrecordedInput> admit_unrecorded_inputs(const DeviceEndpoint& endpoint,
                                                                     LaneId lane,
                                                                     const OpView& op);
  /// Notes an op that gets this sequence number; hooks its ticket, if it has one.
  [[nodiscard]] std::optional<Mark> note(const DeviceEndpoint& endpoint,
                                         LaneId lane,
                                         std::uint64_t sequence,
                                         const OpView& op);
  /// Cancels a noted op whose push threw.
  void cancel(const Mark& mark);
  /// Notes a pushed drop. One that does not fit into memory is omitted: the tensor then lives to
  /// the end of the trace.
  void record_drop(const DeviceEndpoint& endpoint, LaneId lane, const Operand& operand) noexcept;

  // ---- for the device ----
  /// Notes that an op has failed. If no read reports the failure, the trace gets a read of the op's
  /// result.
  void register_failure(const DeviceEndpoint& endpoint,
                        LaneId lane,
                        std::uint64_t sequence,
                        const Error& error) noexcept;

 private:
  struct Name {  // of a tensor in this runtime
    std::uint32_t device = 0;
    SlotId slot;
    std::uint32_t generation = 0;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  struct State;

  /// The recording's number of an endpoint's device, if it takes part.
  [[nodiscard]] static std::optional<std::uint32_t> device_of(const State& state,
                                                              const DeviceEndpoint& endpoint);
  /// The final trace, with reads of unread failures, and without the ops whose push threw.
  [[nodiscard]] static OpTrace finished(State& state);
  [[nodiscard]] static bool is_left_out(const State& state,
                                        std::uint32_t device,
                                        LaneId lane,
                                        const OpView& op);
  void leave_out(State& state, std::uint32_t device, LaneId lane, const OpView& op) const;
  void add_drop(State& state, std::uint32_t device, LaneId lane, const Operand& operand) const;
  void add_operands(State& state, TraceOp& op, const OpView& from) const;
  [[nodiscard]] Operand translate(State& state, const Operand& operand, std::uint32_t value) const;
  [[nodiscard]] std::uint32_t place_of(State& state, SourceId source) const;
  [[nodiscard]] std::uint32_t path_of(State& state, PathId path) const;
  /// Notes the expression of an op of that kind, found by its number in the runtime's table.
  void record_expression(State& state, TraceOp& op) const;
  static void record_kind(State& state, TraceOp& op, const OpView& from);
  /// Appends an op; ends the recording if it grows too large.
  std::size_t add(State& state, TraceOp op);
  void end_early(State& state, std::string_view why);
  void end_early(const Error& error);
  void listen(const OpView& op, const Mark& mark);
  void finish(const Mark& mark, std::span<const std::byte> bytes, const ErrorRef& error) noexcept;
  [[nodiscard]] RecordedBytes wanted_bytes() const;
  [[nodiscard]] std::unique_ptr<ReadTicket> read_for(const Mark& mark,
                                                     std::vector<std::byte> bytes);

  const ShapeTable& shapes_;
  const SourceTable& sources_;
  const PathTable& paths_;
  const ExpressionTable& expressions_;
  std::atomic<bool> is_on_{false};
  mutable detail::Mutex mutex_;
  std::uint64_t recording_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<State> state_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
