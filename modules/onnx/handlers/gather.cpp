// Elements and slices at positions that a tensor holds.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace hearth::onnx {
namespace gather_ops {
namespace {

// ONNX counts negative indices from the end; the device's ops do not. If the host knows that there
// are none, nothing is computed.
Tensor from_the_front(Call& call, std::size_t i, std::int64_t size) {
  const OnnxValue& value = call.value(i);
  if (value.has_host()) {
    const std::vector<std::int64_t>& known = value.host().integers();
    if (std::ranges::none_of(known, [](std::int64_t at) { return at < 0; })) {
      return call.take(i);
    }
  }
  const Tensor index = call.take(i);
  return where(less(index, 0), add(index, size), index);
}

void gather_slices(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const int axis = call.axis(call.node().integer("axis", 0), shape.rank());
  const Shape places = call.shape(1);
  const Tensor index = from_the_front(call, 1, shape[axis]);
  Tensor taken = index_select(call.take(0), axis, reshape(index, {places.element_count()}));
  Sizes sizes = sizes_of(shape);
  sizes.erase(sizes.begin() + axis);
  sizes.insert(sizes.begin() + axis, places.dims().begin(), places.dims().end());
  call.give(reshape(std::move(taken), sizes), type);
}

void gather_elements(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  const Tensor index = from_the_front(call, 1, call.shape(0)[axis]);
  call.give(gather(call.take(0), axis, index), type);
}

// Joins the indices of the last axis into positions among the first axes of x, as one axis. An
// index outside its axis makes a position outside of all, so that it does not name another element.
Tensor joined_positions(Call& call, const Shape& shape, int batch_axes, int depth) {
  const Tensor index = cast(call.take(1), DType::i64);
  Tensor position;
  Tensor outside;
  for (int i = 0; i < depth; ++i) {
    const std::int64_t size = shape[batch_axes + i];
    Tensor along = squeeze(slice(index, -1, {.start = i, .stop = i + 1}), -1);
    along = where(less(along, 0), add(along, size), along);
    if (depth > 1) {
      const Tensor is_outside = logical_or(less(along, 0), greater_equal(along, size));
      outside = outside.is_valid() ? logical_or(outside, is_outside) : is_outside;
    }
    position = position.is_valid() ? add(mul(position, size), along) : along;
  }
  return outside.is_valid() ? where(outside, -1, position) : position;
}

std::int64_t count_between(const Shape& shape, int begin, int end) {
  std::int64_t count = 1;
  for (int i = begin; i < end; ++i) {
    count *= shape[i];
  }
  return count;
}

void gather_nd(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const Shape places = call.shape(1);
  const int batch_axes = static_cast<int>(call.node().integer("batch_dims", 0));
  const int depth = places.rank() == 0 ? 0 : static_cast<int>(places[-1]);
  if (batch_axes < 0 || batch_axes >= places.rank() || batch_axes + depth > shape.rank() ||
      depth < 1) {
    call.refuse("indices {} do not fit {} with {} batch axes",
                places.to_string(),
                shape.to_string(),
                batch_axes);
  }
  const std::int64_t batch = count_between(shape, 0, batch_axes);
  const std::int64_t selectable = count_between(shape, batch_axes, batch_axes + depth);
  const std::int64_t rest = count_between(shape, batch_axes + depth, shape.rank());
  Tensor position = joined_positions(call, shape, batch_axes, depth);
  position = reshape(std::move(position), {batch, -1});
  const double count = static_cast<double>(batch);
  const Tensor first = mul(arange(call.device(), 0, count, 1, DType::i64), selectable);
  position = reshape(add(std::move(position), reshape(first, {batch, 1})), {-1});
  const Tensor rows = reshape(call.take(0), {batch * selectable, rest});
  Sizes sizes(places.dims().begin(), places.dims().end() - 1);
  const std::vector<std::int64_t> all = sizes_of(shape);
  sizes.insert(sizes.end(), all.begin() + batch_axes + depth, all.end());
  call.give(reshape(index_select(rows, 0, position), sizes), type);
}

std::optional<ScatterMode> mode_of(const NodeInfo& node) {
  constexpr std::array<std::pair<std::string_view, ScatterMode>, kScatterModeCount> kModes{{
      {"none", ScatterMode::set},
      {"add", ScatterMode::add},
      {"mul", ScatterMode::mul},
      {"min", ScatterMode::min},
      {"max", ScatterMode::max},
  }};
  const std::string reduction = node.text("reduction", "none");
  for (const auto& [name, mode] : kModes) {
    if (name == reduction) {
      return mode;
    }
  }
  return std::nullopt;
}

std::string check_scatter(const NodeInfo& node) {
  return mode_of(node) ? std::string{}
                       : fmt::format("reduction '{}' is neither none, add, mul, min nor max",
                                     node.text("reduction", "none"));
}

void scatter_elements(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  const Tensor index = from_the_front(call, 1, call.shape(0)[axis]);
  const ScatterOptions options{.mode = *mode_of(call.node())};
  call.give_wrapped(scatter(call.take(0), axis, index, call.take(2), options), type);
}

void scatter_nd(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const int depth = static_cast<int>(call.shape(1)[-1]);
  const Tensor position = reshape(joined_positions(call, shape, 0, depth), {-1, 1});
  const std::int64_t rows = count_between(shape, 0, depth);
  const std::int64_t rest = count_between(shape, depth, shape.rank());
  const Shape slices{position.size(0), rest};
  const Tensor updates = reshape(call.take(2), slices);
  Tensor flat = reshape(call.take(0), {rows, rest});
  const ScatterOptions options{.mode = *mode_of(call.node())};
  flat = scatter(std::move(flat), 0, expand(position, slices), updates, options);
  call.give_wrapped(reshape(std::move(flat), shape), type);
}

// The sizes that the window's strides and pads give; the positions count in that tensor. A given
// shape may be larger, with zeros at its ends.
void max_unpool(Call& call) {
  const OnnxType type = call.type(0);
  const Shape from = call.shape(0);
  const int spatial = from.rank() - 2;
  const auto given = [&](std::string_view attribute, std::size_t i, std::int64_t otherwise) {
    const std::vector<std::int64_t>* const values = call.node().integers(attribute);
    return values == nullptr || i >= values->size() ? otherwise : (*values)[i];
  };
  Sizes sizes = sizes_of(from);
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sizes[at + 2] = (from[i + 2] - 1) * given("strides", at, 1) + given("kernel_shape", at, 1) -
                    given("pads", at, 0) - given("pads", at + static_cast<std::size_t>(spatial), 0);
  }
  const Shape whole = make_shape(sizes).value();
  const Tensor positions = reshape(call.take(1), {-1});
  Tensor values = reshape(call.take(0), {-1});
  Tensor y = zeros(call.device(), {whole.element_count()}, values.dtype());
  y = scatter(std::move(y), 0, positions, std::move(values));
  y = reshape(std::move(y), sizes);
  if (call.has(2)) {
    const Sizes wanted = call.integers(2);
    std::vector<PadAxis> behind;
    for (int axis = 2; axis < from.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      behind.push_back({.axis = axis, .after = wanted.at(at) - sizes[at]});
    }
    y = pad(std::move(y), behind);
  }
  call.give(std::move(y), type);
}

// Row i of each sequence comes from row length - 1 - i, behind its length from itself.
void reverse_sequence(Call& call) {
  const OnnxType type = call.type(0);
  const int batch_axis = static_cast<int>(call.node().integer("batch_axis", 1));
  const int time_axis = static_cast<int>(call.node().integer("time_axis", 0));
  const Shape shape = call.shape(0);
  const Tensor lengths = along_axis(cast(call.take(1), DType::i64), shape.rank(), batch_axis);
  const auto steps = static_cast<double>(shape[time_axis]);
  const Tensor step =
      along_axis(arange(call.device(), 0, steps, 1, DType::i64), shape.rank(), time_axis);
  Tensor index = where(less(step, lengths), sub(sub(lengths, 1), step), step);
  index = contiguous(expand(std::move(index), shape));
  call.give(gather(call.take(0), time_axis, index), type);
}

constexpr OpRow kRows[] = {
    {.op = "Gather", .run = gather_slices, .on_host = gather_on_host},
    {.op = "GatherElements", .since = 11, .run = gather_elements},
    {.op = "GatherND", .since = 11, .run = gather_nd},
    {.op = "ScatterElements", .since = 11, .run = scatter_elements, .check = check_scatter},
    {.op = "Scatter", .since = 9, .run = scatter_elements, .check = check_scatter},
    {.op = "ScatterND", .since = 11, .run = scatter_nd, .check = check_scatter},
    {.op = "MaxUnpool", .since = 9, .run = max_unpool, .host_inputs = inputs(2)},
    {.op = "ReverseSequence", .since = 10, .run = reverse_sequence},
};

}  // namespace
}  // namespace gather_ops

std::span<const OpRow> gather_rows() {
  return gather_ops::kRows;
}

}  // namespace hearth::onnx
