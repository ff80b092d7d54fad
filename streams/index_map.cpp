#include <hearth/streams/index_map.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

using Specs = std::span<const TensorSpec>;

// ---- links ----

// The input's axis is the result's.
AxisLink same(int axis) {
  return {.index = {.start = 0, .terms = {{.axis = axis}}}, .size_class = axis};
}
// Every element along the input's axis.
AxisLink whole(std::int64_t size, int size_class = -1) {
  return {.reach = size, .size_class = size_class};
}
// One element, which repeats.
AxisLink repeated() {
  return {};
}
AxisLink affine(std::int64_t start, IndexTerm term) {
  return {.index = {.start = start, .terms = {term}}};
}
// Windows: `size` positions from the result's index times `stride`, less the padding.
AxisLink window(
    int axis, std::int64_t stride, std::int64_t padding, std::int64_t size, std::int64_t step) {
  AxisLink link = affine(-padding, {.axis = axis, .step = stride});
  link.reach = size;
  link.reach_step = step;
  return link;
}
// The result's elements whose window contains an element of the input.
AxisLink inverse_window(
    int axis, std::int64_t stride, std::int64_t padding, std::int64_t size, std::int64_t step) {
  AxisLink link = window(axis, stride, padding, size, step);
  link.inverse_of = axis;
  return link;
}
AxisLink inverse(int axis, std::int64_t start, std::int64_t step) {
  return inverse_window(axis, step, -start, 1, 1);
}

// The axes of an input that broadcasts to the result, aligned from the right.
std::vector<AxisLink> broadcast_links(const Shape& in,
                                      const Shape& out,
                                      int last_axes_to_skip = 0) {
  std::vector<AxisLink> links;
  links.reserve(static_cast<std::size_t>(in.rank()));
  const int offset = out.rank() - in.rank();
  for (int axis = 0; axis < in.rank() - last_axes_to_skip; ++axis) {
    links.push_back(in[axis] == out[axis + offset] ? same(axis + offset) : repeated());
  }
  return links;
}

// All axes stay the same but one.
std::vector<AxisLink> all_but(const Shape& in, int axis, const AxisLink& instead) {
  std::vector<AxisLink> links;
  links.reserve(static_cast<std::size_t>(in.rank()));
  for (int i = 0; i < in.rank(); ++i) {
    links.push_back(i == axis ? instead : same(i));
  }
  return links;
}

// ---- by rule ----

std::vector<AxisLink> permuted(const OpView& op, const Shape& in) {
  const auto axes = op.attributes<PermuteAttributes>().axes;
  std::vector<AxisLink> links(static_cast<std::size_t>(in.rank()));
  for (int axis = 0; axis < in.rank(); ++axis) {
    links[axes[static_cast<std::size_t>(axis)]] = same(axis);
  }
  return links;
}

std::vector<AxisLink> sliced(const OpView& op, const Shape& in, bool is_scattered) {
  const auto slice = op.attributes<SliceAttributes>();
  std::vector<AxisLink> links;
  for (int axis = 0; axis < in.rank(); ++axis) {
    const std::int64_t start = slice.start[static_cast<std::size_t>(axis)];
    const std::int64_t step = slice.step[static_cast<std::size_t>(axis)];
    links.push_back(is_scattered ? inverse(axis, start, step)
                                 : affine(start, {.axis = axis, .step = step}));
  }
  return links;
}

std::vector<AxisLink> concatenated(const OpView& op, Specs inputs, int input) {
  const int axis = op.attributes<AxisAttributes>().axis;
  std::int64_t before = 0;
  for (int i = 0; i < input; ++i) {
    before += inputs[static_cast<std::size_t>(i)].shape[axis];
  }
  return all_but(
      inputs[static_cast<std::size_t>(input)].shape, axis, affine(-before, {.axis = axis}));
}

std::vector<AxisLink> reduced(const Shape& in, std::uint32_t axes, bool keep_dims) {
  std::vector<AxisLink> links;
  int result_axis = 0;
  for (int axis = 0; axis < in.rank(); ++axis) {
    const bool is_reduced = (axes >> static_cast<unsigned>(axis) & 1U) != 0;
    links.push_back(is_reduced ? whole(in[axis]) : same(result_axis));
    result_axis += !is_reduced || keep_dims ? 1 : 0;
  }
  return links;
}

