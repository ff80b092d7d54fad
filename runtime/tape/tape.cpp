// The tape is written during the forward pass and read once, backwards. Nodes refer to each other
// by index. What a node keeps lies behind what earlier nodes keep, in shared lists. Recording is
// therefore a few push_backs without malloc, and the sweep frees saved tensors by shortening a
// list.
#include "tape.hpp"

#include "checkpoint_record.hpp"
#include "run_again.hpp"
#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/op_operand.hpp"
#include "tape_budget.hpp"
#include "tape_context.hpp"
#include "tape_traffic.hpp"
#include "vjp_table.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <utility>

namespace hearth::detail {
namespace {

// Marks a leaf whose gradient has been delivered.
constexpr std::uint32_t kFinished = Tape::kNoNode - 1;

[[noreturn]] void throw_grad_error(ErrorCode code,
                                   std::string_view text,
                                   SourceLoc loc,
                                   std::string_view caller = "grad") {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", caller, text),
                    .op = std::string(caller),
                    .location = loc});
}

/// Attributes the ops of a gradient to the layer of its op.
class LayerOfGradient {
 public:
  LayerOfGradient(StreamState& stream, PathId path)
      : stream_(stream), previous_(stream.exchange_path(path)) {}
  LayerOfGradient(const LayerOfGradient&) = delete;
  LayerOfGradient& operator=(const LayerOfGradient&) = delete;
  ~LayerOfGradient() { static_cast<void>(stream_.exchange_path(previous_)); }

 private:
  StreamState& stream_;
  PathId previous_;
};

std::uint32_t count32(std::size_t size) noexcept {
  return static_cast<std::uint32_t>(size);
}

// Refuses ops whose results depend on tracked inputs but have no rule, since the gradient would be
// lost silently. Other kinds without a rule are constant almost everywhere.
void require_constant(const Submission& submission, const Tape* tape) {
  if (tape == nullptr) {
    return;
  }
  if (is_update(submission.kind, submission.flags)) {
    throw_op_error(ErrorCode::invalid_argument,
                   submission.kind,
                   "an operand is tracked by a grad call, and an optimizer's step has no gradient: "
                   "write the step of plain ops, or detach() the gradients",
                   submission.location);
  }
  if (submission.kind == OpKind::attention_backward ||
      submission.kind == OpKind::cross_entropy_backward) {
    throw_op_error(ErrorCode::internal,
                   submission.kind,
                   "it has no gradient, and an operand is tracked",
                   submission.location);
  }
}

}  // namespace

Tape::Tape()
    : parent_(innermost_tape()),
      level_(parent_ ? parent_->level_ + 1 : 0),
      owner_thread_(current_context().id().value) {
  // Room for a medium-sized model; malloc does not touch the memory.
  constexpr std::size_t kNodes = 512;
  nodes_.reserve(kNodes);
  edges_.reserve(2 * kNodes);
  saved_.reserve(kNodes);
  saved_nodes_.reserve(kNodes);
  attribute_bytes_.reserve(16 * kNodes);
  if (parent_) {
    return;  // keeps every value: a recomputed one would have no place on the outer tapes
  }
  if (std::shared_ptr<RecomputeState> state = recompute_state()) {
    budget_ = std::make_unique<TapeBudget>(*this, std::move(state));
  } else {
    traffic_ = std::make_unique<TapeTraffic>(*this);
  }
}

Tape::~Tape() = default;

Tensor Tape::add_leaf(const Tensor& value, std::string_view caller, SourceLoc loc) {
  if (!value.is_valid()) {
    throw_grad_error(ErrorCode::invalid_argument, "an input is an empty tensor", loc, caller);
  }
  const TapePlace outer = open_place(value);
  if (outer.tape != nullptr && outer.tape->owner_thread_ != owner_thread_) {
    throw_grad_error(ErrorCode::invalid_argument,
                     "an input is tracked by a grad call of another thread: detach() it first",
                     loc,
                     caller);
  }
  TapeNode node;
  node.leaf = count32(leaves_.size());
  node.first_consumer = kNoNode;
  node.first_edge = count32(edges_.size());
  node.first_saved = count32(saved_.size());
  leaves_.push_back(outside(value));
  nodes_.push_back(node);
  if (parent_) {
    outer_places_.push_back(outer);
  }
  Tensor tracked = leaves_.back();
  if (is_float(tracked.dtype())) {
    TensorAccess::set_node(tracked, this, count32(nodes_.size() - 1));
  }
  return tracked;
}

