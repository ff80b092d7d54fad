// TapeBudget: keeps a tape within a number of bytes. Chooses saved values to drop that elementwise
// ops and views can recompute from kept ones, and recomputes them. Private to runtime. Threads: the
// tape's owner.
// Invariant: the inputs of a dropped value are available when the sweep needs it. Each is a leaf, a
// value saved by an op up to its producer, or one that can itself be recomputed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tape.hpp"
#include "tape_context.hpp"

namespace hearth {

class TapeBudget final {
 public:
  TapeBudget(detail::Tape& tape, std::shared_ptr<detail::RecomputeState> state) noexcept
      : tape_(&tape), state_(std::move(state)) {}

  /// Called when the tape's last node has saved its values and returned `result`. Drops the oldest
  /// droppable values while the tape holds too many bytes.
  void did_record(const Tensor& result);
  /// Recomputes the dropped tensor at this index of the saved tensors.
  void restore(std::size_t place);
  /// Forgets the nodes behind this one, which the tape has discarded.
  void forget_behind(std::uint32_t node);

 private:
  /// The value of a node, and where it is saved.
  struct Value {
    const detail::Layout* layout = nullptr;
    DType dtype = DType::f32;
    std::vector<std::uint32_t> places = {};
    std::vector<std::uint32_t> views = {};  ///< saved nodes that are views of this one
    bool is_kept = false;                   ///< its bytes are counted
    bool was_dropped = false;               ///< at least once
  };

  [[nodiscard]] std::int64_t size_bytes_of(std::uint32_t node) const noexcept;
  /// The node whose bytes a view refers to.
  [[nodiscard]] std::uint32_t base_of(std::uint32_t node) const noexcept;
  [[nodiscard]] bool has_value_by(std::uint32_t node, std::uint32_t user) const noexcept;
  [[nodiscard]] bool can_recompute(std::uint32_t node, int depth) const noexcept;
  void keep(std::uint32_t node, std::uint32_t place);
  void drop(std::uint32_t node);
  void enforce();
  [[nodiscard]] Tensor value_of(std::uint32_t node);
  [[nodiscard]] std::vector<Tensor> inputs_of(std::uint32_t node);

  detail::Tape* tape_;
  std::shared_ptr<detail::RecomputeState> state_;
  std::vector<Value> values_;  ///< by node
  std::uint32_t registered_places_ = 0;
  std::uint32_t next_candidate_ = 0;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace hearth