// All positions up to the element's, or from it on: windows of the axis's size, which may extend
// beyond it.
std::vector<AxisLink> scanned(const OpView& op, const Shape& in) {
  const auto attributes = op.attributes<ScanAttributes>();
  const int axis = attributes.axis;
  const std::int64_t size = in[axis];
  AxisLink link = window(axis, 1, attributes.reverse != 0 ? 0 : size - 1, size, 1);
  link.size_class = axis;
  return all_but(in, axis, link);
}

std::vector<AxisLink> matmul(Specs inputs, const Shape& out, int input) {
  const Shape& in = inputs[static_cast<std::size_t>(input)].shape;
  const int rank = out.rank();
  if (input == 2) {  // the bias
    return {same(rank - 1)};
  }
  std::vector<AxisLink> links = broadcast_links(in, out, 2);
  const AxisLink inner = whole(inputs[0].shape[inputs[0].shape.rank() - 1], rank);
  links.push_back(input == 0 ? same(rank - 2) : inner);
  links.push_back(input == 0 ? inner : same(rank - 1));
  return links;
}

// Sizes that the rules of the convolutions share. Channels are in groups: `in_group` inputs make
// `out_group` outputs.
struct ConvSizes {
  ConvAttributes attributes;
  std::int64_t in_group;
  std::int64_t out_group;

  ConvSizes(const OpView& op, const Shape& x, const Shape& w)
      : attributes(op.attributes<ConvAttributes>()),
        in_group(x[1] / attributes.groups),
        out_group(w[0] / attributes.groups) {}
};

// Maps axis 2 or 3 of an image to the index of the attributes.
std::size_t place_of(int axis) {
  return static_cast<std::size_t>(axis - 2);
}

std::vector<AxisLink> conv2d(const OpView& op, Specs inputs, int input) {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  if (input == 1) {
    return {same(1), whole(w[1]), whole(w[2]), whole(w[3])};
  }
  if (input == 2) {  // the bias
    return {same(1)};
  }
  const ConvSizes conv(op, x, w);
  const ConvAttributes& a = conv.attributes;
  AxisLink channels = affine(0, {.axis = 1, .step = conv.in_group, .divisor = conv.out_group});
  channels.reach = conv.in_group;
  std::vector<AxisLink> links{same(0), channels};
  for (const int axis : {2, 3}) {
    const std::size_t i = place_of(axis);
    links.push_back(window(axis, a.stride[i], a.padding[i], w[axis], a.dilation[i]));
  }
  return links;
}

std::vector<AxisLink> conv2d_backward_input(const OpView& op,
                                            Specs inputs,
                                            const Shape& x,
                                            int input) {
  const Shape& w = inputs[1].shape;
  const ConvSizes conv(op, x, w);
  const ConvAttributes& a = conv.attributes;
  constexpr int kOutputChannels = 4;  // the class of the axis that grad and w share
  AxisLink channels = affine(0, {.axis = 1, .step = conv.out_group, .divisor = conv.in_group});
  channels.reach = conv.out_group;
  channels.size_class = kOutputChannels;
  if (input == 1) {
    return {channels, affine(0, {.axis = 1, .modulus = conv.in_group}), whole(w[2]), whole(w[3])};
  }
  std::vector<AxisLink> links{same(0), channels};
  for (const int axis : {2, 3}) {
    const std::size_t i = place_of(axis);
    links.push_back(inverse_window(axis, a.stride[i], a.padding[i], w[axis], a.dilation[i]));
  }
  return links;
}

std::vector<AxisLink> conv2d_backward_weight(const OpView& op,
                                             Specs inputs,
                                             const Shape& w,
                                             int input) {
  const Shape& x = inputs[0].shape;
  const Shape& grad = inputs[1].shape;
  constexpr int kBatch = 4;  // the class of the axis that x and grad share
  if (input == 1) {
    return {whole(grad[0], kBatch), same(0), whole(grad[2]), whole(grad[3])};
  }
  const ConvSizes conv(op, x, w);
  const ConvAttributes& a = conv.attributes;
  AxisLink channels = affine(0, {.axis = 0, .step = conv.in_group, .divisor = conv.out_group});
  channels.index.terms.push_back({.axis = 1});
  std::vector<AxisLink> links{whole(x[0], kBatch), channels};
  for (const int axis : {2, 3}) {
    const std::size_t i = place_of(axis);
    links.push_back(window(axis, a.dilation[i], a.padding[i], grad[axis], a.stride[i]));
  }
  return links;
}

