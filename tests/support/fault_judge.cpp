#include "fault_judge.hpp"

#include <algorithm>

namespace hearth::testing {
namespace {

const Error& root_of(const Error& error) {
  return error.cause ? root_of(*error.cause) : error;
}
/// The error of an update group that its stream cancelled before it began.
bool was_cancelled_whole(const Error& error) {
  return error.op == "update group" && error.text.starts_with("cancelled before it ran");
}
bool is_of_a_program(const Error& error) {
  return std::string(error.location.file) == RandomProgram::kFile;
}
std::size_t node_at(std::uint32_t line) {
  return line - RandomProgram::line_of(0);
}
bool is_of_a_read(const Error& error) {
  const bool is_late_wait = error.op.empty() && error.code == ErrorCode::deadline_exceeded;
  return (error.op == "readback" || is_late_wait) && !is_of_a_program(error);
}
bool is_cancellation(const Error& error) {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::deadline_exceeded;
}
/// Whether it waited for an event that its stream has not reached.
bool is_kept_waiting(const Error& error) {
  const Error& root = root_of(error);
  return root.code == ErrorCode::deadline_exceeded &&
         (root.op.empty() || root.text == "an operand from another stream was not ready in time");
}
/// Whether a fused group may make the value again beside its own record: a fill, a view, or an
/// elementwise result of one element. If only the record's own run fails, the results of the group
/// are right.
bool may_be_made_twice(const OpTrace& trace, const TraceOp& op) {
  const bool is_single =
      op.record.output_count == 1 && trace.shape(op.view().output(0)).element_count() == 1;
  switch (op_info(op.record.kind).op_class) {
    case OpClass::creation:
    case OpClass::view:
      return true;
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary:
    case OpClass::expression:
      return is_single;
    default:
      return false;
  }
}
/// The operand that a step's result replaces: the parameter, then its state.
int replaced_by(int output) {
  return output == 0 ? 0 : output + 1;
}

}  // namespace

void FaultJudge::report(std::size_t node, const std::string& what) {
  wrong_.push_back("tensor " + std::to_string(node) + " " + what);
}

void FaultJudge::report_step(std::size_t step, const std::string& what) {
  wrong_.push_back("step " + std::to_string(step) + " " + what);
}

void FaultJudge::judge_errors(std::uint64_t submitted) {
  for (const Observation& seen : program_.observations()) {
    if (seen.error) {
      check_error(*seen.error, seen.node);
    }
  }
  for (const Step& step : program_.steps()) {
    updated_.push_back(step.is_committed && !step.error ? step.members.size() : 0);
    if (step.error) {
      check_error(*step.error, step.members.front().first_result);
    }
  }
  if (!plan_.is_of_ops()) {
    judge_whole_device();
    return;
  }
  if (trace_ != nullptr) {
    judge_trace();
  } else {
    judge_nodes();
  }
  const std::size_t failures = failed_.size() + failed_reads_ + roots_.size();
  if (failures > most_failures(submitted)) {
    wrong_.push_back(std::to_string(failures) + " ops failed by themselves, " +
                     std::to_string(most_failures(submitted)) + " were to");
  }
}

void FaultJudge::check_error(const Error& error, std::size_t node) {
  const Error& root = root_of(error);
  const bool may_be_lost = plan_.loses || plan_.restarts;
  const bool is_planned =
      (plan_.faults.failing_allocation > 0 && root.code == ErrorCode::out_of_memory) ||
      (may_be_lost && root.code == ErrorCode::device_lost) ||
      (plan_.hangs && root.code == ErrorCode::deadline_exceeded) ||
      (plan_.cancels && is_cancellation(root)) ||
      root.text.find("by the fault plan") != std::string::npos;
  if (!is_planned) {
    report(node, "failed though nothing was planned: " + error.to_string());
  }
  if (!plan_.is_of_ops()) {
    return;
  }
  if (trace_ != nullptr) {
    roots_.emplace(Name{root.device, root.stream, root.sequence}, root.code);
    return;
  }
  if (is_of_a_read(root)) {
    ++failed_reads_;  // an op of the read itself makes a view contiguous
    return;
  }
  if (!is_of_a_program(root) || !descends(node, node_at(root.location.line))) {
    return report(node, "is poisoned by something else: " + error.to_string());
  }
  failed_.insert(node_at(root.location.line));
}

bool FaultJudge::descends(std::size_t node, std::size_t from) const {
  if (node == from) {
    return true;
  }
  return std::ranges::any_of(program_.nodes()[node].operands, [&](std::size_t operand) {
    return operand >= from && descends(operand, from);
  });
}

template <class Start>
std::vector<bool> FaultJudge::closure(const Start& start) const {
  std::vector<bool> reached;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    bool is_reached = start(i);
    for (const std::size_t operand : program_.nodes()[i].operands) {
      is_reached = is_reached || reached[operand];
    }
    reached.push_back(is_reached);
  }
  return reached;
}

