// Text of the reasons for which groups end, for explanations only.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

#include "group_gather.hpp"
#include "group_runner.hpp"

namespace hearth {
namespace {

constexpr std::array<std::string_view, kWindowEndCount> kEnds = {
    "the program reads a value (read)",
    "the program waits for the device here, or ends (sync)",
    "a tensor's bytes are lent, for example to a sum across devices (lend)",
    "a tensor is made ready to move to another stream (publish)",
    "the program brings a tensor to the device (upload)",
    "a tensor moves to another stream (adopt)",
    "an update group begins or ends, for example an optimizer's step (group)",
    "the stream gets a deadline or a stop request (limit)",
    "the fusion window is full (full)",
    "another stream needs one of the results (foreign_use)",
    "another stream waits for this point of the stream (watched)",
    "the next op has to wait for another stream (wait)",
    "the next op has an input that carries an error (failure)",
    "a stream waits for memory (shortage)",
    "no further op came for a moment (idle)",
    "the device answers a request, restarts or stops (duty)",
    "the stream is gone (stream_end)"};

std::string ended(WindowEnd why) {
  return fmt::format("the device stopped looking ahead: {}", kEnds[static_cast<std::size_t>(why)]);
}

bool is_view(const OpRecord& record) noexcept {
  return op_info(record.kind).op_class == OpClass::view;
}

/// Reason for an op that can stand in no group.
std::string own_kernel_of(const OpView& op) {
  const OpRecord& record = op.record();
  if (record.has(RecordFlag::update)) {
    return "updates a parameter, in a kernel of its own";
  }
  if (record.has(RecordFlag::exclusive)) {
    return "makes a tensor that lives long, as weights do, in a kernel of its own";
  }
  const DType dtype = record.input_count > 0 ? op.input(0).dtype : op.output(0).dtype;
  const bool is_of_dtype =
      may_join_group(op.kind(), DType::f32) || may_anchor_group(op.kind(), DType::f32);
  if (record.output_count > 1) {
    return fmt::format("has {} results: it is a kernel of its own", record.output_count);
  }
  if (op.kind() == OpKind::expression) {
    return "may fail for what it is given, so it is a kernel of its own";
  }
  return is_of_dtype ? fmt::format("is a kernel of its own, as its values are {}", name(dtype))
                     : "is a kernel of its own, as each op of its kind";
}

/// Text of the form "axis 0" or "axes 0, 1".
std::string words_of_axes(std::uint32_t axes) {
  std::string text;
  for (int axis = 0; axis < 32; ++axis) {
    if ((axes >> static_cast<unsigned>(axis) & 1U) != 0) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", axis);
    }
  }
  return (std::popcount(axes) == 1 ? "axis " : "axes ") + text;
}

}  // namespace

std::string GroupGather::why_ended(const LaneState& lane) const {
  const OpRecord* const next = lane.lane->peek(first_passed_);
  if (next == nullptr || !lane.window.may_be_grouped(*next)) {
    return ended(lane.window_end);
  }
  if (!group_.members.empty() && group_.op_count() == 0) {
    return "it makes the same number at each place, which a kernel of several ops does not write";
  }
  const OpView op(*next, lane.lane->peek_blob(first_passed_));
  if (first_obstacle_ == Obstacle::none) {
    return ops_ >= most_ops_ ? words_of(Obstacle::ops, op) : "no later op can join it";
  }
  const std::string_view name =
      op.kind() == OpKind::permute ? "transpose or permute" : dispatch_.name_of(*next);
  return (first_passed_ == 0 ? "it " : fmt::format("the next op, {}, ", name)) +
         words_of(first_obstacle_, op);
}

bool GroupGather::reads_result(const OpView& op) const {
  for (int i = 0; i < op.record().input_count; ++i) {
    const GatherMark& mark = mark_of(handles_.slot(op.input(i).slot));
    if (mark.member >= 0 || mark.is_before) {
      return true;
    }
  }
  return false;
}

const FusedGroup& GroupGather::group_at(std::uint64_t ahead) const noexcept {
  return group_.before != nullptr && !group_.members.empty() && ahead < group_.members.front().ahead
             ? *group_.before
             : group_;
}

