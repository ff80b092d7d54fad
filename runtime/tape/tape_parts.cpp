// Gradients of slices. Parts that make up a whole are concatenated. Alone, each would be a tensor
// of the whole's size, mostly zeros, and a sum.
#include "tape.hpp"

#include <hearth/runtime/ops.hpp>

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace hearth::detail {
namespace {

// Sorts the parts; returns whether they do not overlap. A part without elements overlaps nothing.
bool are_apart(std::vector<TapePart>& parts) {
  std::ranges::sort(
      parts, {}, [](const TapePart& part) { return std::pair(part.first(), part.size()); });
  std::int64_t next = 0;
  for (const TapePart& part : parts) {
    if (part.size() > 0 && part.first() < next) {
      return false;
    }
    next = std::max(next, part.first() + part.size());
  }
  return true;
}

}  // namespace

// The sum of the sizes grows with each part and reaches the whole's size once, so the parts are
// sorted once.
void Tape::accumulate_part(TapePart part) {
  const std::uint32_t node = part.node;
  const std::int64_t size = part.size();
  const std::int64_t whole = part.whole[part.axis];
  std::vector<TapeParts>& of_node = parts_[node];
  auto found = std::ranges::find(of_node, part.axis, &TapeParts::axis);
  if (found == of_node.end()) {
    found = of_node.insert(found, {.axis = part.axis, .size = 0, .parts = {}});
  }
  found->size += size;
  found->parts.push_back(std::move(part));
  if (size == 0 || found->size != whole || !are_apart(found->parts)) {
    return;
  }
  std::vector<TapePart> all = std::move(found->parts);
  of_node.erase(found);
  if (of_node.empty()) {
    parts_.erase(node);
  }
  const SourceLoc location = all[0].location;
  accumulate(node, assemble(std::move(all)), location);
}

// If a permute made the whole, concatenates in the order of the permute's input, so that the
// gradient is contiguous after it.
Tensor Tape::assemble(std::vector<TapePart> parts) const {
  const TapeNode& producer = nodes_[parts[0].node];
  const SourceLoc loc = parts[0].location;
  int axis = parts[0].axis;
  const auto rank = static_cast<std::size_t>(parts[0].whole.rank());
  std::array<int, kMaxRank> axes{};
  std::array<int, kMaxRank> inverse{};
  const bool is_permuted = producer.leaf == kNoNode && producer.kind == OpKind::permute;
  if (is_permuted) {
    PermuteAttributes forward;
    HEARTH_ASSERT(producer.attribute_size_bytes == sizeof(forward), "attributes of another kind");
    std::memcpy(&forward, attribute_bytes_.data() + producer.first_attribute_byte, sizeof(forward));
    for (std::size_t i = 0; i < rank; ++i) {
      axes[i] = forward.axes[i];
      inverse[forward.axes[i]] = static_cast<int>(i);
    }
    axis = axes[static_cast<std::size_t>(axis)];
  }
  std::vector<Tensor> gradients;
  gradients.reserve(parts.size());
  const auto in_order = [&](Tensor gradient) {
    gradients.push_back(is_permuted ? permute(Arg(std::move(gradient), loc),
                                              std::span<const int>(inverse.data(), rank))
                                    : std::move(gradient));
  };
  Shape gap = parts[0].whole;
  const std::int64_t size = gap[parts[0].axis];
  const Device device = parts[0].gradient.device();
  const DType dtype = parts[0].gradient.dtype();
  std::int64_t next = 0;
  const auto zeros_up_to = [&](std::int64_t end) {
    if (end > next) {
      gap.set(parts[0].axis, end - next);
      in_order(zeros(device, gap, dtype, loc));
    }
  };
  for (TapePart& part : parts) {
    if (part.size() > 0) {
      zeros_up_to(part.first());
      const std::int64_t end = part.first() + part.size();
      in_order(std::move(part.gradient));
      next = end;
    }
  }
  zeros_up_to(size);
  Tensor whole = concat(gradients, axis, loc);
  return is_permuted ? permute(Arg(std::move(whole), loc), std::span<const int>(axes.data(), rank))
                     : whole;
}

void Tape::accumulate_rest(std::vector<TapePart> parts) {
  const std::uint32_t node = parts[0].node;
  const SourceLoc location = parts[0].location;
  if (parts.size() > 1 && are_apart(parts)) {
    accumulate(node, assemble(std::move(parts)), location);
    return;
  }
  for (TapePart& part : parts) {
    const DType dtype = part.gradient.dtype();
    const Arg input(std::move(part.gradient), part.location);
    accumulate(node,
               submit({.kind = OpKind::slice_scatter,
                       .location = part.location,
                       .inputs = {&input, 1},
                       .attributes = std::as_bytes(std::span(&part.cut, 1))},
                      dtype,
                      part.whole),
               part.location);
  }
}

Tensor Tape::take_gradient(std::uint32_t node) {
  if (!parts_.empty()) {
    auto of_node = parts_.extract(node);
    if (!of_node.empty()) {
      for (TapeParts& of_axis : of_node.mapped()) {
        accumulate_rest(std::move(of_axis.parts));
      }
    }
  }
  return std::move(gradients_[node]);
}

}  // namespace hearth::detail
