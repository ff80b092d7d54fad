#include "attention_operands.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cstdlib>

namespace hearth::gpu {
namespace {

constexpr std::int64_t kNarrowOffset = std::int64_t{1} << 30;
/// Axes before the rows: most calls have no more, and share a shader.
constexpr int kPaddedRank = 2;

}  // namespace

AttentionOperands::AttentionOperands(const KernelCall& call,
                                     std::size_t first,
                                     std::size_t mask_place) noexcept
    : shape_(call.inputs[first].shape()) {
  const auto attributes = call.op.attributes<AttentionAttributes>();
  const TensorView& key = call.inputs[first + 1];
  const TensorView& value = call.inputs[first + 2];
  const int rank = shape_.rank();
  scale = attributes.scale;
  is_causal = attributes.causal != 0;
  dtype = call.inputs[first].dtype;
  queries = shape_[rank - 2];
  width = shape_[rank - 1];
  keys = key.shape()[rank - 2];
  value_width = value.shape()[rank - 1];
  if (rank > 2) {
    key_heads_ = key.shape()[rank - 3];
    group = key_heads_ > 0 ? shape_[rank - 3] / key_heads_ : 0;
  }
  add(q, call.inputs[first], call.inputs[first].strides(), true);
  add(k, key, key.strides(), false);
  add(v, value, value.strides(), false);
  if (call.inputs.size() > mask_place) {
    const TensorView& own = call.inputs[mask_place];
    Shape scores = shape_;
    scores.set(rank - 1, keys);
    mask_kind = own.dtype == DType::boolean ? AttentionMask::booleans : AttentionMask::floats;
    add(mask, own, broadcast_strides(*own.layout, scores), true);
  }
}

void AttentionOperands::add_rows(Place place, const TensorView& view) noexcept {
  add(place, view, view.strides(), true);
}

void AttentionOperands::add(Place place,
                            const TensorView& view,
                            const Strides& strides,
                            bool of_queries) noexcept {
  const auto rank = static_cast<std::size_t>(shape_.rank());
  strides_[place] = strides;
  of_queries_[place] = of_queries;
  matrices[place] = {
      .address = reinterpret_cast<std::uintptr_t>(view.data),  // NOLINT: a device address
      .head = rank > 2 ? strides[rank - 3] : 0,
      .row = strides[rank - 2],
      .column = strides[rank - 1]};
}

void AttentionOperands::finish() noexcept {
  const int rank = shape_.rank();
  std::array<std::int64_t, kPlaces> steps{};
  for (int axis = 0; axis < rank - 2; ++axis) {
    const bool is_heads = axis == rank - 3;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      const std::int64_t step = strides_[place][static_cast<std::size_t>(axis)];
      steps[place] = is_heads && of_queries_[place] ? step * group : step;
    }
    heads.push(is_heads ? key_heads_ : shape_[axis], steps);
  }
  const std::int64_t widest = std::max({width, value_width, keys, std::int64_t{1}});
  const std::int64_t longest = std::max(queries, keys);
  heads.pad(kPaddedRank);
  wide = heads.count() * std::max(rows(), keys) >= kNarrowOffset / widest;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    const AttentionMatrix& each = matrices[place];
    wide = wide || heads.reach(static_cast<int>(place)) + group * std::abs(each.head) +
                           longest * std::abs(each.row) + widest * std::abs(each.column) >=
                       kNarrowOffset;
  }
}

}  // namespace hearth::gpu
