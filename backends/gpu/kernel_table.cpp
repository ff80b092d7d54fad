#include "kernel_table.hpp"

#include <array>

#include <fmt/format.h>

#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/attention/attention.hpp"
#include "backends/gpu/movement/indexing.hpp"
#include "backends/gpu/movement/movement.hpp"
#include "backends/gpu/pointwise/custom.hpp"
#include "backends/gpu/pointwise/expression.hpp"
#include "backends/gpu/pointwise/pointwise.hpp"
#include "backends/gpu/products/convolution.hpp"
#include "backends/gpu/products/matmul.hpp"
#include "backends/gpu/products/pooling.hpp"
#include "backends/gpu/rows/cross_entropy.hpp"
#include "backends/gpu/rows/reduction.hpp"
#include "backends/gpu/rows/scan.hpp"
#include "backends/gpu/rows/softmax.hpp"
#include "backends/gpu/rows/topk.hpp"

namespace hearth::gpu {
namespace {

// One row a kind, in the order of OpKind.
std::array<KernelRow, kOpKindCount> make_rows() noexcept {
  std::array<KernelRow, kOpKindCount> rows{};
  const auto set = [&rows](OpKind kind, KernelRow row) {
    rows[static_cast<std::size_t>(kind)] = row;
  };
  const auto in_place = [](OpKind, int) noexcept { return true; };
  for (int i = 0; i < kOpKindCount; ++i) {
    if (has_expression(static_cast<OpKind>(i))) {
      set(static_cast<OpKind>(i), {encode_elementwise, supports_elementwise, in_place});
    }
  }
  set(OpKind::expression, {encode_expression, supports_expression, in_place});
  set(OpKind::custom, {.encode = encode_custom});
  set(OpKind::copy, {.encode = encode_copy, .may_alias = copy_may_alias});
  set(OpKind::concat, {.encode = encode_concat});
  set(OpKind::slice_scatter, {.encode = encode_slice_scatter});
  set(OpKind::gather, {.encode = encode_pick, .supports = supports_indexing});
  set(OpKind::index_select, {.encode = encode_pick, .supports = supports_indexing});
  set(OpKind::scatter_add, {.encode = encode_add_at, .supports = supports_indexing});
  set(OpKind::index_add, {.encode = encode_add_at, .supports = supports_indexing});
  set(OpKind::scatter,
      {.encode = encode_scatter, .supports = supports_indexing, .may_alias = scatter_may_alias});
  for (const OpKind kind : {OpKind::cumsum, OpKind::cumprod, OpKind::cummax, OpKind::cummin}) {
    set(kind, {.encode = encode_scan, .supports = supports_scan, .may_alias = scan_may_alias});
  }
  set(OpKind::topk, {.encode = encode_topk, .supports = supports_topk});
  set(OpKind::max_pool2d, {.encode = encode_pool, .supports = supports_pooling});
  set(OpKind::avg_pool2d, {.encode = encode_pool, .supports = supports_pooling});
  set(OpKind::max_pool2d_backward,
      {.encode = encode_max_pool_backward, .supports = supports_pooling});
  set(OpKind::avg_pool2d_backward,
      {.encode = encode_avg_pool_backward, .supports = supports_pooling});
  for (const OpKind kind : {OpKind::reduce_sum,
                            OpKind::reduce_mean,
                            OpKind::reduce_max,
                            OpKind::reduce_min,
                            OpKind::reduce_prod,
                            OpKind::argmax,
                            OpKind::argmin}) {
    set(kind, {.encode = encode_reduction, .supports = supports_reduction});
  }
  for (const OpKind kind : {OpKind::softmax,
                            OpKind::log_softmax,
                            OpKind::softmax_backward,
                            OpKind::log_softmax_backward}) {
    set(kind,
        {.encode = encode_softmax, .supports = supports_softmax, .may_alias = softmax_may_alias});
  }
  set(OpKind::cross_entropy, {.encode = encode_cross_entropy, .supports = supports_cross_entropy});
  set(OpKind::cross_entropy_backward,
      {.encode = encode_cross_entropy_backward,
       .supports = supports_cross_entropy,
       .may_alias = cross_entropy_may_alias});
  set(OpKind::matmul,
      {.encode = encode_matmul, .supports = supports_matmul, .takes_epilogue = true});
  set(OpKind::attention, {.encode = encode_attention, .supports = supports_attention});
  set(OpKind::attention_backward,
      {.encode = encode_attention_backward, .supports = supports_attention});
  for (const OpKind kind : {OpKind::conv2d, OpKind::conv2d_backward_input}) {
    set(kind,
        {.encode = encode_convolution, .supports = supports_convolution, .takes_epilogue = true});
  }
  set(OpKind::conv2d_backward_weight,
      {.encode = encode_convolution, .supports = supports_convolution});
  return rows;
}

}  // namespace

const KernelRow& kernel_row(OpKind kind) noexcept {
  static const std::array<KernelRow, kOpKindCount> kRows = make_rows();
  return kRows[static_cast<std::size_t>(kind)];
}

Support supports_kernel(const KernelCall& call, const DeviceLimits& limits) {
  const OpKind kind = call.op.kind();
  const KernelRow& row = kernel_row(kind);
  if (row.encode == nullptr) {
    return {.yes = false,
            .reason = fmt::format("{}: GPU devices have no kernel for this op", name(kind))};
  }
  if (call.epilogue != nullptr && !row.takes_epilogue) {
    return {.yes = false, .reason = fmt::format("{} with an epilogue", name(kind))};
  }
  return row.supports == nullptr ? Support{} : row.supports(call, limits);
}

}  // namespace hearth::gpu