std::vector<AxisLink> pool(const OpView& op, bool is_backward) {
  const auto a = op.attributes<PoolAttributes>();
  std::vector<AxisLink> links{same(0), same(1)};
  for (const int axis : {2, 3}) {
    const std::size_t i = place_of(axis);
    links.push_back(is_backward ? inverse_window(axis, a.stride[i], a.padding[i], a.kernel[i], 1)
                                : window(axis, a.stride[i], a.padding[i], a.kernel[i], 1));
  }
  return links;
}

IndexMap class_loss(Specs inputs, int input, int output) {
  if (input == 1) {
    return output == 0 ? IndexMap{.axes = {same(0)}} : IndexMap{.is_independent = true};
  }
  return {.axes = {same(0), whole(inputs[0].shape[1], output == 0 ? -1 : 1)}};
}

// Off the axis, x may be longer than the index, so these axes have no size class.
std::vector<AxisLink> gathered(const OpView& op, const Shape& in, int input) {
  const int axis = op.attributes<AxisAttributes>().axis;
  std::vector<AxisLink> links;
  for (int i = 0; i < in.rank(); ++i) {
    AxisLink link = input == 0 && i == axis ? whole(in[i]) : same(i);
    link.size_class = input == 0 ? -1 : i;
    links.push_back(link);
  }
  return links;
}

// The classes are those that source and index share.
std::vector<AxisLink> gathered_backward(const Shape& in, int axis) {
  std::vector<AxisLink> links;
  for (int i = 0; i < in.rank(); ++i) {
    AxisLink link = i == axis ? whole(in[i]) : same(i);
    link.size_class = in.rank() + i;
    links.push_back(link);
  }
  return links;
}

std::vector<AxisLink> selected(const OpView& op, Specs inputs, int input, bool is_backward) {
  const int axis = op.attributes<AxisAttributes>().axis;
  const Shape& values = inputs[0].shape;
  const AxisLink along = whole(values[axis], is_backward ? values.rank() : -1);
  if (input == 0) {
    return all_but(values, axis, along);
  }
  return {is_backward ? along : same(axis)};
}

// Links of attention's operands. A query reads all keys of its group's head. A gradient of keys or
// values reads all queries of the group.
class AttentionLinks {
 public:
  AttentionLinks(const Shape& q, const Shape& k) : rank_(q.rank()) {
    if (rank_ > 2 && k[rank_ - 3] > 0) {
      group_ = q[rank_ - 3] / k[rank_ - 3];
    }
  }

  /// Keys or values, for one query.
  [[nodiscard]] std::vector<AxisLink> keys_of_query(const Shape& in, bool keeps_column) const {
    return of(
        in, affine(0, {.axis = rank_ - 3, .divisor = group_}), whole(in[rank_ - 2]), keeps_column);
  }
  /// Queries and other per-query operands, for one key.
  [[nodiscard]] std::vector<AxisLink> queries_of_key(const Shape& in, bool keeps_column) const {
    return of(in, heads_of_group(), whole(in[rank_ - 2]), keeps_column);
  }
  /// Operands with the result's own row.
  [[nodiscard]] std::vector<AxisLink> own_row(const Shape& in) const {
    return of(in, same(rank_ - 3), same(rank_ - 2), false);
  }
  [[nodiscard]] std::vector<AxisLink> mask(const Shape& in, bool is_of_key) const {
    std::vector<AxisLink> links;
    const int before = rank_ - in.rank();  // axes that the mask lacks
    for (int i = 0; i < in.rank(); ++i) {
      const int axis = before + i;
      if (in[i] == 1) {
        links.push_back(repeated());
      } else if (axis == rank_ - 1) {
        links.push_back(is_of_key ? unclassed(same(rank_ - 2)) : whole(in[i]));
      } else if (axis == rank_ - 2 && is_of_key) {
        links.push_back(whole(in[i]));
      } else {
        links.push_back(axis == rank_ - 3 && is_of_key ? heads_of_group() : same(axis));
      }
    }
    return links;
  }

