// What is wrong with what a random program has seen. It knows what depends on what from the
// program's nodes, or from its recording, where sweeps and steps are more than one op to a node; it
// shares nothing with the device that poisons. Threads: one at a time. Invariant: a judge serves
// one program.
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

/// What goes wrong on the first device, and what the program does.
struct Plan {
  FaultPlan faults = {};
  bool loses = false;
  bool hangs = false;
  bool trains = false;
  bool restarts = false;
  bool checks = false;  ///< Kernels fail late, and gradients pass such.
  bool graphs = false;
  bool keeps_failing = false;  ///< A kernel that could not be compiled fails all its ops.
  bool gives_up = false;       ///< Any op may carry `cancelled` or `deadline_exceeded`.
  bool has_page_each =
      false;  ///< A page for each tensor, so that any allocation may be the failing one.

  /// Loss and hang are judged by device.
  [[nodiscard]] bool is_of_ops() const { return !loses && !hangs; }
  /// Which op of a sweep or step failed is known from the recording alone.
  [[nodiscard]] bool is_recorded() const { return trains && is_of_ops(); }
};

class FaultJudge {
 public:
  /// `trace`: the recording of a plan that is recorded, else nullptr.
  FaultJudge(const RandomProgram& program, const Plan& plan, const OpTrace* trace)
      : program_(program), plan_(plan), trace_(trace) {}

  /// Who is poisoned, and who may be. `submitted`: the ops of the sim with the faults.
  void judge_errors(std::uint64_t submitted);
  /// How many members of each step have happened. After judge_errors().
  [[nodiscard]] const std::vector<std::size_t>& updated() const { return updated_; }
  /// How many steps have lost what they replace. After judge_errors().
  [[nodiscard]] std::size_t torn() const { return torn_; }
  /// Values, against those of the reference.
  void judge_values(const std::vector<Tensor>& expected);
  [[nodiscard]] const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  using Name = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // device, lane, sequence
  using Group = std::vector<const TraceOp*>;

  void say(std::size_t node, const std::string& what);
  void say_step(std::size_t step, const std::string& what);
  void look_at(const Error& error, std::size_t node);
  [[nodiscard]] bool descends(std::size_t node, std::size_t from) const;
  void judge_nodes();
  void judge_trace();
  void judge_group(const Group& ops, std::vector<bool>& is_bad);
  /// Whether it is torn: what it replaces is lost.
  [[nodiscard]] bool judge_step(std::size_t number,
                                const Group& ops,
                                const std::vector<bool>& is_bad);
  void judge_whole_device();
  /// Whether a stream of the other device may wait for the one that hangs.
  [[nodiscard]] bool waits_for_hang(const std::vector<bool>& may) const;
  void judge_steps_of_whole_device(const std::vector<bool>& may, const std::vector<bool>& must);
  [[nodiscard]] Name name_of(const TraceOp& op) const;
  template <class Start>
  [[nodiscard]] std::vector<bool> closure(const Start& start) const;
  [[nodiscard]] std::size_t most_failures(std::uint64_t submitted) const;

  const RandomProgram& program_;
  const Plan& plan_;
  const OpTrace* trace_;
  std::set<std::size_t> failed_;  // nodes, without a recording
  std::size_t failed_reads_ = 0;
  std::map<Name, ErrorCode> roots_;  // with one
  std::vector<std::size_t> updated_;
  std::size_t torn_ = 0;
  std::set<std::size_t> unclear_;  // steps whose end nobody has heard of
  std::vector<std::string> wrong_;
};

}  // namespace hearth::testing