[[gnu::always_inline]] inline VjpNeeds Tape::add_edges(const Submission& submission,
                                                       std::size_t first_operand) {
  const VjpRow& row = vjp_row(submission.kind, submission.attributes);
  VjpNeeds needs;
  for (std::size_t i = 0; i < submission.inputs.size(); ++i) {
    const Tensor& input = submission.inputs[i].tensor();
    const std::uint32_t producer = node_of(input);
    edges_.push_back({.layout = TensorAccess::impl(input)->layout,
                      .node = producer,
                      .dtype = TensorAccess::impl(input)->dtype});
    if (producer != kNoNode && first_operand + i < row.needs.size()) {
      const VjpNeeds& more = row.needs[first_operand + i];
      needs.operands = static_cast<std::uint8_t>(needs.operands | more.operands);
      needs.outputs = static_cast<std::uint8_t>(needs.outputs | more.outputs);
    }
  }
  return needs;
}

std::uint8_t Tape::save_operands(const Submission& submission,
                                 std::size_t first_operand,
                                 std::uint8_t needed) {
  std::uint8_t saved = 0;
  const std::size_t most = vjp_row(submission.kind).needs.size();
  for (std::size_t i = 0; i < submission.inputs.size() && first_operand + i < most; ++i) {
    const auto bit = static_cast<std::uint8_t>(1U << (first_operand + i));
    if ((needed & bit) != 0) {
      const Tensor& input = submission.inputs[i].tensor();
      saved_.push_back(parent_ ? outside(input) : untracked(input));
      saved_nodes_.push_back(node_of(input));
      saved = static_cast<std::uint8_t>(saved | bit);
    }
  }
  return saved;
}

// Phases: add edges to the inputs' nodes, and find what their gradients need; save the needed
// operands; store the attributes. An operand is saved only if the gradient of a tracked input needs
// it: x * w with a tracked w saves x, not w.
void Tape::will_record(const Submission& submission, PathId layer) {
  if (parent_) [[unlikely]] {
    will_record_outside(submission, layer);
  }
  if (region_ != kNoNode) [[unlikely]] {
    record_in_region(submission);
    return;
  }
  const bool is_left_number =
      (submission.flags & static_cast<std::uint16_t>(RecordFlag::scalar_lhs)) != 0;
  const std::size_t first_operand =
      is_left_number ? 1 : 0;  // 2 / x: the one input is the right operand
  TapeNode node{
      .kind = submission.kind, .flags = submission.flags, .location = submission.location};
  node.leaf = kNoNode;
  for (const Arg& input : submission.inputs) {
    if (node.path.value == 0) {
      node.path = TensorAccess::impl(input.tensor())->path.load(std::memory_order_acquire);
    }
  }
  if (node.path.value == 0) {
    node.path = layer;
  }
  node.first_edge = count32(edges_.size());
  node.edge_count = count32(submission.inputs.size());
  node.first_saved = count32(saved_.size());
  const VjpNeeds needs = add_edges(submission, first_operand);
  if (needs.operands != 0) {
    node.saved_operands = save_operands(submission, first_operand, needs.operands);
  }
  node.saved_outputs = needs.outputs;

  std::span<const std::byte> attributes = submission.attributes;
  const std::uint32_t home = count32(homes_.size());
  if (submission.kind == OpKind::upload) {
    // A copy between devices: its gradient returns to the input's device. The attributes are the
    // index of its pair of devices.
    homes_.push_back(submission.inputs[0].tensor().device());
    attributes = bytes_of(home);
  }
  node.first_attribute_byte = count32(attribute_bytes_.size());
  const std::span<const std::byte> parameters = submission.parameters;
  node.attribute_size_bytes = static_cast<std::uint16_t>(attributes.size() + parameters.size());
  attribute_bytes_.insert(attribute_bytes_.end(), attributes.begin(), attributes.end());
  attribute_bytes_.insert(attribute_bytes_.end(), parameters.begin(), parameters.end());
  nodes_.push_back(node);
  if (traffic_ != nullptr) {
    traffic_->will_record(submission);
  }
}

