#include <hearth/backends/reference/reference.hpp>

#include "evaluators.hpp"

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace hearth::reference {
namespace {

using Evaluator = Status (*)(const KernelCall& call);

Evaluator evaluator(OpKind kind) {
  switch (kind) {
    case OpKind::fill:
    case OpKind::arange:
    case OpKind::random_uniform:
    case OpKind::random_normal:
    case OpKind::random_bernoulli:
      return evaluate_creation;
    case OpKind::cast:
      return evaluate_cast;
    case OpKind::neg:
    case OpKind::abs:
    case OpKind::exp:
    case OpKind::log:
    case OpKind::sqrt:
    case OpKind::rsqrt:
    case OpKind::square:
    case OpKind::sin:
    case OpKind::cos:
    case OpKind::tanh:
    case OpKind::erf:
    case OpKind::sigmoid:
    case OpKind::recip:
    case OpKind::relu:
    case OpKind::log1p:
    case OpKind::expm1:
    case OpKind::floor:
    case OpKind::ceil:
    case OpKind::round:
    case OpKind::trunc:
    case OpKind::atan:
      return evaluate_unary;
    case OpKind::dropout:
      return evaluate_dropout;
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::pow:
    case OpKind::min:
    case OpKind::max:
    case OpKind::relu_backward:
    case OpKind::atan2:
    case OpKind::bitwise_and:
    case OpKind::bitwise_or:
    case OpKind::bitwise_xor:
    case OpKind::shift_left:
    case OpKind::shift_right:
      return evaluate_arithmetic;
    case OpKind::equal:
    case OpKind::not_equal:
    case OpKind::less:
    case OpKind::less_equal:
    case OpKind::greater:
    case OpKind::greater_equal:
      return evaluate_comparison;
    case OpKind::where:
    case OpKind::copy:
    case OpKind::concat:
    case OpKind::slice_scatter:
      return evaluate_movement;
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::reduce_prod:
    case OpKind::argmax:
    case OpKind::argmin:
      return evaluate_reduction;
    case OpKind::cumsum:
    case OpKind::cumprod:
    case OpKind::cummax:
    case OpKind::cummin:
      return evaluate_scan;
    case OpKind::matmul:
      return evaluate_matmul;
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::conv2d_backward_weight:
      return evaluate_convolution;
    case OpKind::max_pool2d:
    case OpKind::max_pool2d_backward:
    case OpKind::avg_pool2d:
    case OpKind::avg_pool2d_backward:
      return evaluate_pooling;
    case OpKind::softmax:
    case OpKind::log_softmax:
    case OpKind::softmax_backward:
    case OpKind::log_softmax_backward:
      return evaluate_softmax;
    case OpKind::cross_entropy:
    case OpKind::cross_entropy_backward:
      return evaluate_cross_entropy;
    case OpKind::sgd_step:
    case OpKind::adam_step:
      return evaluate_optimizer;
    case OpKind::expression:
      return evaluate_expression;
    case OpKind::custom:
      return evaluate_custom;
    case OpKind::gather:
    case OpKind::index_select:
    case OpKind::scatter_add:
    case OpKind::index_add:
      return evaluate_indexing;
    case OpKind::scatter:
      return evaluate_scatter;
    case OpKind::topk:
      return evaluate_topk;
    case OpKind::attention:
    case OpKind::attention_backward:
      return evaluate_attention;
    case OpKind::reshape:
    case OpKind::permute:
    case OpKind::slice:
    case OpKind::expand:
    case OpKind::upload:
    case OpKind::readback:
    case OpKind::lend:
    case OpKind::drop:
    case OpKind::publish:
    case OpKind::adopt:
    case OpKind::group_begin:
    case OpKind::group_end:
    case OpKind::sync:
    case OpKind::limit:
      return nullptr;
  }
  return nullptr;
}

/// Returns the operand whose dtype the op table's type mask restricts: the result of creation, the
/// values of `where`, else the first input.
const TensorView& typed_operand(const KernelCall& call) {
  if (call.inputs.empty()) {
    return call.outputs[0];
  }
  return call.inputs[call.op.kind() == OpKind::where ? 1 : 0];
}

// Returns the size of the dense copies of all operands.
std::int64_t dense_bytes(const KernelCall& call) {
  const std::int64_t largest = call.outputs[0].element_count();
  std::int64_t elements = 0;
  for (const TensorView& in : call.inputs) {
    elements += std::max(in.element_count(), largest);  // a broadcast input grows
  }
  for (const TensorView& out : call.outputs) {
    elements += out.element_count();
  }
  return elements * std::int64_t{sizeof(double)};
}

}  // namespace

KernelFacts kernel_facts() noexcept {
  KernelFacts facts({.aliased_inputs = KindFacts::kAllInputs, .takes_epilogue = true});
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const bool is_pool = kind == OpKind::max_pool2d || kind == OpKind::avg_pool2d;
    const bool folds = op_facts(kind).fusion == FusionClass::reduce;
    KindFacts& of_kind = facts.of(kind);
    of_kind.prologue_inputs = 1;  // input 0
    const auto set = [&](OpKind producer, bool may_make) {
      of_kind.prologue_makers[static_cast<std::size_t>(producer)] = may_make;
    };
    set(OpKind::expression,
        is_pool || folds || kind == OpKind::matmul || kind == OpKind::attention);
    set(OpKind::conv2d, is_pool);
    set(OpKind::cross_entropy, folds);
  }
  return facts;
}

