// How a tape keeps within a number of bytes: which of its saved values it may drop, since
// elementwise ops and views make them again from what stays, and how. Private to runtime. Threads:
// the tape's owner. Invariant: what a dropped value is made of is there when the sweep needs it: a
// leaf, a value that an op up to its maker saved, or one that can be made again itself.
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

  /// The tape's last node has saved what it needs, and gave this result: drops the oldest values
  /// that may be dropped while there are too many bytes.
  void did_record(const Tensor& result);
  /// Computes again what lay at this place of the saved tensors.
  void restore(std::size_t place);
  /// The nodes behind this one are gone.
  void forget_behind(std::uint32_t node);

 private:
  /// What a node made, and where it is saved.
  struct Value {
    const detail::Layout* layout = nullptr;
    DType dtype = DType::f32;
    std::vector<std::uint32_t> places = {};
    std::vector<std::uint32_t> views = {};  ///< Nodes that are saved, and views of this one.
    bool is_kept = false;                   ///< Its bytes are counted.
    bool was_dropped = false;               ///< Once at least.
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
  std::vector<Value> values_;  ///< By node.
  std::uint32_t registered_places_ = 0;
  std::uint32_t next_candidate_ = 0;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace hearth