void Tape::did_record(std::span<Tensor> results) {
  if (region_ != kNoNode) [[unlikely]] {
    if (is_float(results[0].dtype())) {
      TensorAccess::set_node(results[0], this, region_);
    }
    return;
  }
  const std::uint32_t index = count32(nodes_.size() - 1);
  const TapeNode& node = nodes_.back();
  // First: the saved results are tracked by the outer tapes, and not by this one.
  const TapePlace outer = parent_ ? did_record_outside(results) : TapePlace{};
  if (!is_float(results[0].dtype())) {
    forget_last();  // a cast to integers, for instance: no gradient flows through it
    return;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if ((node.saved_outputs >> i & 1U) != 0) {
      saved_.push_back(results[i]);
      saved_nodes_.push_back(i == 0 ? index : kNoNode);
    }
  }
  // The sweep passes a leaf's first consumer last; then its gradient is complete.
  for (std::uint32_t i = 0; i < node.edge_count; ++i) {
    const TapeEdge& edge = edges_[node.first_edge + i];
    if (edge.node != kNoNode && nodes_[edge.node].leaf != kNoNode &&
        nodes_[edge.node].first_consumer == kNoNode) {
      nodes_[edge.node].first_consumer = index;
    }
  }
  if (node.kind == OpKind::upload) {
    homes_.push_back(results[0].device());
  }
  TensorAccess::set_node(results[0], this, index);
  if (parent_) [[unlikely]] {
    outer_places_.push_back(outer);
  } else if (budget_ != nullptr) [[unlikely]] {
    budget_->did_record(results[0]);
  } else if (saved_.size() > node.first_saved) {
    traffic_->did_record();
  }
}

void Tape::forget_saved(std::size_t kept) {
  saved_.resize(kept);
  saved_nodes_.resize(kept);
}

void Tape::forget_last() {
  const TapeNode node = nodes_.back();
  if (node.kind == OpKind::upload) {
    homes_.pop_back();
  }
  forget_saved(node.first_saved);
  edges_.resize(node.first_edge);
  attribute_bytes_.resize(node.first_attribute_byte);
  nodes_.pop_back();
}

// Inside a region the edges stay: zero gradients may flow along them.
void Tape::did_not_record() {
  if (Tape* const outer = std::exchange(outer_recorder_, nullptr)) {
    outer->did_not_record();
  }
  if (region_ == kNoNode) {
    forget_last();
  }
}

// Moved into the sum, which can then be computed in place.
void Tape::accumulate(std::uint32_t node, Tensor gradient, SourceLoc loc) {
  Tensor& slot = gradients_[node];
  slot = !slot.is_valid() ? std::move(gradient)
                          : add(Arg(std::move(slot), loc), Arg(std::move(gradient), loc));
}

// The hook runs in the middle of the sweep: data-parallel ranks send a gradient while others are
// still computed.
void Tape::finish_leaf(TapeNode& leaf, const GradientHook& on_ready) {
  Tensor& gradient = leaf_gradients_[leaf.leaf];
  const auto node = static_cast<std::size_t>(&leaf - nodes_.data());
  gradient = take_gradient(static_cast<std::uint32_t>(node));
  if (!gradient.is_valid()) {
    gradient = zeros_like(leaves_[leaf.leaf], sweep_location_);
    unreached_.resize(leaves_.size());
    unreached_[leaf.leaf] = gradient;
  }
  leaf.first_consumer = kFinished;
  if (on_ready) {
    on_ready(leaf.leaf, gradient);
  }
}

void Tape::sweep_node(std::uint32_t index, const GradientHook& on_ready) {
  const TapeNode node = nodes_[index];
  if (node.leaf != kNoNode) {
    return;  // finished by its first consumer
  }
  if (node.checkpoint != 0) [[unlikely]] {
    sweep_checkpoint(index, on_ready);
  }
  Tensor gradient = node.checkpoint != 0 ? Tensor() : take_gradient(index);
  if (gradient.is_valid()) {  // empty: the op did not lead to the result
    const LayerOfGradient layer(current_stream(*TensorAccess::impl(gradient)->endpoint), node.path);
    if (traffic_ != nullptr) {
      traffic_->prepare(node);
    }
    vjp_row(node.kind).emit(VjpNode(*this, node), std::move(gradient));
  }
  // Memory falls as the sweep goes: the op's saved values end the list, and no node needs them
  // any more.
  forget_saved(node.first_saved);
  if (traffic_ != nullptr) {
    traffic_->passed(index);
  }
  for (std::uint32_t i = 0; i < node.edge_count; ++i) {
    const std::uint32_t from = edges_[node.first_edge + i].node;
    if (from != kNoNode && nodes_[from].leaf != kNoNode && nodes_[from].first_consumer == index) {
      finish_leaf(nodes_[from], on_ready);
    }
  }
}

