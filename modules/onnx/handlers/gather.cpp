// Elements and slices at positions that a tensor holds.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"

#include <algorithm>

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

// Joins the indices of the last axis into positions among the first axes of x, as one axis.
Tensor joined_positions(Call& call, const Shape& shape, int batch_axes, int depth) {
  const Tensor index = cast(call.take(1), DType::i64);
  Tensor position;
  for (int i = 0; i < depth; ++i) {
    const std::int64_t size = shape[batch_axes + i];
    Tensor along = squeeze(slice(index, -1, {.start = i, .stop = i + 1}), -1);
    along = where(less(along, 0), add(along, size), along);
    position = position.is_valid() ? add(mul(position, size), along) : along;
  }
  return position;
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

std::string check_scatter(const NodeInfo& node) {
  const std::string reduction = node.text("reduction", "none");
  return reduction == "add"
             ? std::string{}
             : fmt::format("reduction '{}': no op writes elements at indices", reduction);
}

void scatter_elements(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  const Tensor index = from_the_front(call, 1, call.shape(0)[axis]);
  call.give_wrapped(scatter_add(call.take(0), axis, index, call.take(2)), type);
}

void scatter_nd(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const int depth = static_cast<int>(call.shape(1)[-1]);
  const Tensor position = reshape(joined_positions(call, shape, 0, depth), {-1});
  const std::int64_t rows = count_between(shape, 0, depth);
  const std::int64_t rest = count_between(shape, depth, shape.rank());
  const Tensor updates = reshape(call.take(2), {position.element_count(), rest});
  const Tensor flat = reshape(call.take(0), {rows, rest});
  call.give_wrapped(reshape(index_add(flat, 0, position, updates), shape), type);
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

constexpr std::string_view kNeedsScatter =
    "reduction 'add' runs; others wait for an op that writes elements at indices";

constexpr OpRow kRows[] = {
    {.op = "Gather", .run = gather_slices, .on_host = gather_on_host},
    {.op = "GatherElements", .since = 11, .run = gather_elements},
    {.op = "GatherND", .since = 11, .run = gather_nd},
    {.op = "ScatterElements",
     .since = 11,
     .run = scatter_elements,
     .check = check_scatter,
     .help = kNeedsScatter},
    {.op = "Scatter",
     .since = 9,
     .run = scatter_elements,
     .check = check_scatter,
     .help = kNeedsScatter},
    {.op = "ScatterND",
     .since = 11,
     .run = scatter_nd,
     .check = check_scatter,
     .help = kNeedsScatter},
    {.op = "ReverseSequence", .since = 10, .run = reverse_sequence},
};

}  // namespace
}  // namespace gather_ops

std::span<const OpRow> gather_rows() {
  return gather_ops::kRows;
}

}  // namespace hearth::onnx
