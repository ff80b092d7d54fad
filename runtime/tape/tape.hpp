// Tape: the ops of one grad call that led from the tracked inputs to the output, and the values
// that their gradients need. Private to runtime.
// Reference-counted by its TapeScope and by the tensors that it tracks, so a tracked tensor may
// outlive the call. The tape is then closed, and such a tensor counts as untracked.
// A tape opened inside another call is nested. It records an op also on the outer tapes that track
// its operands; each of its nodes knows its place there.
// Threads: the opening thread records and sweeps; any thread may drop references.
// Invariants: (1) recording order is topological order; (2) only outer tapes track saved tensors,
// so the tape holds no reference to itself, except for a checkpoint's arguments, which close()
// drops; (3) a node's saved tensors are released once its gradient was emitted; (4) places outlive
// close(), so a tensor that leaves the call stays tracked by the outer tape.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "runtime/ops/op_submit.hpp"
#include "weight_watch.hpp"

namespace hearth {

struct VjpNeeds;
class TapeBudget;
class TapeTraffic;
class VjpNode;
namespace detail {
class CheckpointRecord;
}

/// An input of a recorded op: the node that receives its gradient, and its form.
struct TapeEdge {
  /// Interned, so it lives as long as the runtime's tables.
  const detail::Layout* layout = nullptr;
  std::uint32_t node = 0;  ///< The node that made it; kNoNode if it is untracked.
  DType dtype = DType::f32;
};

/// One recorded op, a leaf, a checkpoint or one of its results. Edges, saved tensors and attribute
/// bytes lie in the tape's lists.
struct TapeNode {
  OpKind kind = OpKind::fill;
  std::uint16_t flags = 0;  ///< RecordFlag bits
  std::uint8_t saved_operands = 0;
  std::uint8_t saved_outputs = 0;
  std::uint16_t attribute_size_bytes = 0;
  std::uint32_t first_edge = 0;
  std::uint32_t edge_count = 0;
  std::uint32_t first_saved = 0;
  std::uint32_t first_attribute_byte = 0;
  std::uint32_t leaf = 0;  ///< kNoNode for an op
  /// number, from 1, of a checkpoint or of the one whose result this is
  std::uint32_t checkpoint = 0;
  std::uint32_t first_consumer = 0;  ///< of a leaf: the first node that uses it
  PathId path = {};                  ///< of the op's record, and so of its gradient's
  SourceLoc location;
};

/// The gradient of a part of a node's value: of a slice along one axis, without steps.
struct TapePart {
  std::uint32_t node = 0;
  int axis = 0;
  Tensor gradient;
  Shape whole;
  SliceAttributes cut;
  SourceLoc location;

  [[nodiscard]] std::int64_t first() const noexcept {
    return cut.start[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] std::int64_t size() const noexcept { return gradient.shape()[axis]; }
};

/// The parts of one node along one axis, in order of arrival.
struct TapeParts {
  int axis = 0;
  std::int64_t size = 0;  ///< Sum of their sizes.
  std::vector<TapePart> parts;
};

namespace detail {

/// The node of a tensor on a tape; no tape: the tensor is untracked.
struct TapePlace {
  Tape* tape = nullptr;
  std::uint32_t node = 0;
};

/// The place on the innermost open tape that tracks a tensor.
[[nodiscard]] TapePlace open_place(const Tensor& tensor) noexcept;
/// Returns whether the gradients of ops on the tensor may be differentiated again. Ops whose
/// backward kind has no rule then run as plain ops.
[[nodiscard]] bool has_nested_tape(const Tensor& tensor) noexcept;

class Tape final : public RefCounted<Tape> {
 public:
  static constexpr std::uint32_t kNoNode = 0xffffffffU;

  Tape();
  ~Tape();

  /// Returns a tracked copy as the next leaf. A tensor whose type has no gradients is returned
  /// untracked; its gradient is zeros. Errors: ArgumentError if it is empty, or tracked by a grad
  /// call of another thread.
  [[nodiscard]] Tensor add_leaf(const Tensor& value, std::string_view caller, SourceLoc loc);

  /// Warns, until close(), of weights that the loss uses and that are none of the leaves, which are
  /// this model's parameters.
  void watch_weights(ModelPlaces model, SourceLoc loc) {
    weight_watch_ = std::make_unique<detail::WeightWatch>(std::move(model));
    weight_watch_->watch(leaves_, loc);
  }

  /// Saves what the op's gradient needs. Call before the op's input references are released.
  /// `layer`: the path of its record if none of its inputs has one.
  void will_record(const Submission& submission, PathId layer = {});
  /// Discards the node of an op that was refused.
  void did_not_record();
  /// Saves the results that the gradient needs, and tracks the first one. Call after the op was
  /// queued.
  void did_record(std::span<Tensor> results);

  /// Begins a region, which is recorded as one node until end_region(). Its gradient reruns the
  /// function of the region's record. Returns false if a region is already open, or if the tape is
  /// nested: outer tapes need the places of the region's values.
  [[nodiscard]] bool begin_region();
  /// Ends the region; tracks those results that depend on a tracked tensor.
  void end_region(std::span<Tensor* const> results, std::unique_ptr<CheckpointRecord> record);
  /// Abandons the region after the function threw: nothing that it made has a gradient.
  void abandon_region() noexcept { region_ = kNoNode; }

  /// See TapeScope::sweep.
  [[nodiscard]] std::vector<Tensor> sweep(const Tensor& output,
                                          const GradientHook& on_ready,
                                          SourceLoc loc);
  /// See TapeScope::take_unreached.
  [[nodiscard]] std::vector<Tensor> take_unreached() { return std::move(unreached_); }

