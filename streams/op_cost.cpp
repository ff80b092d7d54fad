#include <cstddef>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

using Specs = std::span<const TensorSpec>;

double element_count(const TensorSpec& spec) noexcept {
  return static_cast<double>(spec.shape.element_count());
}

double size_bytes(Specs specs) noexcept {
  double bytes = 0;
  for (const TensorSpec& spec : specs) {
    bytes += element_count(spec) * static_cast<double>(hearth::size_bytes(spec.dtype));
  }
  return bytes;
}

double axis_size(const TensorSpec& spec, int axis) noexcept {
  return static_cast<double>(spec.shape[axis < 0 ? axis + spec.shape.rank() : axis]);
}

// One product and one sum for each weight that contributes to an element of the result.
double conv_flops(const TensorSpec& result, const TensorSpec& weight) noexcept {
  return 2.0 * element_count(result) * axis_size(weight, 1) * axis_size(weight, 2) *
         axis_size(weight, 3);
}

double pool_window(const OpView& op) noexcept {
  const auto attributes = op.attributes<PoolAttributes>();
  return static_cast<double>(attributes.kernel[0]) * static_cast<double>(attributes.kernel[1]);
}

double sgd_flops_per_element(const OpView& op, bool has_momentum) noexcept {
  const auto attributes = op.attributes<SgdAttributes>();
  const double decay = attributes.weight_decay != 0 ? 2 : 0;
  double momentum = 0;
  if (has_momentum) {
    momentum = 3 + (attributes.nesterov != 0 ? 2 : 0);
  }
  return 2 + decay + momentum;
}

double adam_flops_per_element(const OpView& op) noexcept {
  const auto attributes = op.attributes<AdamAttributes>();
  double decay = 0;
  if (attributes.weight_decay != 0) {
    decay = attributes.decoupled != 0 ? 1 : 2;
  }
  return 14 + decay;  // m 3, v 4, both corrections, root, epsilon, quotient, rate, difference
}

double flops_per_output_element(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::fill:
    case OpKind::copy:
    case OpKind::concat:
    case OpKind::slice_scatter:
      return 0;
    case OpKind::arange:
    case OpKind::random_uniform:
    case OpKind::random_normal:
    case OpKind::dropout:
      return 2;
    case OpKind::sigmoid:
    case OpKind::log1p:
    case OpKind::expm1:
    case OpKind::floor:
    case OpKind::ceil:
    case OpKind::round:
    case OpKind::trunc:
      return 4;
    case OpKind::atan2:
      return 24;
    default:
      return 1;
  }
}

double contraction_flops(const OpView& op, Specs inputs, Specs outputs) noexcept {
  const double bias = inputs.size() > 2 ? element_count(outputs[0]) : 0;
  switch (op.kind()) {
    case OpKind::conv2d:
      return conv_flops(outputs[0], inputs[1]) + bias;
    case OpKind::conv2d_backward_input:
      return conv_flops(inputs[0], inputs[1]);
    case OpKind::conv2d_backward_weight:
      return conv_flops(inputs[1], outputs[0]);
    default:
      return 2.0 * element_count(outputs[0]) * axis_size(inputs[0], -1) + bias;
  }
}

double pooling_flops(const OpView& op, Specs inputs, Specs outputs) noexcept {
  switch (op.kind()) {
    case OpKind::max_pool2d_backward:
      return element_count(inputs[0]);
    case OpKind::avg_pool2d_backward:
      return element_count(inputs[0]) * pool_window(op);
    default:
      return element_count(outputs[0]) * pool_window(op);
  }
}

double row_flops(const OpView& op, Specs inputs, Specs outputs) noexcept {
  switch (op.kind()) {
    case OpKind::softmax_backward:
    case OpKind::log_softmax_backward:
      return 4.0 * element_count(outputs[0]);
    case OpKind::cross_entropy_backward:
      return 2.0 * element_count(outputs[0]);
    case OpKind::cumsum:
    case OpKind::cumprod:
    case OpKind::cummax:
    case OpKind::cummin:
      return element_count(outputs[0]);
    case OpKind::topk:  // a comparison each
      return element_count(inputs[0]);
    default:
      return 5.0 * element_count(inputs[0]);  // maximum, difference, exponential, sum, quotient
  }
}

// Two products forward and five backward, with the softmax between. A causal mask halves nothing
// here.
double attention_flops(const OpView& op, Specs inputs) noexcept {
  const bool is_backward = op.kind() == OpKind::attention_backward;
  const TensorSpec& q = inputs[is_backward ? 1 : 0];
  const TensorSpec& v = inputs[is_backward ? 3 : 2];
  const double width = axis_size(q, -1);
  const double scores = width == 0 ? 0 : element_count(q) / width * axis_size(v, -2);
  const double products = is_backward ? 3 * width + 2 * axis_size(v, -1) : width + axis_size(v, -1);
  return scores * (2 * products + 5);
}

bool is_pick(OpKind kind) noexcept {
  return kind == OpKind::gather || kind == OpKind::index_select;
}

// One for each element that is joined with another.
double indexing_flops(const OpView& op, Specs inputs) noexcept {
  if (op.kind() == OpKind::scatter) {
    const bool moves = op.attributes<ScatterAttributes>().mode == ScatterMode::set;
    return moves ? 0 : element_count(inputs[2]);
  }
  return is_pick(op.kind()) ? 0 : element_count(inputs[0]);
}

double flops(const OpView& op, Specs inputs, Specs outputs) noexcept {
  switch (op_info(op.kind()).op_class) {
    case OpClass::view:
    case OpClass::lifetime:
      return 0;
    case OpClass::reduction:
      return element_count(inputs[0]);
    case OpClass::contraction:
      return contraction_flops(op, inputs, outputs);
    case OpClass::pooling:
      return pooling_flops(op, inputs, outputs);
    case OpClass::row:
      return row_flops(op, inputs, outputs);
    case OpClass::optimizer:
      return element_count(inputs[0]) * (op.kind() == OpKind::sgd_step
                                             ? sgd_flops_per_element(op, inputs.size() > 2)
                                             : adam_flops_per_element(op));
    case OpClass::attention:
      return attention_flops(op, inputs);
    case OpClass::indexing:
      return indexing_flops(op, inputs);
    case OpClass::expression:
      return element_count(outputs[0]) *
             static_cast<double>(op.attributes<ExpressionAttributes>().flops);
    default:
      return element_count(outputs[0]) * flops_per_output_element(op.kind());
  }
}

}  // namespace

OpCost op_cost(const OpView& op, Specs inputs, Specs outputs) noexcept {
  if (op_info(op.kind()).op_class == OpClass::view) {
    return {};
  }
  if (is_pick(op.kind())) {  // of x, only the selected elements are read
    return {.flops = 0, .bytes = size_bytes(inputs.subspan(1)) + 2 * size_bytes(outputs)};
  }
  return {.flops = flops(op, inputs, outputs), .bytes = size_bytes(inputs) + size_bytes(outputs)};
}

}  // namespace hearth