// Nodes that failed by themselves, and the nodes that inherit their errors.
void FaultJudge::judge_nodes() {
  const std::vector<bool> poisoned = closure([this](std::size_t i) { return failed_.contains(i); });
  for (const Observation& seen : program_.observations()) {
    if (seen.error && is_of_a_read(root_of(*seen.error))) {
      continue;
    }
    if (poisoned[seen.node] != (seen.error != nullptr)) {
      report(seen.node, seen.error ? "is poisoned without a cause" : "has values, and no right to");
    }
  }
}

FaultJudge::Name FaultJudge::name_of(const TraceOp& op) const {
  return {trace_->devices[op.device], op.lane, op.record.sequence};
}

// Checks the trace in the order of the pushed ops.
void FaultJudge::judge_trace() {
  Verdicts values(1);
  Verdicts inherited(1);  // what an op that computes from the value inherits
  Verdicts by_op;
  Verdicts reads;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Group> groups;  // open groups
  for (const TraceOp& op : trace_->ops) {
    const std::pair lane(op.device, op.lane);
    const bool computes = op_info(op.record.kind).op_class != OpClass::lifetime;
    Verdict verdict = roots_.contains(name_of(op)) ? Verdict::poisoned : Verdict::right;
    for (int i = 0; i < op.record.input_count; ++i) {
      const std::uint32_t value = op.view().input(i).slot.value;
      verdict = std::max(verdict, computes ? inherited[value] : values[value]);
    }
    if (op.copied_from != 0) {
      verdict = std::max(verdict, by_op[op.copied_from - 1]);
    }
    by_op.push_back(verdict);
    values.insert(values.end(), op.record.output_count, verdict);
    const bool is_either = verdict == Verdict::poisoned && may_be_made_twice(*trace_, op);
    inherited.insert(
        inherited.end(), op.record.output_count, is_either ? Verdict::either : verdict);
    if (is_update(op.record)) {
      groups[lane].push_back(&op);
    } else if (op.record.kind == OpKind::group_end) {
      for (const auto& [value, result] : judge_group(groups[lane], values, inherited)) {
        values[value] = result;
        inherited[value] = result;
      }
      groups.erase(lane);
    } else if (op.record.kind == OpKind::readback) {
      reads.push_back(verdict);
    }
  }
  const auto looks = program_.last_look();
  if (reads.size() < looks.size()) {
    wrong_.push_back("the recording lacks reads");
    return;
  }
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const Verdict verdict = reads[reads.size() - looks.size() + i];
    const Verdict seen = looks[i].error ? Verdict::poisoned : Verdict::right;
    if (verdict != Verdict::either && verdict != seen) {
      report(looks[i].node,
             looks[i].error ? "is poisoned without a cause: " + looks[i].error->to_string()
                            : "has values, and no right to");
    }
  }
}