Support supports(const KernelCall& call) {
  if (call.prologue != nullptr) {
    const KernelCall& producer = *call.prologue->call;
    KernelCall op = call;
    op.prologue = nullptr;
    const Support made = supports(producer);
    return producer.outputs.size() != 1
               ? Support{.yes = false, .reason = "a prologue with several results"}
           : made.yes ? supports(op)
                      : made;
  }
  if (call.epilogue != nullptr) {
    return call.op.record().output_count == 1
               ? Support{}
               : Support{.yes = false, .reason = "an epilogue of an op with several results"};
  }
  const OpInfo& info = op_info(call.op.kind());
  if (evaluator(info.kind) == nullptr) {
    return {.yes = false, .reason = fmt::format("{} never reaches a kernel", info.name)};
  }
  const std::size_t inputs = call.inputs.size();
  const std::size_t outputs = call.outputs.size();
  const bool too_many = info.max_inputs != kAnyNumber && inputs > info.max_inputs;
  if (inputs < info.min_inputs || too_many || outputs == 0 || outputs > info.outputs) {
    return {.yes = false,
            .reason = fmt::format("{} with {} inputs and {} outputs", info.name, inputs, outputs)};
  }
  if (info.kind == OpKind::expression && call.expression == nullptr) {
    return {.yes = false, .reason = "expression without the function that it stands for"};
  }
  if (info.kind == OpKind::custom && call.custom == nullptr) {
    return {.yes = false, .reason = "custom without the code that it stands for"};
  }
  const DType dtype = typed_operand(call).dtype;
  if (!accepts(info.kind, dtype)) {
    return {.yes = false,
            .reason =
                fmt::format("{} takes {}, not {}", info.name, describe(info.dtypes), name(dtype))};
  }
  return {};
}

Status evaluate(const KernelCall& call) {
  if (Support support = supports(call); !support.yes) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "reference: " + support.reason,
                 .op = std::string(name(call.op.kind()))};
  }
  // The dense copies lie outside the device's budget: check the machine's free memory.
  if (const std::int64_t bytes = dense_bytes(call); !has_host_room(bytes)) {
    return detail::no_host_memory(name(call.op.kind()), static_cast<std::size_t>(bytes));
  }
  if (call.prologue != nullptr) {
    return evaluate_with_prologue(call);
  }
  return call.epilogue != nullptr ? evaluate_with_epilogue(call) : evaluator(call.op.kind())(call);
}

}  // namespace hearth::reference