std::string GroupGather::words_of(Obstacle why, const OpView& op) const {
  const std::size_t weight = weight_of(op);
  switch (why) {
    case Obstacle::none:
      break;
    case Obstacle::kind:
      return is_view(op.record()) ? words_of(Obstacle::view, op) : own_kernel_of(op);
    case Obstacle::view:
      return "is a view, which shows what is in memory";
    case Obstacle::ops:
      return most_ops_ < kMostGroupOps
                 ? fmt::format("would make more than {} results of this kernel that others need",
                               group_.most_outputs())
                 : fmt::format("counts for {}, and {} ops are the most of a kernel",
                               fmt::format("{} op{}", weight, weight == 1 ? "" : "s"),
                               kMostGroupOps);
    case Obstacle::numbers:
      return fmt::format("would be more than {} numbers", kMostExpressionParameters);
    case Obstacle::inputs:
      return fmt::format("would be more than {} inputs", kMostGroupInputs);
    case Obstacle::unready_input:
      return "has an input that is not made yet, or that carries an error";
    case Obstacle::drop:
      return "ends a tensor that other streams used";
    case Obstacle::recomputed:
      return "recomputes a value for an op outside of this kernel";
    case Obstacle::lone_anchor:
      return "is a kernel of its own on this device";
    case Obstacle::ended:
      return "is not in one kernel with it: with a reduction that reads what the ops before it "
             "make, "
             "a kernel ends";
    default:
      return is_of_place(why) ? words_of_place(why, op) : words_of_chain(why, op);
  }
  return "does not belong to it";
}

std::string GroupGather::words_of_place(Obstacle why, const OpView& op) const {
  const FusedGroup& group = group_at(first_passed_);
  const Shape& out = shape_of(op.output(0).shape);
  const Shape& in = op.record().input_count > 0 ? shape_of(op.input(0).shape) : out;
  const std::uint32_t axes = runs_along_rows(op.kind()) ? row_axes_of(op, in.rank()) : 0;
  switch (why) {
    case Obstacle::shape:
      return fmt::format("has a result of another shape, {}, and this kernel works on {}",
                         out.to_string(),
                         shape_of(group.space).to_string());
    case Obstacle::long_row: {
      const std::int64_t length =
          axes != 0 ? row_length(in, std::popcount(axes))
                    : row_length(shape_of(group.space), shape_of(group.space).rank()) /
                          std::max<std::int64_t>(row_length(out, out.rank()), 1);
      return length < 1 ? "works along empty rows"
                        : fmt::format(
                              "works along rows of {} elements: {} are the most of a "
                              "kernel that works along rows",
                              length,
                              kLongestGroupRow);
    }
    case Obstacle::axes:
      return fmt::format(
          "works along {} of {}, and not the last ones", words_of_axes(axes), in.to_string());
    case Obstacle::order:
      return "works along rows of a tensor that does not lie in memory row by row";
    case Obstacle::place:
      return "needs the place of each element in the whole tensor, which this kernel does not know";
    case Obstacle::row_epilogue:
      return fmt::format("works along rows, which a kernel that begins with {} does not",
                         dispatch_.name_of(group.members.front().op.record()));
    default:
      return "works along other rows than this kernel does";
  }
}

std::string GroupGather::words_of_chain(Obstacle why, const OpView& op) const {
  const bool is_first = first_passed_ == 0;
  if (why == Obstacle::unrelated || (!is_first && why != Obstacle::joined && !reads_result(op))) {
    return "reads no result of it";
  }
  switch (why) {
    case Obstacle::joined:
      return words_of_joined(op);
    case Obstacle::second_chain:
      return "would be the third stage of one kernel, which has two at most";
    case Obstacle::two_results:
      return "reads two results of it, of which only one could stay out of memory";
    case Obstacle::inner_result:
      return "reads a result that is not the last one of it";
    case Obstacle::viewed_result:
      return "reads a result of it in another shape";
    case Obstacle::part_result:
      return "reads a result of it that is one value for a row, or one for all";
    case Obstacle::prologue:
      return words_of_prologue(op);
    case Obstacle::needed:
      return "could take its result while that is made, but it, or another value of this kernel, "
             "is "
             "needed elsewhere too";
    case Obstacle::repeated:
      return "would take a result that repeats along its rows";
    case Obstacle::unplanned:
      return "could be in one kernel with it, but there is no plan for that yet, and none is made "
             "where time cut the program";
    default:
      break;
  }
  const std::string_view words =
      refusal_.empty() ? std::string_view("the device has no such kernel") : refusal_;
  return is_first ? fmt::format("is a kernel of its own here: {}", words)
                  : fmt::format("is not in one kernel with it: {}", words);
}