// A group happens as a whole or not at all. If one of its ops failed while it ran, every result is
// poisoned: the overwritten bytes are lost.
FaultJudge::Results FaultJudge::judge_group(const Group& ops,
                                            const Verdicts& values,
                                            const Verdicts& inherited) {
  const std::size_t first = node_at(trace_->places[ops.front()->record.source.value].line);
  std::size_t number = 0;
  while (program_.steps()[number].members.front().first_result != first) {
    ++number;
  }
  const bool is_torn = judge_step(number, ops, inherited);
  torn_ += is_torn ? 1U : 0U;
  const bool keeps = updated_[number] == 0 && !is_torn;
  const Verdict made = is_torn ? Verdict::poisoned : Verdict::right;
  Results results;
  for (const TraceOp* each : ops) {
    const OpView op = each->view();
    for (int output = 0; output < op.record().output_count; ++output) {
      const Verdict replaced = values[op.input(replaced_by(output)).slot.value];
      results[op.output(output).slot.value] = keeps ? replaced : made;
    }
  }
  return results;
}

bool FaultJudge::judge_step(std::size_t number, const Group& ops, const Verdicts& inherited) {
  const Step& step = program_.steps()[number];
  Verdict inputs = Verdict::right;
  for (const TraceOp* op : ops) {
    for (int i = 0; i < op->record.input_count; ++i) {
      inputs = std::max(inputs, inherited[op->view().input(i).slot.value]);
    }
  }
  const bool has_bad_input = inputs == Verdict::poisoned;
  const auto root =
      std::ranges::find_if(ops, [&](const TraceOp* op) { return roots_.contains(name_of(*op)); });
  if (step.is_committed && has_bad_input && !step.error) {
    report_step(number, "was made although something it takes is poisoned");
    return false;
  }
  if (root == ops.end()) {
    if (step.is_committed && inputs == Verdict::right && step.error &&
        !was_cancelled_whole(root_of(*step.error))) {
      report_step(number, "was given up without a cause: " + step.error->to_string());
    }
    return false;
  }
  // Compilations precede the first kernel, and a planned failure precedes the op's effect.
  const bool has_begun = roots_.at(name_of(**root)) == ErrorCode::kernel_failed &&
                         plan_.faults.failing_compiles.empty() && root != ops.begin();
  if (has_bad_input && has_begun) {
    report_step(number, "was begun although something it takes is poisoned");
  }
  if (!step.error) {
    report_step(number, "says that it was made, and an op of it failed");
  }
  updated_[number] = 0;
  return has_begun;
}

// The other device goes on, except for its streams that wait for a device that hangs. A device lost
// before the last read keeps no tensor, and a restarted device none from before.
void FaultJudge::judge_whole_device() {
  const auto& nodes = program_.nodes();
  const std::vector<bool> may =
      closure([&](std::size_t i) { return nodes[i].device == 0 && !nodes[i].is_new; });
  std::vector<bool> must;
  for (const Node& node : nodes) {
    bool is_lost = node.device == 0 && !node.is_new;
    for (const std::size_t operand : node.operands) {
      is_lost = is_lost || (node.is_new && !node.is_gradient && must[operand]);
    }
    must.push_back(plan_.restarts && is_lost);
  }
  const bool waits = waits_for_hang(may);
  const std::size_t before = program_.observations().size() - program_.last_look().size();
  const std::size_t old = program_.observations().size() - program_.after_restart().size();
  bool is_lost = false;
  for (std::size_t i = 0; i < program_.observations().size(); ++i) {
    const Observation& seen = program_.observations()[i];
    if (seen.error && !may[seen.node] && !(waits && is_kept_waiting(*seen.error))) {
      report(seen.node,
             "has nothing to do with the device that failed: " + seen.error->to_string());
    }
    if (i < before) {
      is_lost = is_lost || (plan_.loses && seen.error);
    } else if (is_lost && !seen.error && nodes[seen.node].device == 0 && !nodes[seen.node].is_new) {
      report(seen.node, "has outlived its device");
    }
    if (i >= old && !seen.error && must[seen.node]) {
      report(seen.node, "has outlived the restart of its device");
    }
  }
  judge_steps_of_whole_device(may, must);
}

