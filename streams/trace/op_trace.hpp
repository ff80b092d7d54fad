// An op trace: what a program did, as data: the records of all its streams in one order that keeps
// every dependency, the tables that their numbers refer to and, where wanted, the bytes that went
// in and came out. `runtime/record/recorder` makes them, op_trace_file keeps them, `runtime/replay`
// runs them again, op_trace_reducer cuts them down. A plain value. Threads: any. What makes one
// valid stands in op_trace_checker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

/// What is known of how an op ended: known of reads alone.
enum class TraceOutcome : std::uint8_t {
  unknown,
  ok,
  failed,     ///< `error` says how.
  discarded,  ///< group_end: the program gave the group up.
};

/// One op. In its record, an operand's slot is the number of a value, from 1 in the order in which
/// values are made; its generation and reserved are 0. Shape, source and path are places in the
/// trace's tables, an expression too. A lifetime record has no blob and no ticket.
struct TraceOp {
  OpRecord record;
  std::vector<std::byte> blob = {};
  std::uint32_t device = 0;       ///< Place in OpTrace::devices.
  std::uint64_t lane = 0;         ///< The stream's number on that device, as it was.
  std::uint32_t data = 0;         ///< Place in OpTrace::data, from 1; 0 = the bytes are not known.
  std::uint32_t copied_from = 0;  ///< An upload of bytes that an earlier readback took from another
                                  ///< device: its place, from 1.
  TraceOutcome outcome = TraceOutcome::unknown;
  ErrorCode error = ErrorCode::internal;

  [[nodiscard]] OpView view() const noexcept { return {record, blob.data()}; }
};

struct OpTrace {
  struct Place {
    std::string file;
    std::uint32_t line = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  std::map<std::string, std::string> notes = {};  ///< Settings, seeds, whatever helps a reader.
  std::vector<std::string> devices = {};          ///< Their names.
  std::vector<Shape> shapes = {};
  std::vector<Place> places = {{}};       ///< The first means "unknown".
  std::vector<std::string> paths = {{}};  ///< The first means "none".
  std::vector<ExpressionRef> expressions = {};
  std::vector<std::vector<std::byte>> data = {};
  std::vector<TraceOp> ops = {};

  [[nodiscard]] const Shape& shape(const Operand& operand) const noexcept {
    return shapes[operand.shape.value];
  }
  /// The expression of an op, or null.
  [[nodiscard]] const Expression* expression_of(const TraceOp& op) const noexcept;
  /// What an op's operand is: "f32[4, 8]".
  [[nodiscard]] std::string describe(const Operand& operand) const;
  /// "matmul f32[4, 8], f32[8, 3] -> f32[4, 3]"
  [[nodiscard]] std::string describe(const TraceOp& op) const;
  /// "model.cpp:31", or empty.
  [[nodiscard]] std::string place_of(const TraceOp& op) const;
};

/// The bytes of an operand's value.
[[nodiscard]] std::int64_t value_size_bytes(const OpTrace& trace, const Operand& operand) noexcept;

}  // namespace hearth
