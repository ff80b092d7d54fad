// Checkpoints on a tape. During the first run of the function the region is one node: its ops leave
// only edges to earlier nodes. In the sweep the function runs again; its ops are recorded behind
// the node, swept, and discarded.
#include <hearth/runtime/recompute.hpp>

#include "checkpoint_record.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "tape.hpp"
#include "tape_budget.hpp"
#include "tape_context.hpp"
#include "tape_traffic.hpp"

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace hearth::detail {
namespace {

[[noreturn]] void throw_checkpoint_error(std::string_view what, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("checkpoint: {}", what),
                    .op = "checkpoint",
                    .location = loc});
}

void require_same(const CheckpointRecord& record,
                  const DrawScope& draws,
                  const std::vector<Tensor>& results) {
  if (results.size() != record.result_count) {
    throw_checkpoint_error(fmt::format("the function returned {} tensors first, and {} when it ran "
                                       "again for the gradient",
                                       record.result_count,
                                       results.size()),
                           record.location);
  }
  for (const CheckpointRecord::Result& first : record.results) {
    const Tensor& again = results[first.place];
    if (!again.is_valid() || again.dtype() != first.dtype || again.shape() != first.shape) {
      throw_checkpoint_error(
          fmt::format("the function returned {} first, and {} when it ran again for the gradient",
                      describe(first.dtype, first.shape),
                      !again.is_valid() ? std::string("an empty tensor")
                                        : describe(again.dtype(), again.shape())),
          record.location);
    }
  }
  if (!draws.is_used_up()) {
    throw_checkpoint_error(
        "the function drew other random numbers when it ran again for the gradient",
        record.location);
  }
}

}  // namespace

bool Tape::begin_region() {
  if (region_ != kNoNode || is_nested()) {
    return false;
  }
  TapeNode node;
  node.leaf = kNoNode;
  node.first_edge = static_cast<std::uint32_t>(edges_.size());
  node.first_saved = static_cast<std::uint32_t>(saved_.size());
  node.first_attribute_byte = static_cast<std::uint32_t>(attribute_bytes_.size());
  checkpoints_.emplace_back();  // empty: abandoned, until end_region()
  node.checkpoint = static_cast<std::uint32_t>(checkpoints_.size());
  region_ = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  return true;
}

void Tape::record_in_region(const Submission& submission) {
  TapeNode& node = nodes_[region_];
  if (node.edge_count == 0) {
    node.location = submission.location;
  }
  for (const Arg& input : submission.inputs) {
    const Tensor& tensor = input.tensor();
    const std::uint32_t from = node_of(tensor);
    if (from != kNoNode && from < region_) {
      edges_.push_back({.layout = TensorAccess::impl(tensor)->layout,
                        .node = from,
                        .dtype = TensorAccess::impl(tensor)->dtype});
      ++node.edge_count;
      TapeNode& producer = nodes_[from];
      if (producer.leaf != kNoNode && producer.first_consumer == kNoNode) {
        producer.first_consumer = region_;
      }
    }
  }
}

void Tape::end_region(std::span<Tensor* const> results, std::unique_ptr<CheckpointRecord> record) {
  const std::uint32_t region = std::exchange(region_, kNoNode);
  const TapeNode node = nodes_[region];
  record->node = region;
  record->location = node.location;
  record->result_count = results.size();
  for (std::size_t place = 0; place < results.size(); ++place) {
    Tensor& result = *results[place];
    if (node_of(result) != region) {
      continue;  // untracked, or an unchanged argument
    }
    TapeNode arrival = node;
    arrival.edge_count = 0;
    arrival.first_edge = static_cast<std::uint32_t>(edges_.size());
    const auto index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back(arrival);
    TensorAccess::set_node(result, this, index);
    record->results.push_back(
        {.place = place, .node = index, .dtype = result.dtype(), .shape = result.shape()});
  }
  if (!record->results.empty()) {
    checkpoints_[node.checkpoint - 1] = std::move(record);
  }
}

void Tape::forget_behind(std::uint32_t index) {
  const TapeNode& node = nodes_[index];
  forget_saved(node.first_saved);
  edges_.resize(node.first_edge + node.edge_count);
  attribute_bytes_.resize(node.first_attribute_byte);
  nodes_.resize(std::size_t{index} + 1);
  gradients_.resize(nodes_.size());
  if (budget_ != nullptr) {
    budget_->forget_behind(index);
  }
  if (traffic_ != nullptr) {
    traffic_->forget_behind(index);
  }
}

// Phases: take the gradients of the results, which lie behind the node; rerun the function on the
// tape with the numbers that it drew; add these gradients to the new results; sweep the new ops,
// which gives gradients to the nodes before this one.
void Tape::sweep_checkpoint(std::uint32_t index, const GradientHook& on_ready) {
  const std::uint32_t number = nodes_[index].checkpoint - 1;
  const SourceLoc location = nodes_[index].location;
  if (checkpoints_[number] != nullptr && checkpoints_[number]->node != index) {
    return;  // a result: its gradient waits for the checkpoint
  }
  if (take_gradient(index).is_valid()) {
    throw_checkpoint_error(
        "a tensor that the function made was used outside of it: return it from the function",
        location);
  }
  const std::unique_ptr<CheckpointRecord> record = std::move(checkpoints_[number]);
  if (record == nullptr) {
    return;
  }
  std::vector<Tensor> gradients;
  bool is_reached = false;
  for (const CheckpointRecord::Result& result : record->results) {
    gradients.push_back(take_gradient(result.node));
    is_reached = is_reached || gradients.back().is_valid();
  }
  if (!is_reached) {
    return;
  }
  forget_behind(index);
  {
    const DrawScope draws(record->draws, DrawScope::Way::replay);
    const std::vector<Tensor> results = record->again();
    record->again = nullptr;
    require_same(*record, draws, results);
    gradients_.resize(nodes_.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Tensor& result = results[record->results[i].place];
      if (node_of(result) == kNoNode) {
        throw_checkpoint_error(
            "a result depended on something that is differentiated, and not when the function ran "
            "again for the gradient",
            location);
      }
      if (gradients[i].is_valid()) {
        accumulate(node_of(result), std::move(gradients[i]), location);
      }
    }
  }
  for (auto inner = static_cast<std::uint32_t>(nodes_.size()); --inner > index;) {
    sweep_node(inner, on_ready);
  }
  forget_behind(index);
}

CheckpointRegion::CheckpointRegion() {
  IntrusivePtr<Tape> tape = innermost_tape();
  if (tape && tape->begin_region()) {
    record_ = std::make_unique<CheckpointRecord>(std::move(tape));
  }
}

CheckpointRegion::~CheckpointRegion() {
  if (record_ != nullptr) {
    record_->tape->abandon_region();
  }
}

void CheckpointRegion::finish(const std::vector<Tensor*>& results, Again again) {
  record_->first_run.reset();
  record_->again = std::move(again);
  const IntrusivePtr<Tape> tape = std::move(record_->tape);
  tape->end_region(results, std::move(record_));
}

}  // namespace hearth::detail

namespace hearth {

bool is_recomputing() noexcept {
  return detail::is_replaying();
}

}  // namespace hearth