bool FaultJudge::waits_for_hang(const std::vector<bool>& may) const {
  for (std::size_t i = 0; plan_.hangs && i < may.size(); ++i) {
    if (may[i] && program_.nodes()[i].device != 0) {
      return true;
    }
  }
  return false;
}

void FaultJudge::judge_steps_of_whole_device(const std::vector<bool>& may,
                                             const std::vector<bool>& must) {
  const bool waits = waits_for_hang(may);
  for (std::size_t i = 0; i < program_.steps().size(); ++i) {
    const Step& step = program_.steps()[i];
    const bool is_new = program_.nodes()[step.members.front().first_result].is_new;
    bool may_fail = false;
    bool must_fail = false;
    for (const Step::Member& member : step.members) {
      for (const std::size_t taken :
           {member.parameter, member.gradient, member.momentum.value_or(member.parameter)}) {
        may_fail = may_fail || may[taken];
        must_fail = must_fail || (is_new && must[taken]);
      }
    }
    if (step.error && !may_fail && !(waits && is_kept_waiting(*step.error))) {
      report_step(i, "has nothing to do with the device that failed: " + step.error->to_string());
    }
    if (step.is_committed && !step.error && must_fail) {
      report_step(i, "was made although something it takes is lost");
    }
    // A lost device may have computed and passed on some results before it was lost.
    if (step.error && (step.error->code == ErrorCode::deadline_exceeded ||
                       step.error->code == ErrorCode::device_lost)) {
      unclear_.insert(step.members.front().first_result);
    }
  }
}

void FaultJudge::judge_values(const std::vector<Tensor>& expected) {
  std::set<std::size_t> results;  // of steps with an unknown outcome
  for (const Step& step : program_.steps()) {
    if (unclear_.contains(step.members.front().first_result)) {
      for (const Step::Member& member : step.members) {
        results.insert(member.first_result);
        if (member.momentum) {
          results.insert(member.first_result + 1);
        }
      }
    }
  }
  std::map<std::size_t, std::vector<std::size_t>> gradients;  // and momenta, of results of steps
  for (const Step& step : program_.steps()) {
    for (const Step::Member& member : step.members) {
      gradients[member.first_result].push_back(member.gradient);
      gradients[member.first_result + (member.momentum ? 1 : 0)].push_back(member.gradient);
      if (member.momentum) {
        gradients[member.first_result].push_back(*member.momentum);
      }
    }
  }
  std::vector<bool> is_unclear;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const auto is_so = [&](std::size_t operand) { return is_unclear[operand]; };
    is_unclear.push_back(results.contains(i) ||
                         std::ranges::any_of(program_.nodes()[i].operands, is_so) ||
                         std::ranges::any_of(gradients[i], is_so));
  }
  for (const Observation& seen : program_.observations()) {
    if (!seen.error && !is_unclear[seen.node] &&
        seen.bytes != expected[seen.node].read_bytes().get()) {
      report(seen.node, "has other values than the reference");
    }
  }
}

std::size_t FaultJudge::most_failures(std::uint64_t submitted) const {
  const FaultPlan& faults = plan_.faults;
  std::size_t most = plan_.cancels || plan_.keeps_failing
                         ? program_.observations().size() + program_.steps().size()
                         : faults.failing_compiles.size();
  most +=
      faults.failing_allocation > 0 ? static_cast<std::size_t>(faults.failing_allocation_count) : 0;
  for (const auto& submits : {faults.failing_submits, faults.late_failures}) {
    most += static_cast<std::size_t>(
        std::ranges::count_if(submits, [&](std::uint64_t submit) { return submit <= submitted; }));
  }
  return most;
}

}  // namespace hearth::testing
