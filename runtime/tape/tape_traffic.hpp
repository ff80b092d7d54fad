// Values that a tape does not keep since computing them again costs less than writing them and
// reading them back: large ones, made by few elementwise ops from what is kept anyway. Of what has
// to be read for it one value's worth counts nothing; more does. A GELU or a SiLU keeps its
// argument alone, a norm its centred rows. In the backward pass the ops that make them again stand
// in the kernel of those that use them, so that nothing is written there either. Private to
// runtime. Threads: the tape's owner. Invariant: what a dropped value is made of is there for each
// of its users, as long as the sweep has not passed them: a leaf, a value that is held for it or
// for an earlier one, or one that can be made again from such. Saved values do not count: gradients
// give away those that they use.
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

  /// The tape's last node has saved what it needs.
  void did_record();
  /// Makes again what the node does not keep, before its gradient gives away what it keeps.
  void prepare(const TapeNode& node);
  /// What prepare() made for this place of the saved tensors. Lifetime: until passed().
  [[nodiscard]] Tensor& restored(std::size_t place);
  /// The sweep has passed this node, and needs nothing any more that was held for it.
  void passed(std::uint32_t node) noexcept;
  /// The nodes behind this one are gone.
  void forget_behind(std::uint32_t node) noexcept;

 private:
  /// Of a dropped value: where it lay, and what it is.
  struct Dropped {
    std::size_t place = 0;
    const detail::Layout* layout = nullptr;
    DType dtype = DType::f32;
  };
  /// A value that stays for a user of another one, which is made from it.
  struct Held {
    std::uint32_t user = 0;
    std::uint32_t maker = 0;
    Tensor value;
  };
  /// How a value comes of those that are there.
  struct Chain {
    std::int64_t element_count = 0;  ///< Of the value; no link has more.
    bool is_host = false;
    std::vector<std::uint32_t> bases = {};  ///< Their makers; leaves are always there.
    std::vector<const TensorImpl*> read = {};
    std::int64_t read_bytes = 0;
    float additions = 0;  ///< So long an element takes, in additions.
    int ops = 0;

    void read_from(const Tensor& value);
  };

  [[nodiscard]] bool is_worth(std::size_t place) const noexcept;
  [[nodiscard]] bool is_for_elementwise_ops(std::uint32_t node) const noexcept;
  [[nodiscard]] const Held* find_held(std::uint32_t maker) const noexcept;
  /// A value that is held, or was made again; null: neither.
  [[nodiscard]] const Tensor* find(std::uint32_t maker) const noexcept;
  /// The same among those that were saved lately, too.
  [[nodiscard]] const Tensor* find_kept(std::uint32_t maker) const noexcept;
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
  std::vector<Dropped> dropped_;  ///< By place.
  std::vector<Held> held_;        ///< By user.
  /// What was made again, by its maker, while a dropped place wants it.
  std::vector<std::pair<std::uint32_t, Tensor>> again_;
  /// By place, for the node that is swept: its operands refer to them.
  std::deque<std::pair<std::size_t, Tensor>> restored_;
};

}  // namespace hearth
