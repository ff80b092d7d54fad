// TapeTraffic: drops values that are cheaper to recompute than to write and read back: large ones
// that few elementwise ops make of kept values. Reading as many bytes as the value has is free;
// more is charged. A GELU or a SiLU keeps only its argument, a norm its centred rows. Of 16 bits,
// the argument is kept before the cast to f32, and a norm keeps that and the means. In the
// backward pass the recomputing ops are fused into the kernel of their consumers, so nothing is
// written there either. Private to runtime. Threads: the tape's owner.
// Invariant: the inputs of a dropped value are available to each of its users until the sweep has
// passed them. Each input is a leaf, a value held for this user or an earlier one, or one that can
// be recomputed from such values. At the time of the drop, a narrow input (see will_record) counts
// as well. Saved values do not count, since gradients release those that
// they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tape.hpp"
#include "tape_context.hpp"

namespace hearth {

class TapeTraffic final {
 public:
  explicit TapeTraffic(detail::Tape& tape) : tape_(&tape), limits_(detail::traffic_limits()) {}

  /// Called for the tape's last node before its op is submitted. Holds the narrow inputs of
  /// elementwise ops for a while: those with half of the bytes of the result, or less.
  void will_record(const detail::Submission& submission);
  /// Called when the tape's last node has saved its values.
  void did_record();
  /// Recomputes the dropped values of the node, before its gradient releases the kept ones.
  void prepare(const TapeNode& node);
  /// The value that prepare() recomputed for this index of the saved tensors. Lifetime: until
  /// passed().
  [[nodiscard]] Tensor& restored(std::size_t place);
  /// Releases what was held for this node, which the sweep has passed.
  void passed(std::uint32_t node) noexcept;
  /// Forgets the nodes behind this one, which the tape has discarded.
  void forget_behind(std::uint32_t node) noexcept;

 private:
  /// A dropped value: its index among the saved tensors, and its form.
  struct Dropped {
    std::size_t place = 0;
    const detail::Layout* layout = nullptr;
    DType dtype = DType::f32;
  };
  /// A value kept for a user of another value that is computed from it.
  struct Held {
    std::uint32_t user = 0;
    std::uint32_t producer = 0;
    Tensor value;
  };
  /// An input of an elementwise op that is narrower than the result.
  struct Narrow {
    std::uint32_t user = 0;
    std::uint32_t producer = 0;
    Tensor value;
  };
  /// How a value is recomputed from available ones.
  struct Chain {
    std::int64_t element_count = 0;  ///< Elements of the value; no link has more.
    bool is_host = false;
    std::vector<std::uint32_t> bases = {};  ///< Their producers; leaves are always available.
    std::vector<const TensorImpl*> read = {};
    std::int64_t read_bytes = 0;
    float additions = 0;  ///< Cost for each element, in additions.
    int ops = 0;

    void read_from(const Tensor& value);
  };

  [[nodiscard]] bool is_worth(std::size_t place) const noexcept;
  [[nodiscard]] bool is_for_elementwise_ops(std::uint32_t node) const noexcept;
  [[nodiscard]] const Held* find_held(std::uint32_t producer) const noexcept;
  /// A held or recomputed value; null if neither.
  [[nodiscard]] const Tensor* find(std::uint32_t producer) const noexcept;
  /// A held, recomputed, narrow or recently saved value; null if none.
  [[nodiscard]] const Tensor* find_kept(std::uint32_t producer) const noexcept;
  [[nodiscard]] bool follow(std::uint32_t node, Chain& chain) const;
  [[nodiscard]] bool follow_inputs(std::uint32_t node, Chain& chain) const;
  [[nodiscard]] bool is_at_hand(std::uint32_t node) const noexcept;
  void consider(std::uint32_t node, std::size_t place);
  void drop(std::uint32_t node, const Chain& chain);
  void keep_for(std::uint32_t user, const Chain& chain);
  [[nodiscard]] Tensor value_of(std::uint32_t node, DType dtype, const Shape& shape);
  [[nodiscard]] bool is_wanted_later(std::uint32_t node) const noexcept;

  detail::Tape* tape_;
  const detail::TrafficLimits limits_;
  std::vector<Dropped> dropped_;  ///< sorted by index
  std::vector<Held> held_;        ///< sorted by user
  std::deque<Narrow> narrow_;     ///< of nodes in reach, sorted by user
  /// Recomputed values by producer, while a dropped index still needs them.
  std::vector<std::pair<std::uint32_t, Tensor>> again_;
  /// By index, for the node being swept: its operands refer to them.
  std::deque<std::pair<std::size_t, Tensor>> restored_;
};

}  // namespace hearth
