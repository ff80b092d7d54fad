// Checks, op by op, that a program could have made an op trace. So a replay cannot do anything that
// no program can. Owned by the code that reads or builds a trace. Threads: one at a time.
// A trace is valid if for each op (1) its numbers are in the trace's tables; (2) its record keeps
// the rules of its kind (record_rules); (3) its inputs are values of its device that exist and were
// not dropped or used up, and its outputs are the next numbers; (4) an update group holds optimizer
// steps and drops, is not nested, and its results are not used before its end; (5) bytes have the
// size of their tensor.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth {

/// Limits of a replay. A hostile file can request 2^50 elements as easily as 2.
struct TraceLimits {
  std::int64_t value_bytes = std::int64_t{1} << 40;  ///< Bytes of one tensor.
  std::int64_t live_bytes =
      std::int64_t{1}
      << 40;           ///< Bytes of all simultaneously live tensors, as if views were copies.
  double work = 1e16;  ///< Flops and bytes of all ops, by the op table.
};

class OpTraceChecker {
 public:
  /// Makes a checker. `trace` must outlive it. The trace's tables are complete, but ops may still
  /// be added.
  explicit OpTraceChecker(const OpTrace& trace, const TraceLimits& limits = {})
      : trace_(trace), limits_(limits) {}

  /// Checks the tables.
  ///
  /// Errors: invalid_argument.
  [[nodiscard]] Status check_tables() const;
  /// Checks the next op of the trace, which must exist.
  ///
  /// Errors: those of rules::check_record; invalid_argument; out_of_memory beyond the limits.
  [[nodiscard]] Status step();

 private:
  struct Value {
    std::uint32_t device = 0;
    TensorSpec spec = {};
    bool is_live = false;
    std::size_t group = 0;     // the update group that makes it; 0 = none
    std::size_t named_by = 0;  // the op that names it last, and whether that op uses it up
    bool is_ending = false;
  };

  [[nodiscard]] Status check_numbers(const TraceOp& op) const;
  [[nodiscard]] Status check_operands(const TraceOp& op);
  [[nodiscard]] Status check_input(const TraceOp& op, const Operand& operand);
  [[nodiscard]] Status check_bytes(const TraceOp& op) const;
  [[nodiscard]] Status check_group(const TraceOp& op);
  [[nodiscard]] Status count_work(const TraceOp& op);
  void apply(const TraceOp& op);

  const OpTrace& trace_;
  const TraceLimits limits_;
  std::size_t next_op_ = 0;
  std::vector<Value> values_ = std::vector<Value>(1);  // by number; 0 is none
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t>
      open_groups_;                                   // by device and lane
  std::vector<bool> is_open_ = std::vector<bool>(1);  // by group
  std::int64_t live_bytes_ = 0;
  double work_ = 0;
  std::vector<TensorSpec> inputs_;   // of the current op
  std::vector<TensorSpec> outputs_;  // of the current op
};

/// Checks a whole trace.
///
/// Errors: those of the checker, with the op's number in front.
[[nodiscard]] Status check_trace(const OpTrace& trace, const TraceLimits& limits = {});

}  // namespace hearth
