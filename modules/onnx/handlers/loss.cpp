// Losses inside of graphs.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

namespace hearth::onnx {
namespace loss_ops {
namespace {

std::string check_reduction(const NodeInfo& node) {
  const std::string reduction = node.text("reduction", "mean");
  return reduction == "none" || reduction == "sum" || reduction == "mean"
             ? std::string{}
             : fmt::format("attribute reduction is '{}'", reduction);
}

// -weight[t]·x[n, t, ...] for each target t; ignored targets count neither in sum nor in mean.
Tensor picked_losses(Call& call,
                     const Tensor& log_probabilities,
                     std::size_t target_input,
                     std::size_t weight_input,
                     OnnxType type) {
  const auto* const ignored = call.node().attribute<std::int64_t>("ignore_index");
  Tensor target = cast(call.take(target_input), DType::i64);
  Tensor is_used;
  if (ignored != nullptr) {
    is_used = not_equal(target, *ignored);
    target = where(is_used, target, 0);
  }
  Tensor losses = neg(squeeze(gather(log_probabilities, 1, unsqueeze(target, 1)), 1));
  Tensor weights;
  if (call.has(weight_input)) {
    const Tensor all = cast(call.take(weight_input), losses.dtype());
    weights = reshape(index_select(all, 0, reshape(target, {-1})), target.shape());
  }
  if (is_used.is_valid()) {
    weights = weights.is_valid() ? where(is_used, weights, 0.0) : cast(is_used, losses.dtype());
  }
  if (weights.is_valid()) {
    losses = mul(std::move(losses), weights);
  }
  const std::string reduction = call.node().text("reduction", "mean");
  if (reduction == "none") {
    return cast(std::move(losses), *device_type(type));
  }
  const Tensor total = sum(losses);
  if (reduction == "sum") {
    return cast(total, *device_type(type));
  }
  return cast(weights.is_valid() ? div(total, sum(weights))
                                 : div(total, static_cast<double>(losses.element_count())),
              *device_type(type));
}

void likelihood(Call& call) {
  const OnnxType type = call.type(0);
  const Tensor x = widened(call.take(0));
  call.give(picked_losses(call, x, 1, 2, type), type);
}

void cross_entropy_of_softmax(Call& call) {
  const OnnxType type = call.type(0);
  const Tensor logarithms = log_softmax(widened(call.take(0)), 1);
  call.give(0, picked_losses(call, logarithms, 1, 2, type), type);
  call.give(1, logarithms, type);
}

constexpr OpRow kRows[] = {
    {.op = "NegativeLogLikelihoodLoss", .since = 12, .run = likelihood, .check = check_reduction},
    {.op = "SoftmaxCrossEntropyLoss",
     .since = 12,
     .run = cross_entropy_of_softmax,
     .check = check_reduction},
};

}  // namespace
}  // namespace loss_ops

std::span<const OpRow> loss_rows() {
  return loss_ops::kRows;
}

}  // namespace hearth::onnx