  /// Releases everything; from here on the tensors of this tape count as untracked.
  void close() noexcept;
  // partner: the store in close()
  [[nodiscard]] bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }
  /// Checks that the calling thread opened the tape. Errors: ArgumentError.
  void require_owner(const Submission& submission) const;

  /// Number of open calls around this one.
  [[nodiscard]] int level() const noexcept { return level_; }
  [[nodiscard]] bool is_nested() const noexcept { return parent_.get() != nullptr; }
  /// The place of a node's value on the outer tapes, also after close().
  [[nodiscard]] TapePlace outer_place(std::uint32_t node) const noexcept {
    return node < outer_places_.size() ? outer_places_[node] : TapePlace{};
  }
  /// The tensor as the outer tapes track it.
  [[nodiscard]] Tensor outside(const Tensor& tensor) const;

 private:
  friend class hearth::VjpNode;
  friend class hearth::TapeBudget;
  friend class hearth::TapeTraffic;

  /// The tensor's node on this tape; kNoNode if it has none.
  [[nodiscard]] std::uint32_t node_of(const Tensor& tensor) const noexcept {
    if (TensorAccess::tape(tensor) == this) [[likely]] {
      return TensorAccess::node(tensor);
    }
    return TensorAccess::tape(tensor) == nullptr ? kNoNode : node_behind_closed(tensor);
  }
  [[nodiscard]] std::uint32_t node_behind_closed(const Tensor& tensor) const noexcept;
  /// will_record() and did_record() of a nested tape, for the outer tapes. The second one returns
  /// the first result's place there.
  void will_record_outside(const Submission& submission, PathId layer);
  [[nodiscard]] TapePlace did_record_outside(std::span<Tensor> results);
  /// Adds an edge for each input; returns what the gradients of the tracked ones need.
  [[nodiscard]] VjpNeeds add_edges(const Submission& submission, std::size_t first_operand);
  /// Saves the needed operands; returns the saved ones as a mask of positions.
  [[nodiscard]] std::uint8_t save_operands(const Submission& submission,
                                           std::size_t first_operand,
                                           std::uint8_t needed);
  /// Checks that this tape can differentiate the result. Errors: ArgumentError, DtypeError or
  /// ShapeError.
  void require_swept(const Tensor& output, SourceLoc loc) const;
  void sweep_node(std::uint32_t index, const GradientHook& on_ready);
  /// Inside a region: adds edges for the op's gradients.
  void record_in_region(const Submission& submission);
  /// Reruns the function behind the node, sweeps what it records, and discards it.
  void sweep_checkpoint(std::uint32_t index, const GradientHook& on_ready);
  /// Discards all nodes behind this one, which is being swept.
  void forget_behind(std::uint32_t index);
  void forget_saved(std::size_t kept);
  void forget_last();
  void finish_leaf(TapeNode& leaf, const GradientHook& on_ready);
  void accumulate(std::uint32_t node, Tensor gradient, SourceLoc loc);
  /// Adds the gradient of a part. Parts that make up the whole are concatenated. Otherwise
  /// take_gradient() makes a gradient of the whole, with zeros elsewhere.
  void accumulate_part(TapePart part);
  /// Makes a gradient of the whole from parts that do not cover it.
  void accumulate_rest(std::vector<TapePart> parts);
  /// Concatenates parts that are sorted and do not overlap, with zeros in the gaps.
  [[nodiscard]] Tensor assemble(std::vector<TapePart> parts) const;
  /// Takes the gradient that a node has accumulated.
  [[nodiscard]] Tensor take_gradient(std::uint32_t node);

  std::vector<TapeNode> nodes_;
  std::vector<TapeEdge> edges_;
  std::vector<Tensor> saved_;
  std::vector<std::uint32_t> saved_nodes_;  ///< node that made each of them; kNoNode: untracked
  std::vector<std::byte> attribute_bytes_;
  std::vector<Device> homes_;      ///< of transfers: the device before, the device after
  std::vector<Tensor> leaves_;     ///< untracked
  std::vector<Tensor> gradients_;  ///< by node, during the sweep
  /// Parts of gradients, by node, during the sweep; a node has an entry for each axis that was cut.
  std::unordered_map<std::uint32_t, std::vector<TapeParts>> parts_;
  std::vector<Tensor> leaf_gradients_;  ///< by leaf, during the sweep
  std::vector<Tensor> unreached_;       ///< by leaf, after the sweep
  std::vector<std::unique_ptr<CheckpointRecord>> checkpoints_;
  std::unique_ptr<TapeBudget> budget_;    ///< null without a RecomputeScope
  std::unique_ptr<TapeTraffic> traffic_;  ///< null with one
  std::unique_ptr<detail::WeightWatch> weight_watch_;
  std::uint32_t region_ = kNoNode;   ///< node of the open region
  const IntrusivePtr<Tape> parent_;  ///< innermost tape when this one was opened; null: none
  const int level_;
  std::vector<TapePlace> outer_places_;  ///< by node, of a nested tape; their tapes are ancestors
  Tape* outer_recorder_ = nullptr;       ///< outer tape of the op that is being recorded
  SourceLoc sweep_location_;
  std::uint64_t owner_thread_ = 0;
  std::atomic<bool> is_open_{true};
};

/// The tape that records an op: the innermost one that tracks an input, if the kind has a gradient;
/// else nullptr. Errors: ArgumentError if another thread's tape tracks an input, or if the kind has
/// no rule although its values depend on its inputs: an optimizer's step.
[[nodiscard]] Tape* find_tape(const Submission& submission);
[[nodiscard]] inline Tape* tape_of(const Submission& submission) {
  for (const Arg& input : submission.inputs) {
    if (TensorAccess::tape(input.tensor()) != nullptr) {
      return find_tape(submission);
    }
  }
  return nullptr;
}

}  // namespace detail

}  // namespace hearth
