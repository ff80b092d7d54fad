// Checks the reads of a random program that meets faults. The judge derives dependences from the
// program's nodes, or from its recording if a node has several ops (sweeps and steps). It shares no
// code with the device's poisoning.
// Threads: one at a time. Invariant: a judge serves one program.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <hearth/runtime/base/fault_plan.hpp>
#include <hearth/streams/trace/op_trace.hpp>

#include "tests/support/random_program.hpp"

namespace hearth::testing {

/// The faults of the first device, and the features that the program uses.
struct Plan {
  FaultPlan faults = {};
  bool loses = false;
  bool hangs = false;
  bool trains = false;
  bool restarts = false;
  bool checks = false;  ///< Kernels may fail while they run, and gradients pass such kernels.
  bool graphs = false;
  bool keeps_failing = false;  ///< An op whose kernel was not compiled fails each time.
  bool cancels = false;        ///< Any op may carry `cancelled` or `deadline_exceeded`.
  bool has_page_each = false;  ///< A page for each tensor, so that any allocation may fail.

  /// A loss or a hang is judged by device instead.
  [[nodiscard]] bool is_of_ops() const { return !loses && !hangs; }
  /// Only the recording shows which op of a sweep or step failed.
  [[nodiscard]] bool is_recorded() const { return trains && is_of_ops(); }
};

class FaultJudge {
 public:
  /// `trace`: the recording, for plans with is_recorded(); else nullptr.
  FaultJudge(const RandomProgram& program, const Plan& plan, const OpTrace* trace)
      : program_(program), plan_(plan), trace_(trace) {}

  /// Checks which nodes must and may be poisoned. `submitted`: the number of ops of the faulty sim.
  void judge_errors(std::uint64_t submitted);
  /// Number of members of each step that happened. After judge_errors().
  [[nodiscard]] const std::vector<std::size_t>& updated() const { return updated_; }
  /// Number of steps that lost the tensors they replace. After judge_errors().
  [[nodiscard]] std::size_t torn() const { return torn_; }
  /// Compares values with those of the reference.
  void judge_values(const std::vector<Tensor>& expected);
  [[nodiscard]] const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  using Name = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // device, lane, sequence
  using Group = std::vector<const TraceOp*>;
  /// What a value must be. `either`: a failed op was made twice, and one of the runs was right.
  enum class Verdict : std::uint8_t { right, either, poisoned };
  using Verdicts = std::vector<Verdict>;
  using Results = std::map<std::uint32_t, Verdict>;  // by value

  void report(std::size_t node, const std::string& what);
  void report_step(std::size_t step, const std::string& what);
  void check_error(const Error& error, std::size_t node);
  [[nodiscard]] bool descends(std::size_t node, std::size_t from) const;
  void judge_nodes();
  void judge_trace();
  /// Returns the verdicts on the values that the group makes.
  [[nodiscard]] Results judge_group(const Group& ops,
                                    const Verdicts& values,
                                    const Verdicts& inherited);
  /// Returns whether the step is torn: the tensors that it replaces are lost.
  [[nodiscard]] bool judge_step(std::size_t number, const Group& ops, const Verdicts& inherited);
  void judge_whole_device();
  /// Whether a stream of the other device may wait for the device that hangs.
  [[nodiscard]] bool waits_for_hang(const std::vector<bool>& may) const;
  void judge_steps_of_whole_device(const std::vector<bool>& may, const std::vector<bool>& must);
  [[nodiscard]] Name name_of(const TraceOp& op) const;
  template <class Start>
  [[nodiscard]] std::vector<bool> closure(const Start& start) const;
  [[nodiscard]] std::size_t most_failures(std::uint64_t submitted) const;

  const RandomProgram& program_;
  const Plan& plan_;
  const OpTrace* trace_;
  std::set<std::size_t> failed_;  // nodes, if there is no recording
  std::size_t failed_reads_ = 0;
  std::map<Name, ErrorCode> roots_;  // with a recording
  std::vector<std::size_t> updated_;
  std::size_t torn_ = 0;
  std::set<std::size_t> unclear_;  // steps with an unknown outcome
  std::vector<std::string> wrong_;
};

}  // namespace hearth::testing
