// Orders, and results whose size depends on values: these wait for their inputs' elements.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"
#include "modules/onnx/host/host_layout.hpp"
#include "modules/onnx/host/host_search.hpp"

#include <hearth/runtime/selection_ops.hpp>

namespace hearth::onnx {
namespace search_ops {
namespace {

void top(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t count = call.opset() >= 10 ? call.integer(1) : call.node().integer("k", 1);
  const int axis = call.axis(call.node().integer("axis", -1), call.rank(0));
  const bool is_descending = call.node().integer("largest", 1) != 0;
  TopK result = topk(call.take(0), count, {.axis = axis, .descending = is_descending});
  call.give(0, std::move(result.values), type);
  call.give(1, OnnxValue(std::move(result.positions)));
}

// The condition waits; the elements stay on the device.
void compress(Call& call) {
  const OnnxType type = call.type(0);
  const Sizes flags = call.integers(1);
  Sizes chosen;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) {
      chosen.push_back(static_cast<std::int64_t>(i));
    }
  }
  Tensor x = call.take(0);
  if (!call.node().has("axis")) {
    x = reshape(std::move(x), {-1});
  }
  const int axis = call.axis(call.node().integer("axis", 0), x.rank());
  call.give(index_select(std::move(x), axis, positions_of(call, chosen)), type);
}

// The elements stay on the device; the wait is for the number of results.
void non_zero(Call& call) {
  ++call.context().sync_points;
  call.give(contiguous(transpose(nonzero(call.take(0), call.context().wait))));
}

void distinct(Call& call) {
  const OnnxType type = call.type(0);
  UniqueOptions options{.sorted = call.node().integer("sorted", 1) != 0,
                        .with_first = call.wants(1),
                        .with_inverse = call.wants(2),
                        .with_counts = call.wants(3)};
  if (call.node().has("axis")) {
    options.axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  }
  ++call.context().sync_points;
  UniqueValues found = hearth::unique(call.take(0), options, call.context().wait);
  call.give(0, std::move(found.values), type);
  if (options.with_first) {
    call.give(1, OnnxValue(std::move(found.first)));
  }
  if (options.with_inverse) {
    call.give(2, OnnxValue(reshape(std::move(found.inverse), {-1})));
  }
  if (options.with_counts) {
    call.give(3, OnnxValue(std::move(found.counts)));
  }
}

constexpr OpRow kRows[] = {
    {.op = "TopK", .run = top, .host_inputs = inputs(1)},
    {.op = "Compress",
     .since = 9,
     .run = compress,
     .on_host = compress_on_host,
     .host_inputs = inputs(1)},
    {.op = "NonZero",
     .since = 9,
     .run = non_zero,
     .on_host = non_zero_on_host,
     .host_inputs = inputs(0)},
    {.op = "Unique",
     .since = 11,
     .run = distinct,
     .on_host = unique_on_host,
     .host_inputs = inputs(0)},
    {.op = "NonMaxSuppression", .since = 10, .on_host = non_max_suppression_on_host},
    {.op = "Det", .since = 11, .on_host = determinant_on_host},
};

}  // namespace
}  // namespace search_ops

std::span<const OpRow> search_rows() {
  return search_ops::kRows;
}

}  // namespace hearth::onnx
