// The tape of one grad call: which ops led from the tracked inputs to the output, and what their
// gradients need of them. Private to runtime.
// Counted by its TapeScope and by the tensors that it tracks, so that a tracked tensor may outlive
// the call; from then on the tape is closed, and such a tensor counts as untracked.
// Threads: the one that opened it records and sweeps; references may be dropped by any.
// Invariants: (1) recording order is topological order; (2) what is saved is untracked, so the tape
// holds no reference to itself, but for the arguments of a checkpoint, which close() drops; (3) a
// node's saved tensors go as soon as its gradient was emitted.
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

/// An input of a recorded op: where its gradient goes, and what it looks like.
struct TapeEdge {
  /// Interned, so it lives as long as the runtime's tables.
  const detail::Layout* layout = nullptr;
  std::uint32_t node = 0;  ///< The node that made it; kNoNode when it is untracked.
  DType dtype = DType::f32;
};

/// One recorded op, a leaf, a checkpoint or one of its results. Its edges, saved tensors and
/// attribute bytes lie in the tape's lists.
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
  std::uint32_t leaf = 0;            ///< kNoNode for an op
  std::uint32_t checkpoint = 0;      ///< Of a checkpoint or its result: its number, from 1.
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

/// Those of one node along one axis, in the order in which they came.
struct TapeParts {
  int axis = 0;
  std::int64_t size = 0;  ///< Of all together.
  std::vector<TapePart> parts;
};

namespace detail {

class Tape final : public RefCounted<Tape> {
 public:
  static constexpr std::uint32_t kNoNode = 0xffffffffU;

  Tape();
  ~Tape();

  /// The same values, tracked, as the next leaf. A tensor whose type has no gradients comes back
  /// untracked; its gradient is zeros. Errors: ArgumentError when it is empty, or tracked by an
  /// outer grad.
  [[nodiscard]] Tensor add_leaf(const Tensor& value, std::string_view caller, SourceLoc loc);

  /// Warns of weights that the loss uses and that are none of the leaves, which are this model's,
  /// until close().
  void watch_weights(ModelPlaces model, SourceLoc loc) {
    weight_watch_ = std::make_unique<detail::WeightWatch>(std::move(model));
    weight_watch_->watch(leaves_, loc);
  }

  /// Before the op's input references are given away: saves what its gradient needs of them.
  /// `layer`: the path of its record where none of its inputs has one.
  void will_record(const Submission& submission, PathId layer = {});
  /// The op was refused, and leaves no node.
  void did_not_record();
  /// After the op was queued: saves the results that its gradient needs, and tracks the first one.
  void did_record(std::span<Tensor> results);

  /// What is recorded from here on is noted as one node, whose gradient runs `record`'s function
  /// again, until end_region(). Returns false where a region is open already.
  [[nodiscard]] bool begin_region();
  /// Tracks those of the results that depend on something tracked.
  void end_region(std::span<Tensor* const> results, std::unique_ptr<CheckpointRecord> record);
  /// The function threw: nothing that it made has a gradient.
  void abandon_region() noexcept { region_ = kNoNode; }

  /// See TapeScope::sweep.
  [[nodiscard]] std::vector<Tensor> sweep(const Tensor& output,
                                          const GradientHook& on_ready,
                                          SourceLoc loc);
  /// See TapeScope::take_unreached.
  [[nodiscard]] std::vector<Tensor> take_unreached() { return std::move(unreached_); }

  /// Forgets everything; from here on the tensors of this tape count as untracked.
  void close() noexcept;
  // Partner: the store in close().
  [[nodiscard]] bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }
  /// Errors: ArgumentError when the calling thread is not the one that opened the tape.
  void require_owner(const Submission& submission) const;

 private:
  friend class hearth::VjpNode;
  friend class hearth::TapeBudget;
  friend class hearth::TapeTraffic;

  /// An edge for each input; what the gradients of the tracked ones need.
  [[nodiscard]] VjpNeeds add_edges(const Submission& submission, std::size_t first_operand);
  /// Saves the needed operands; which ones those are, by position.
  [[nodiscard]] std::uint8_t save_operands(const Submission& submission,
                                           std::size_t first_operand,
                                           std::uint8_t needed);
  /// Errors: ArgumentError, DtypeError or ShapeError when there is no gradient of this result here.
  void require_swept(const Tensor& output, SourceLoc loc) const;
  void sweep_node(std::uint32_t index, const GradientHook& on_ready);
  /// In a region: where the op's gradients will go.
  void note_in_region(const Submission& submission);
  /// Runs the function again behind the node, sweeps what it records, and forgets it.
  void sweep_checkpoint(std::uint32_t index, const GradientHook& on_ready);
  /// Forgets all nodes behind this one, which is being swept.
  void forget_behind(std::uint32_t index);
  void forget_saved(std::size_t kept);
  void forget_last();
  void finish_leaf(TapeNode& leaf, const GradientHook& on_ready);
  void accumulate(std::uint32_t node, Tensor gradient, SourceLoc loc);
  /// Parts that make up the whole are put together; others become a gradient of the whole, with
  /// zeros elsewhere, when it is taken.
  void accumulate_part(TapePart part);
  /// A gradient of the whole for the parts, which are not all of it.
  void accumulate_rest(std::vector<TapePart> parts);
  /// Parts that do not overlap, in order; zeros between them.
  [[nodiscard]] Tensor put_together(std::vector<TapePart> parts) const;
  /// What has come of a node's gradient.
  [[nodiscard]] Tensor take_gradient(std::uint32_t node);

  std::vector<TapeNode> nodes_;
  std::vector<TapeEdge> edges_;
  std::vector<Tensor> saved_;
  std::vector<std::uint32_t> saved_nodes_;  ///< Who made each of them; kNoNode: untracked.
  std::vector<std::byte> attribute_bytes_;
  std::vector<Device> homes_;      ///< of transfers: the device before, the device after
  std::vector<Tensor> leaves_;     ///< untracked
  std::vector<Tensor> gradients_;  ///< by node, during the sweep
  /// Of gradients, by node, during the sweep; a node has an entry for each axis that was cut.
  std::unordered_map<std::uint32_t, std::vector<TapeParts>> parts_;
  std::vector<Tensor> leaf_gradients_;  ///< by leaf, during the sweep
  std::vector<Tensor> unreached_;       ///< by leaf, after the sweep
  std::vector<std::unique_ptr<CheckpointRecord>> checkpoints_;
  std::unique_ptr<TapeBudget> budget_;    ///< Null without a RecomputeScope.
  std::unique_ptr<TapeTraffic> traffic_;  ///< Null with one.
  std::unique_ptr<detail::WeightWatch> weight_watch_;
  std::uint32_t region_ = kNoNode;  ///< The node of the open region.
  SourceLoc sweep_location_;
  std::uint64_t owner_thread_ = 0;
  std::atomic<bool> is_open_{true};
};

/// The tape that an op belongs to when one of its inputs is tracked by it and the kind has a
/// gradient; else nullptr. Errors: ArgumentError when its inputs are tracked by different tapes, or
/// by another thread's.
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
