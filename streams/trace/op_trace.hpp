// An op trace: the work of a program as data. The records of all its streams are in one order that
// keeps every dependency. Tables resolve the numbers in the records. Uploaded and downloaded bytes
// are optional.
// `runtime/record/recorder` makes traces, op_trace_file stores them, `runtime/replay` runs them
// again, op_trace_reducer reduces them. op_trace_checker defines validity. A plain value. Threads:
// any.
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

/// Outcome of an op, as far as it is known: only for reads.
enum class TraceOutcome : std::uint8_t {
  unknown,
  ok,
  failed,     ///< `error` has the code.
  discarded,  ///< group_end: the program cancelled the group.
};

/// One op. In its record, an operand's slot is the number of a value, from 1 in the order of
/// creation; its generation and reserved are 0. Shape, source, path and expression are indices into
/// the trace's tables. A lifetime record has no blob and no ticket.
struct TraceOp {
  OpRecord record;
  std::vector<std::byte> blob = {};
  std::uint32_t device = 0;  ///< Index into OpTrace::devices.
  std::uint64_t lane = 0;    ///< The stream's original number on that device.
  std::uint32_t data = 0;    ///< Index into OpTrace::data, from 1; 0 = the bytes are unknown.
  /// For an upload of bytes that an earlier readback took from another device: number of that
  /// readback, from 1.
  std::uint32_t copied_from = 0;
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

  std::map<std::string, std::string> notes = {};  ///< Settings, seeds and other notes for a reader.
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
  /// Returns the expression of an op, or null.
  [[nodiscard]] const Expression* expression_of(const TraceOp& op) const noexcept;
  /// Returns the description of an operand: "f32[4, 8]".
  [[nodiscard]] std::string describe(const Operand& operand) const;
  /// Returns the description of an op: "matmul f32[4, 8], f32[8, 3] -> f32[4, 3]".
  [[nodiscard]] std::string describe(const TraceOp& op) const;
  /// Returns "model.cpp:31", or an empty text.
  [[nodiscard]] std::string place_of(const TraceOp& op) const;
};

/// Returns the size of an operand's value.
[[nodiscard]] std::int64_t value_size_bytes(const OpTrace& trace, const Operand& operand) noexcept;

}  // namespace hearth
