// Shapes, views, joins and parts of tensors.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"
#include "modules/onnx/host/layout_rules.hpp"

#include <algorithm>

namespace hearth::onnx {
namespace layout_ops {
namespace {

template <Shape (*kTarget)(Call&)>
void reshape_to(Call& call) {
  const OnnxType type = call.type(0);
  const Shape target = kTarget(call);
  call.give(reshape(call.take(0), target), type);
}

void expand_to(Call& call) {
  const OnnxType type = call.type(0);
  const Shape target = expand_target(call);
  call.give(expand(call.take(0), target), type);
}

void turn(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<int> order = transpose_order(call);
  call.give(permute(call.take(0), order), type);
}

void join(Call& call) {
  require_one_type(call);
  const OnnxType type = call.type(0);
  const std::int64_t given = call.node().integer("axis", call.opset() < 4 ? 1 : 0);
  const int axis = call.axis(given, call.rank(0));
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < call.count(); ++i) {
    parts.push_back(call.take(i));
  }
  call.give(concat(parts, axis), type);
}

void cut(Call& call) {
  const OnnxType type = call.type(0);
  const SplitParts parts = split_parts(call);
  std::vector<Tensor> all = split(call.take(0), parts.sizes, parts.axis);
  for (std::size_t i = 0; i < all.size(); ++i) {
    call.give(i, std::move(all[i]), type);
  }
}

void select(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<AxisSelection> selections = slice_selections(call);
  Tensor x = call.take(0);
  for (const AxisSelection& part : selections) {
    if (part.count == 0) {
      x = slice(std::move(x), part.axis, {.start = 0, .stop = 0});
      continue;
    }
    const std::int64_t last = part.start + (part.count - 1) * part.step;
    const std::int64_t stop = last + (part.step > 0 ? 1 : -1);
    x = slice(std::move(x),
              part.axis,
              {.start = part.start,
               .stop = stop < 0 ? std::optional<std::int64_t>{} : stop,
               .step = part.step});
  }
  call.give(std::move(x), type);
}

void tile(Call& call) {
  const OnnxType type = call.type(0);
  const Sizes counts = tile_counts(call);
  call.give(repeat(call.take(0), counts), type);
}

bool shape_on_host(Call& call) {
  const Shape shape = call.shape(0);
  const std::int64_t rank = shape.rank();
  const auto place = [rank](std::int64_t axis) {
    return std::clamp(axis < 0 ? axis + rank : axis, std::int64_t{0}, rank);
  };
  const std::int64_t start = place(call.node().integer("start", 0));
  const std::int64_t end = std::max(start, place(call.node().integer("end", rank)));
  Sizes sizes;
  for (std::int64_t i = start; i < end; ++i) {
    sizes.push_back(shape[static_cast<int>(i)]);
  }
  call.give(host_integers(std::move(sizes)));
  return true;
}
void shape_of(Call& call) {
  static_cast<void>(shape_on_host(call));
}

bool size_on_host(Call& call) {
  call.give(host_integers({call.shape(0).element_count()}, Shape{}));
  return true;
}
void size_of(Call& call) {
  static_cast<void>(size_on_host(call));
}

struct Pads {
  std::vector<PadAxis> axes = {};
  std::vector<Range> cuts = {};  // of negative pads, by axis
};

// Pads of all axes, or from opset 18 on of those in input 3.
Pads pads_of(Call& call) {
  const int rank = call.rank(0);
  std::optional<Sizes> given = call.integers(1, "pads");
  const Sizes* const first_name = call.node().integers("paddings");  // opset 1
  if (!given && first_name != nullptr) {
    given = *first_name;
  }
  if (!given) {
    call.refuse("Pad has no pads");
  }
  Sizes axes;
  for (int i = 0; i < rank; ++i) {
    axes.push_back(i);
  }
  if (call.has(3)) {
    axes = call.integers(3);
  }
  if (given->size() != 2 * axes.size()) {
    call.refuse("it has {} pads for {} axes", given->size(), axes.size());
  }
  Pads pads{.cuts = std::vector<Range>(static_cast<std::size_t>(rank))};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis(axes[i], rank);
    const std::int64_t before = (*given)[i];
    const std::int64_t after = (*given)[i + axes.size()];
    if (before > 0 || after > 0) {
      pads.axes.push_back({.axis = axis,
                           .before = std::max<std::int64_t>(before, 0),
                           .after = std::max<std::int64_t>(after, 0)});
    }
    Range& range = pads.cuts[static_cast<std::size_t>(axis)];
    if (before < 0) {
      range.start = -before;
    }
    if (after < 0) {
      range.stop = call.shape(0)[axis] + std::max<std::int64_t>(before, 0) + after;
    }
  }
  return pads;
}

std::optional<PadMode> pad_mode(const std::string& text) {
  if (text == "constant") {
    return PadMode::constant;
  }
  if (text == "reflect") {
    return PadMode::reflect;
  }
  if (text == "edge") {
    return PadMode::replicate;
  }
  return text == "wrap" ? std::optional(PadMode::circular) : std::nullopt;
}

std::string check_pad(const NodeInfo& node) {
  const std::string mode = node.text("mode", "constant");
  return pad_mode(mode) ? std::string{} : fmt::format("attribute mode is '{}'", mode);
}

void pad_ends(Call& call) {
  const OnnxType type = call.type(0);
  const Pads pads = pads_of(call);
  const double value =
      call.opset() >= 11 ? (call.has(2) ? call.real(2) : 0) : call.node().real("value", 0);
  const PadMode mode = *pad_mode(call.node().text("mode", "constant"));
  Tensor x = call.take(0);
  if (!pads.axes.empty()) {
    const bool is_bool = x.dtype() == DType::boolean;
    x = is_bool ? cast(std::move(x), DType::u8) : std::move(x);
    x = pad(std::move(x), pads.axes, {.mode = mode, .value = value});
  }
  for (std::size_t axis = 0; axis < pads.cuts.size(); ++axis) {
    const Range& range = pads.cuts[axis];
    if (range.start || range.stop) {
      x = slice(std::move(x), static_cast<int>(axis), range);
    }
  }
  call.give(std::move(x), type);
}

void depth_to_space(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t block = call.node().integer("blocksize", 0);
  const Shape s = call.shape(0);
  if (block < 1 || s.rank() != 4 || s[1] % (block * block) != 0) {
    call.refuse("{} has no blocks of {}", s.to_string(), block);
  }
  const std::int64_t channels = s[1] / (block * block);
  if (call.node().text("mode", "DCR") == "DCR") {
    Tensor x = reshape(call.take(0), {s[0], block, block, channels, s[2], s[3]});
    x = permute(std::move(x), {0, 3, 4, 1, 5, 2});
    call.give(reshape(std::move(x), {s[0], channels, s[2] * block, s[3] * block}), type);
    return;
  }
  Tensor x = reshape(call.take(0), {s[0], channels, block, block, s[2], s[3]});
  x = permute(std::move(x), {0, 1, 4, 2, 5, 3});
  call.give(reshape(std::move(x), {s[0], channels, s[2] * block, s[3] * block}), type);
}

void space_to_depth(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t block = call.node().integer("blocksize", 0);
  const Shape s = call.shape(0);
  if (block < 1 || s.rank() != 4 || s[2] % block != 0 || s[3] % block != 0) {
    call.refuse("{} has no blocks of {}", s.to_string(), block);
  }
  Tensor x = reshape(call.take(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  x = permute(std::move(x), {0, 3, 5, 1, 2, 4});
  call.give(reshape(std::move(x), {s[0], s[1] * block * block, s[2] / block, s[3] / block}), type);
}

// Pads or cuts each axis around its centre.
void centre_crop_pad(Call& call) {
  const OnnxType type = call.type(0);
  const Sizes wanted = call.integers(1);
  Sizes axes;
  for (int i = 0; i < call.rank(0); ++i) {
    axes.push_back(i);
  }
  if (const Sizes* const given = call.node().integers("axes"); given != nullptr) {
    axes = *given;
  }
  if (axes.size() != wanted.size()) {
    call.refuse("it has {} sizes for {} axes", wanted.size(), axes.size());
  }
  Tensor x = call.take(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis(axes[i], x.rank());
    const std::int64_t more = wanted[i] - x.size(axis);
    if (more > 0) {
      x = pad(std::move(x), {{.axis = axis, .before = more / 2, .after = more - more / 2}});
    } else if (more < 0) {
      const std::int64_t start = -more / 2;
      x = slice(std::move(x), axis, {.start = start, .stop = start + wanted[i]});
    }
  }
  call.give(std::move(x), type);
}

constexpr OpRow kRows[] = {
    {.op = "Reshape",
     .run = reshape_to<reshape_target>,
     .on_host = reshape_on_host,
     .host_inputs = inputs(1)},
    {.op = "Squeeze",
     .run = reshape_to<squeeze_target>,
     .on_host = squeeze_on_host,
     .host_inputs = inputs(1)},
    {.op = "Unsqueeze",
     .run = reshape_to<unsqueeze_target>,
     .on_host = unsqueeze_on_host,
     .host_inputs = inputs(1)},
    {.op = "Flatten", .run = reshape_to<flatten_target>, .on_host = flatten_on_host},
    {.op = "Expand",
     .since = 8,
     .run = expand_to,
     .on_host = expand_on_host,
     .host_inputs = inputs(1)},
    {.op = "Transpose", .run = turn, .on_host = transpose_on_host},
    {.op = "Concat", .run = join, .on_host = concat_on_host},
    {.op = "Split", .run = cut, .on_host = split_on_host, .host_inputs = inputs(1)},
    {.op = "Slice", .run = select, .on_host = slice_on_host, .host_inputs = inputs(1, 2, 3, 4)},
    {.op = "Tile", .run = tile, .on_host = tile_on_host, .host_inputs = inputs(1, 2)},
    {.op = "Shape", .run = shape_of, .on_host = shape_on_host, .is_known = true},
    {.op = "Size", .run = size_of, .on_host = size_on_host, .is_known = true},
    {.op = "Pad", .run = pad_ends, .host_inputs = inputs(1, 2, 3), .check = check_pad},
    {.op = "DepthToSpace", .run = depth_to_space},
    {.op = "SpaceToDepth", .run = space_to_depth},
    {.op = "CenterCropPad", .since = 18, .run = centre_crop_pad, .host_inputs = inputs(1)},
};

}  // namespace
}  // namespace layout_ops

std::span<const OpRow> layout_rows() {
  return layout_ops::kRows;
}

}  // namespace hearth::onnx