 private:
  static AxisLink unclassed(AxisLink link) {
    link.size_class = -1;
    return link;
  }
  [[nodiscard]] AxisLink heads_of_group() const {
    AxisLink link = affine(0, {.axis = rank_ - 3, .step = group_});
    link.reach = group_;
    return link;
  }
  [[nodiscard]] std::vector<AxisLink> of(const Shape& in,
                                         const AxisLink& heads,
                                         const AxisLink& rows,
                                         bool keeps_column) const {
    std::vector<AxisLink> links;
    for (int axis = 0; axis < in.rank(); ++axis) {
      if (axis < rank_ - 3) {
        links.push_back(same(axis));
      } else if (axis == rank_ - 3) {
        links.push_back(heads);
      } else if (axis == rank_ - 2) {
        links.push_back(rows);
      } else {
        links.push_back(keeps_column ? same(axis) : whole(in[axis]));
      }
    }
    return links;
  }

  int rank_;
  std::int64_t group_ = 1;
};

IndexMap attention(Specs inputs, int input, int output) {
  const AttentionLinks links(inputs[0].shape, inputs[1].shape);
  const Shape& in = inputs[static_cast<std::size_t>(input)].shape;
  switch (input) {
    case 0:
      return {.axes = links.own_row(in)};
    case 1:
      return {.axes = links.keys_of_query(in, false)};
    case 2:
      return output == 0 ? IndexMap{.axes = links.keys_of_query(in, true)}
                         : IndexMap{.is_independent = true};
    default:
      return {.axes = links.mask(in, false)};
  }
}

IndexMap attention_backward(Specs inputs, int input, int output) {
  constexpr int kGradient = 0;
  constexpr int kQueries = 1;
  constexpr int kKeys = 2;
  constexpr int kValues = 3;
  constexpr int kResult = 4;
  constexpr int kStatistics = 5;
  const AttentionLinks links(inputs[kQueries].shape, inputs[kKeys].shape);
  const Shape& in = inputs[static_cast<std::size_t>(input)].shape;
  const bool is_of_values = output == 2;
  if (is_of_values && (input == kValues || input == kResult)) {
    return {.is_independent = true};
  }
  if (input > kStatistics) {
    return {.axes = links.mask(in, output != 0)};
  }
  const bool has_keys = input == kKeys || input == kValues;
  if (has_keys == (output != 0)) {
    return {.axes = links.own_row(in)};
  }
  return {.axes = has_keys ? links.keys_of_query(in, false)
                           : links.queries_of_key(in, is_of_values && input == kGradient)};
}

}  // namespace

std::int64_t AffineIndex::at(std::span<const std::int64_t> index) const noexcept {
  std::int64_t sum = start;
  for (const IndexTerm& term : terms) {
    const std::int64_t part = index[static_cast<std::size_t>(term.axis)] / term.divisor;
    sum += term.step * (term.modulus == 0 ? part : part % term.modulus);
  }
  return sum;
}

bool AffineIndex::is_plain() const noexcept {
  return start == 0 && terms.size() == 1 && terms[0] == IndexTerm{.axis = terms[0].axis};
}

