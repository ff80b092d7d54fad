// Gradients of slices: those that make up a whole are put together, where each alone would be a
// tensor of the whole's size, mostly zeros, and a sum.
#include "tape.hpp"

#include <hearth/runtime/ops.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace hearth {

void Tape::accumulate_part(TapePart part) {
  parts_.push_back(std::move(part));
  std::vector<TapePart> whole = take_whole();
  if (!whole.empty()) {
    const std::uint32_t node = whole[0].node;
    const SourceLoc location = whole[0].location;
    accumulate(node, put_together(std::move(whole)), location);
  }
}

std::vector<TapePart> Tape::take_whole() {
  const TapePart& last = parts_.back();
  const std::uint32_t node = last.node;
  const int axis = last.axis;
  const std::int64_t size = last.whole[axis];
  std::vector<TapePart*> found;
  for (TapePart& part : parts_) {
    if (part.node == node && part.axis == axis) {
      found.push_back(&part);
    }
  }
  std::ranges::sort(found, {}, [](const TapePart* part) { return part->first(); });
  std::int64_t next = 0;
  for (const TapePart* part : found) {
    if (part->first() != next) {
      return {};
    }
    next += part->gradient.shape()[axis];
  }
  std::vector<TapePart> whole;
  if (next == size) {
    for (TapePart* part : found) {
      whole.push_back(std::move(*part));
    }
    std::erase_if(parts_, [&](const TapePart& part) { return !part.gradient.is_valid(); });
  }
  return whole;
}

// Where a permute made the whole, in the order of what it permuted, so that the gradient lies in
// order behind it.
Tensor Tape::put_together(std::vector<TapePart> parts) const {
  const TapeNode& maker = nodes_[parts[0].node];
  const SourceLoc loc = parts[0].location;
  int axis = parts[0].axis;
  const auto rank = static_cast<std::size_t>(parts[0].whole.rank());
  std::array<int, kMaxRank> axes{};
  std::array<int, kMaxRank> inverse{};
  const bool is_permuted = maker.leaf == kNoNode && maker.kind == OpKind::permute;
  if (is_permuted) {
    PermuteAttributes forward;
    HEARTH_ASSERT(maker.attribute_size_bytes == sizeof(forward), "attributes of another kind");
    std::memcpy(&forward, attribute_bytes_.data() + maker.first_attribute_byte, sizeof(forward));
    for (std::size_t i = 0; i < rank; ++i) {
      axes[i] = forward.axes[i];
      inverse[forward.axes[i]] = static_cast<int>(i);
    }
    axis = axes[static_cast<std::size_t>(axis)];
  }
  std::vector<Tensor> gradients;
  gradients.reserve(parts.size());
  for (TapePart& part : parts) {
    gradients.push_back(is_permuted ? permute(Arg(std::move(part.gradient), loc),
                                              std::span<const int>(inverse.data(), rank))
                                    : std::move(part.gradient));
  }
  Tensor whole = concat(gradients, axis, loc);
  return is_permuted ? permute(Arg(std::move(whole), loc), std::span<const int>(axes.data(), rank))
                     : whole;
}

Tensor Tape::take_gradient(std::uint32_t node) {
  for (std::size_t i = 0; !parts_.empty() && i < parts_.size();) {
    if (parts_[i].node != node) {
      ++i;
      continue;
    }
    TapePart part = std::move(parts_[i]);
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
    const DType dtype = part.gradient.dtype();
    const Arg input(std::move(part.gradient), part.location);
    accumulate(node,
               detail::submit({.kind = OpKind::slice_scatter,
                               .location = part.location,
                               .inputs = {&input, 1},
                               .attributes = std::as_bytes(std::span(&part.cut, 1))},
                              dtype,
                              part.whole),
               part.location);
  }
  return std::move(gradients_[node]);
}

}  // namespace hearth