std::string GroupGather::words_of_prologue(const OpView& op) const {
  int input = 0;
  while (input + 1 < op.record().input_count &&
         mark_of(handles_.slot(op.input(input).slot)).member < 0) {
    ++input;
  }
  return fmt::format(
      "reads its input {} from memory, and cannot take it while {} it{}",
      input + 1,
      group_.has_anchor()
          ? fmt::format("{} makes", dispatch_.name_of(group_.members.front().op.record()))
          : "other ops make",
      dispatch_.runs_inline() ? "" : ", as on all devices of this kind");
}

std::string GroupGather::words_of_joined(const OpView& op) const {
  int to_come = -1;
  for (int i = 0; i < op.record().input_count; ++i) {
    const GatherMark& mark = mark_of(handles_.slot(op.input(i).slot));
    to_come = mark.member >= 0 ? i : to_come;
  }
  const std::int64_t most = dispatch_.joinable_calls(op, to_come);
  return fmt::format(
      "has so few rows that it may run as one call with the same op of other streams, up to {} "
      "together",
      most);
}

// ---- for the journal ----

// A view has no kernel that could carry the text, nor has a lifetime.
void GroupRunner::record_alone(LaneState& lane, const OpView& first) const noexcept {
  KernelJournal* const journal = dispatch_.journal();
  if (journal == nullptr) [[likely]] {
    return;
  }
  try {
    journal->expect_end(why_alone(lane, first));
  } catch (...) {
    journal->expect_end("");
  }
}

std::string GroupRunner::why_alone(LaneState& lane, const OpView& first) const {
  const OpRecord& record = first.record();
  const OpClass of = op_info(first.kind()).op_class;
  if (of == OpClass::lifetime || of == OpClass::view || is_update(record)) {
    return "";
  }
  if (!may_begin_group(first)) {
    return may_be_anchor(first) ? "it is a kernel of its own on this device"
                                : "it " + own_kernel_of(first);
  }
  if (lane.id == lane_single_ && record.sequence <= single_through_) {
    return why_single_;
  }
  const bool is_over =
      lane.has_expired || (lane.limits.is_set() && lane.limits.over(record.sequence));
  return is_over                     ? "the stream has reached its deadline, or was stopped"
         : dispatch_.checks_blocks() ? "the memory strategy looks at the blocks of each op"
         : in_flight_.is_full()      ? "the device has as much work in flight as it may"
         : !lane.window.runs_singly(record)
             ? "the program reads each result at once, and the device looks no further"
             : "the device does not group its ops at this moment";
}

// If host memory is short there is no text.
void GroupRunner::record_end(const LaneState& lane, Gathered gathered) const noexcept {
  KernelJournal* const journal = dispatch_.journal();
  if (journal == nullptr) [[likely]] {
    return;
  }
  try {
    journal->expect_end(gathered != Gathered::shapeless
                            ? gather_.why_ended(lane)
                            : "the ops behind it, up to a reduction, have a result that repeats "
                              "along its rows, which no kernel of several ops writes");
  } catch (...) {
    journal->expect_end("");
  }
}

void GroupRunner::record_lone_record(const LaneState& lane) const noexcept {
  if (KernelJournal* const journal = dispatch_.journal()) {
    try {
      journal->expect_end(ended(lane.window_end));
    } catch (...) {
      journal->expect_end("");
    }
  }
}

void GroupRunner::record_reduced_reach() noexcept {
  if (dispatch_.journal() == nullptr) [[likely]] {
    return;
  }
  using Obstacle = GroupGather::Obstacle;
  try {
    gather_.expect_less(lacks_plan_ ? Obstacle::unplanned : Obstacle::refused,
                        std::string(refusal_));
  } catch (...) {
    gather_.expect_less(Obstacle::refused);
  }
}

// The group's ops run one by one, the first one at once.
void GroupRunner::record_single(const LaneState& lane, std::uint64_t last, Fused fused) noexcept {
  KernelJournal* const journal = dispatch_.journal();
  if (journal == nullptr) [[likely]] {
    return;
  }
  try {
    const std::string reason = refusal_.empty() ? "" : fmt::format(": {}", refusal_);
    why_single_ =
        lacks_plan_ ? "there is no plan for its group yet, and none is made where time cut the "
                      "program"
        : fused == Fused::unsupported ? "the device has no kernel for its group" + reason
        : dispatch_.is_compiling()
            ? "the kernel of its group is being compiled, and its ops run one by one until then"
            : "the kernel of its group was refused" +
                  (reason.empty() ? ", or had no memory" : reason);
    single_through_ = last;
    lane_single_ = lane.id;
    journal->expect_end(why_single_);
  } catch (...) {
    journal->expect_end("");
  }
}

}  // namespace hearth