IndexMap index_map(
    IndexRule rule, const OpView& op, Specs inputs, Specs outputs, int input, int output) {
  const Shape& in = inputs[static_cast<std::size_t>(input)].shape;
  const Shape& out = outputs[static_cast<std::size_t>(output)].shape;
  switch (rule) {
    case IndexRule::elementwise:
      return {.axes = broadcast_links(in, out)};
    case IndexRule::row_major:
      return {.is_row_major = true};
    case IndexRule::permuted:
      return {.axes = permuted(op, in)};
    case IndexRule::sliced:
    case IndexRule::scattered:
      return {.axes = sliced(op, in, rule == IndexRule::scattered)};
    case IndexRule::concatenated:
      return {.axes = concatenated(op, inputs, input)};
    case IndexRule::reduced: {
      const auto attributes = op.attributes<ReduceAttributes>();
      return {.axes = reduced(in, attributes.axes, attributes.keep_dims != 0)};
    }
    case IndexRule::reduced_axis: {
      const auto attributes = op.attributes<AxisAttributes>();
      const auto mask = 1U << static_cast<unsigned>(attributes.axis);
      return {.axes = reduced(in, mask, attributes.keep_dims != 0)};
    }
    case IndexRule::row_of_first:
    case IndexRule::row: {
      if (rule == IndexRule::row_of_first && input > 0) {
        return {.axes = broadcast_links(in, out)};
      }
      const int axis = op.attributes<AxisAttributes>().axis;
      return {.axes = all_but(in, axis, whole(in[axis], axis))};
    }
    case IndexRule::scanned:
      return {.axes = scanned(op, in)};
    case IndexRule::matmul:
      return {.axes = matmul(inputs, out, input)};
    case IndexRule::conv2d:
      return {.axes = conv2d(op, inputs, input)};
    case IndexRule::conv2d_backward_input:
      return {.axes = conv2d_backward_input(op, inputs, out, input)};
    case IndexRule::conv2d_backward_weight:
      return {.axes = conv2d_backward_weight(op, inputs, out, input)};
    case IndexRule::window:
    case IndexRule::window_backward:
      return {.axes = pool(op, rule == IndexRule::window_backward)};
    case IndexRule::plane_backward:
      return {.axes = {same(0), same(1), whole(in[2]), whole(in[3])}};
    case IndexRule::class_loss:
      return class_loss(inputs, input, output);
    case IndexRule::class_loss_backward:
      return input == 1 ? IndexMap{.axes = {same(0), same(1)}} : IndexMap{.axes = {same(0)}};
    case IndexRule::gathered:
      return {.axes = gathered(op, in, input)};
    case IndexRule::gathered_backward:
      return {.axes = gathered_backward(in, op.attributes<AxisAttributes>().axis)};
    case IndexRule::scattered_updates:
      return {.axes = input == 0 ? broadcast_links(in, out)
                                 : gathered_backward(in, op.attributes<ScatterAttributes>().axis)};
    case IndexRule::selected:
    case IndexRule::selected_backward:
      return {.axes = selected(op, inputs, input, rule == IndexRule::selected_backward)};
    case IndexRule::top: {
      const int axis = op.attributes<TopkAttributes>().axis;
      return {.axes = all_but(in, axis, whole(in[axis]))};
    }
    case IndexRule::attention:
      return attention(inputs, input, output);
    case IndexRule::attention_backward:
      return attention_backward(inputs, input, output);
    case IndexRule::none:
      break;
  }
  HEARTH_ASSERT(false, "an op without an index rule");
  return {.is_independent = true};
}

IndexMap index_map(const OpView& op, Specs inputs, Specs outputs, int input, int output) {
  return index_map(op_facts(op.kind()).index_rule, op, inputs, outputs, input, output);
}

// ---- the meaning of a map ----

namespace {

std::int64_t place_in(const Shape& shape, std::span<const std::int64_t> index) {
  std::int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    place = place * shape[axis] + index[static_cast<std::size_t>(axis)];
  }
  return place;
}

bool reads_along(const AxisLink& link,
                 int axis,
                 std::span<const std::int64_t> input_index,
                 std::span<const std::int64_t> output_index) {
  const bool is_inverse = link.inverse_of >= 0;
  std::int64_t from = 0;
  if (is_inverse) {  // the terms refer to the input's axis, numbered as the result's
    std::array<std::int64_t, kMaxRank> own{};
    own[static_cast<std::size_t>(link.inverse_of)] = input_index[static_cast<std::size_t>(axis)];
    from = link.index.at(own);
  } else {
    from = link.index.at(output_index);
  }
  const std::int64_t to = is_inverse ? output_index[static_cast<std::size_t>(link.inverse_of)]
                                     : input_index[static_cast<std::size_t>(axis)];
  for (std::int64_t k = 0; k < link.reach; ++k) {
    if (from + k * link.reach_step == to) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool reads(const IndexMap& map,
           const Shape& input,
           const Shape& output,
           std::span<const std::int64_t> input_index,
           std::span<const std::int64_t> output_index) {
  if (map.is_independent) {
    return false;
  }
  if (map.is_row_major) {
    return place_in(input, input_index) == place_in(output, output_index);
  }
  for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
    if (!reads_along(map.axes[axis], static_cast<int>(axis), input_index, output_index)) {
      return false;
    }
  }
  return true;
}

}  // namespace hearth
