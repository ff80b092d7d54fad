// Whether an op trace is one that a program could have made, op by op: so that what is replayed
// cannot do what no program can. Owned by the code that reads or builds a trace. Threads: one at a
// time. A trace is valid when for each op (1) its numbers lie in the trace's tables; (2) its record
// keeps the rules of its kind (record_rules); (3) its inputs are values of its device that were
// made before and not dropped or used up, its outputs the next numbers; (4) an update group holds
// optimizer steps and drops, is not nested, and nobody uses its results before its end; (5) bytes
// have the size of the tensor they are of.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth {

/// What a replay may ask for. A hostile file says "2^50 elements" as easily as "2".
struct TraceLimits {
  std::int64_t value_bytes = std::int64_t{1} << 40;  ///< Of one tensor.
  std::int64_t live_bytes =
      std::int64_t{1}
      << 40;           ///< Of all that are there at one time, views counted as if they were not.
  double work = 1e16;  ///< Flops and bytes of all ops, by the op table.
};

class OpTraceChecker {
 public:
  /// `trace` must outlive the checker; its tables are complete, ops may still be added.
  explicit OpTraceChecker(const OpTrace& trace, const TraceLimits& limits = {})
      : trace_(trace), limits_(limits) {}

  /// Errors: invalid_argument.
  [[nodiscard]] Status check_tables() const;
  /// Checks the next op of the trace, which must be there.
  /// Errors: those of rules::check_record; invalid_argument; out_of_memory beyond the limits.
  [[nodiscard]] Status step();

 private:
  struct Value {
    std::uint32_t device = 0;
    TensorSpec spec = {};
    bool is_live = false;
    std::size_t group = 0;     // the update group that makes it; 0 = none
    std::size_t named_by = 0;  // the op that names it last, and whether that uses it up
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
  std::vector<TensorSpec> inputs_;   // of the op at hand
  std::vector<TensorSpec> outputs_;  // of the op at hand
};

/// All of a trace. Errors: those of the checker, with the op's number in front.
[[nodiscard]] Status check_trace(const OpTrace& trace, const TraceLimits& limits = {});

}  // namespace hearth