void Tape::require_swept(const Tensor& output, SourceLoc loc) const {
  if (!output.is_valid()) {
    throw_grad_error(ErrorCode::invalid_argument, "the function returned an empty tensor", loc);
  }
  if (!is_float(output.dtype())) {
    throw_grad_error(
        ErrorCode::dtype_mismatch,
        "the function must return a float tensor, not " + describe(output.dtype(), output.shape()),
        loc);
  }
  if (output.element_count() != 1) {
    throw_grad_error(
        ErrorCode::shape_mismatch,
        "the function must return one element, not " + describe(output.dtype(), output.shape()),
        loc);
  }
  const Tape* const tracker = open_place(output).tape;
  if (tracker != nullptr && tracker->owner_thread_ != owner_thread_) {
    throw_grad_error(ErrorCode::invalid_argument,
                     "the function returned a tensor of another thread's grad call",
                     loc);
  }
}

std::vector<Tensor> Tape::sweep(const Tensor& output, const GradientHook& on_ready, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  require_swept(output, loc);
  sweep_location_ = loc;
  gradients_.resize(nodes_.size());
  leaf_gradients_.resize(leaves_.size());
  const std::uint32_t last = node_of(output);
  if (last != kNoNode) {  // else no input led to it, and every gradient is zeros
    gradients_[last] = ones_like(output, loc);
  }
  for (std::uint32_t index = count32(nodes_.size()); index-- > 0;) {
    sweep_node(index, on_ready);
  }
  // Leaves without consumers.
  for (std::size_t index = nodes_.size(); index-- > 0;) {
    if (nodes_[index].leaf != kNoNode && nodes_[index].first_consumer != kFinished) {
      finish_leaf(nodes_[index], on_ready);
    }
  }
  return std::move(leaf_gradients_);
}

void Tape::close() noexcept {
  is_open_.store(false, std::memory_order_release);  // partner: is_open
  nodes_.clear();
  edges_.clear();
  saved_.clear();
  saved_nodes_.clear();
  checkpoints_.clear();
  weight_watch_.reset();
  budget_.reset();
  traffic_.reset();
  attribute_bytes_.clear();
  homes_.clear();
  leaves_.clear();
  gradients_.clear();
  parts_.clear();
  leaf_gradients_.clear();
  unreached_.clear();
}

void Tape::require_owner(const Submission& submission) const {
  if (owner_thread_ != current_context().id().value) {
    throw_op_error(ErrorCode::invalid_argument,
                   submission.kind,
                   "an operand is tracked by a grad call of another thread: detach() it first",
                   submission.location);
  }
}

Tape* find_tape(const Submission& submission) {
  Tape* found = nullptr;
  for (const Arg& input : submission.inputs) {
    Tape* tape = TensorAccess::tape(input.tensor());
    if (tape == nullptr || tape == found) {
      continue;
    }
    tape = tape->is_open() ? tape : open_place(input.tensor()).tape;
    if (tape == nullptr || tape == found) {
      continue;
    }
    tape->require_owner(submission);
    if (found == nullptr || tape->level() > found->level()) {
      found = tape;
    }
  }
  if (found == nullptr || is_update(submission.kind, submission.flags) ||
      vjp_row(submission.kind).emit == nullptr) [[unlikely]] {
    require_constant(submission, found);
    return nullptr;
  }
  return found;
}

void retain_tape(Tape* tape) noexcept {
  tape->retain();
}
void release_tape(Tape* tape) noexcept {
  tape->release();
}
bool is_tracked_by(const Tape& tape, std::uint32_t node) noexcept {
  if (tape.is_open()) {
    return true;
  }
  const TapePlace outer = tape.outer_place(node);
  return outer.tape != nullptr && is_tracked_by(*outer.tape, outer.node);
}

}  // namespace hearth::detail
