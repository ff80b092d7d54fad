#include "argmax.hpp"

#include "backends/cpu/elementwise/row_fetch.hpp"
#include "backends/cpu/fused/reduce_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kArgmaxGrain = std::int64_t{1} << 17;  // elements worth a fork
constexpr std::int64_t kArgmaxStrip = 256;

struct Argmax {
  const TensorView& in;
  std::int64_t* places;  // results, in row-major order of the kept axes
  std::int64_t axis_size;
  std::int64_t axis_step;
  Collapsed keep;  // kept axes; operand 0 is the input
  std::int64_t keep_count;
  ReduceLoops::Position position;
  ReduceLoops::Champions champions;
  IsaLevel isa;
};

// Computes one result at a time, along the axis.
void run_lines(const Argmax& op, KernelContext& context) {
  const RowSource source(op.in, op.axis_step, op.isa);
  const std::int64_t element = size_bytes(source.type);
  const std::int64_t grain = std::max<std::int64_t>(1, kArgmaxGrain / op.axis_size);
  context.arena.parallel_for(op.keep_count, grain, [&](std::int64_t begin, std::int64_t end) {
    RowBuffer<kArgmaxStrip> buffer;
    const std::int64_t inner = op.keep.inner_size();
    Place place(op.keep, begin / inner);
    std::int64_t column = begin % inner;
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t first = place.offset[0] + column * op.keep.inner_stride(0);
      const std::int64_t piece = source.is_direct() ? op.axis_size : kArgmaxStrip;
      std::byte best[8];
      for (std::int64_t at = 0; at < op.axis_size; at += piece) {
        const std::int64_t count = std::min(piece, op.axis_size - at);
        const std::byte* const row = buffer.fetch(source, first + at * op.axis_step, count);
        const std::int64_t found = op.position(row, count);
        if (at == 0) {
          std::memcpy(best, row + found * element, static_cast<std::size_t>(element));
          op.places[line] = found;
        } else {
          op.champions(best, op.places + line, row + found * element, at + found, 1);
        }
      }
      if (++column == inner) {
        column = 0;
        place.advance();
      }
    }
  });
}

// Computes strips of neighbouring results, row by row of the axis.
void run_strips(const Argmax& op, KernelContext& context) {
  const RowSource source(op.in, op.keep.inner_stride(0), op.isa);
  const auto element = static_cast<std::size_t>(size_bytes(source.type));
  const std::int64_t inner = op.keep.inner_size();
  const std::int64_t strips = (inner + kArgmaxStrip - 1) / kArgmaxStrip;
  const std::int64_t tasks = op.keep_count / inner * strips;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kArgmaxGrain / (op.axis_size * std::min(inner, kArgmaxStrip)));
  context.arena.parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    RowBuffer<kArgmaxStrip> buffer;
    alignas(64) std::byte best[kArgmaxStrip * 8];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / strips;
      const std::int64_t column = task % strips * kArgmaxStrip;
      const std::int64_t width = std::min(kArgmaxStrip, inner - column);
      const std::int64_t first = Place(op.keep, row).offset[0] + column * source.step;
      std::int64_t* const places = op.places + row * inner + column;
      std::fill_n(places, width, 0);
      std::memcpy(
          best, buffer.fetch(source, first, width), static_cast<std::size_t>(width) * element);
      for (std::int64_t i = 1; i < op.axis_size; ++i) {
        op.champions(best, places, buffer.fetch(source, first + i * op.axis_step, width), i, width);
      }
    }
  });
}

}  // namespace

Status run_argmax(const KernelCall& call, KernelContext& context) {
  const OpKind kind = call.op.kind();
  const bool is_max = kind == OpKind::argmax;
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  if (out.element_count() == 0) {
    return {};
  }
  if (in.element_count() == 0) {
    const std::string op(name(kind));
    return Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("{}: no elements to choose from in {}", op, in.shape().to_string()),
        .op = op};
  }
  Shape kept = in.shape();
  kept.set(axis, 1);
  const Strides strides[] = {in.strides()};
  const ReduceLoops& loops = reduce_loops(context.isa);
  const DType type = compute_dtype(in.dtype);
  const Argmax op{
      .in = in,
      .places = out.as<std::int64_t>(),
      .axis_size = in.shape()[axis],
      .axis_step = in.strides()[static_cast<std::size_t>(axis)],
      .keep = Collapsed(kept, strides),
      .keep_count = kept.element_count(),
      .position = ReduceLoops::at(is_max ? loops.largest_position : loops.smallest_position, type),
      .champions =
          ReduceLoops::at(is_max ? loops.largest_champions : loops.smallest_champions, type),
      .isa = context.isa};
  if (op.axis_step != 1 && op.keep.inner_stride(0) == 1 && op.keep.inner_size() > 1) {
    run_strips(op, context);
  } else {
    run_lines(op, context);
  }
  return {};
}

}  // namespace hearth::cpu
