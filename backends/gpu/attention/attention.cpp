// Attention. Forward, a workgroup has a tile of queries and loops over the keys, with the running
// maximum and sum of each query. If the queries are too few to fill the device, the keys are split,
// and a second dispatch combines the parts. Backward needs no atomics. One pass has tiles of
// queries and loops over the keys for the gradient of q. Another has tiles of keys and loops over
// the queries for the gradients of k and v. Both recompute the weights from each row's largest
// score and sum. Heads that share keys are rows of one matrix, so a tile of keys is read once for
// all of them.
#include "attention.hpp"

#include "attention_operands.hpp"
#include "attention_shader.hpp"

namespace hearth::gpu {
namespace {

Status refuse_attention_guard() {
  return Error{.code = ErrorCode::unsupported, .text = "attention joins no update group"};
}

}  // namespace

Status encode_attention(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return refuse_attention_guard();
  }
  const bool has_statistics = call.outputs.size() > 1 && call.outputs[1].element_count() > 0;
  if (call.outputs[0].element_count() == 0 && !has_statistics) {
    return {};
  }
  AttentionOperands operands(call, 0, 3);
  operands.finish();
  return encode_attention_pass(AttentionPass::forward,
                               operands,
                               {.first = address_of(call.outputs[0]),
                                .second = has_statistics ? address_of(call.outputs[1]) : 0},
                               encoder);
}

Status encode_attention_backward(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return refuse_attention_guard();
  }
  AttentionOperands operands(call, 1, 6);
  operands.add_rows(AttentionOperands::grad, call.inputs[0]);
  operands.add_rows(AttentionOperands::y, call.inputs[4]);
  operands.add_rows(AttentionOperands::statistics, call.inputs[5]);
  operands.finish();
  const std::int64_t rows = operands.heads.count() * operands.rows();
  AttentionResults results;
  if (rows > 0) {
    HEARTH_TRY(const std::uint64_t means, encoder.scratch(rows * 8));
    results.means = means;
    HEARTH_TRY_STATUS(encode_attention_means(operands, means, encoder));
    encoder.barrier();
  }
  if (call.outputs[0].element_count() > 0) {
    results.first = address_of(call.outputs[0]);
    HEARTH_TRY_STATUS(
        encode_attention_pass(AttentionPass::query_grads, operands, results, encoder));
  }
  if (call.outputs[1].element_count() > 0 || call.outputs[2].element_count() > 0) {
    results.first = address_of(call.outputs[1]);
    results.second = address_of(call.outputs[2]);
    HEARTH_TRY_STATUS(encode_attention_pass(AttentionPass::key_grads, operands, results, encoder));
  }
  return {};
}

Support supports_attention(const KernelCall& call, const DeviceLimits& limits) {
  if (call.inputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  return {};
}

}  // namespace hearth::gpu
