// Norms: the ops of a batch norm in evaluation, and of a layer_norm with a weight, become one
// node. Runtimes fold it into a convolution, and its statistics stay statistics when the file is
// loaded.
#include "step_table.hpp"

#include <algorithm>
#include <optional>

namespace hearth::onnx {
namespace norm_steps_of {
namespace {

bool has_scalar(const PassStep& step) {
  return step.op->record.has(RecordFlag::scalar_lhs) || step.op->record.has(RecordFlag::scalar_rhs);
}

// The step that makes a value by an op of two tensors.
const PassStep* pair(const StepCall& call, ValueNumber value, OpKind kind) {
  const PassStep* const step = call.producer(value, kind);
  return step != nullptr && !has_scalar(*step) ? step : nullptr;
}

// x and epsilon of 1/√(x + epsilon).
struct Root {
  ValueNumber x = 0;
  float epsilon = 0;
};

std::optional<Root> root(const StepCall& call, ValueNumber value) {
  const PassStep* const root = call.producer(value, OpKind::rsqrt);
  const PassStep* const sum = root ? call.producer(root->inputs[0], OpKind::add) : nullptr;
  if (sum == nullptr || !sum->op->record.has(RecordFlag::scalar_rhs)) {
    return std::nullopt;
  }
  const double epsilon = sum->op->view().attributes<ScalarAttributes>().real;
  return Root{sum->inputs[0], static_cast<float>(epsilon)};
}

// ---- BatchNormalization ----

// A vector of the channels, as the program gave it: before it became f32 and [channels, 1, 1] (of
// images; [channels] of vectors).
std::string channels(StepCall& call, ValueNumber value, const Sizes& count, std::size_t rank) {
  if (const PassStep* const cast = call.producer(value, OpKind::cast)) {
    const std::string inner = channels(call, cast->inputs[0], count, rank);
    return inner.empty() ? inner : call.cast(inner, call.dtype_of(value));
  }
  if (rank == 2 && call.shape_of(value) == std::vector<Sizes>{count}) {
    return call.name_of(value);
  }
  const PassStep* const reshape = call.producer(value, OpKind::reshape);
  const bool is_column =
      reshape != nullptr && call.shape_of(reshape->inputs[0]) == std::vector<Sizes>{count} &&
      call.shape_of(value).size() + 1 == rank && call.shape_of(value)[0] == count;
  return is_column ? call.name_of(reshape->inputs[0]) : std::string();
}

struct BatchNormParts {
  ValueNumber x = 0;
  std::optional<ValueNumber> weight = {};
  std::optional<ValueNumber> bias = {};
  ValueNumber mean = 0;
  Root variance = {};
};

// x·factor - mean·factor + bias, where the factor is weight/√(variance + epsilon).
std::optional<BatchNormParts> batch_norm(const StepCall& call) {
  const PassStep* const product = pair(call, call.step().inputs[0], OpKind::mul);
  if (product == nullptr) {
    return std::nullopt;
  }
  BatchNormParts parts{.x = product->inputs[0]};
  ValueNumber shift = call.step().inputs[1];
  if (const PassStep* const with_bias = pair(call, shift, OpKind::add)) {
    parts.bias = with_bias->inputs[1];
    shift = with_bias->inputs[0];
  }
  const PassStep* const negative = call.producer(shift, OpKind::neg);
  const PassStep* const moved = negative ? pair(call, negative->inputs[0], OpKind::mul) : nullptr;
  ValueNumber factor = product->inputs[1];
  if (moved == nullptr || moved->inputs[1] != factor) {
    return std::nullopt;
  }
  parts.mean = moved->inputs[0];
  if (const PassStep* const with_weight = pair(call, factor, OpKind::mul)) {
    parts.weight = with_weight->inputs[1];
    factor = with_weight->inputs[0];
  }
  const std::optional<Root> variance = root(call, factor);
  parts.variance = variance.value_or(Root{});
  return variance ? std::optional(parts) : std::nullopt;
}

// A vector of equal numbers.
std::string filled(StepCall& call, std::int64_t count, float value) {
  const std::vector<float> values(static_cast<std::size_t>(count), value);
  const auto bytes = std::as_bytes(std::span(values));
  return call.draft().constant(DType::f32, Shape{count}, {bytes.begin(), bytes.end()});
}

bool write_batch_norm(StepCall& call) {
  const std::optional<BatchNormParts> parts = batch_norm(call);
  const std::size_t rank = parts ? call.shape_of(parts->x).size() : 0;
  if (rank < 2) {
    return false;
  }
  const Sizes count = call.shape_of(parts->x)[1];
  const std::string mean = channels(call, parts->mean, count, rank);
  const std::string variance = channels(call, parts->variance.x, count, rank);
  const std::string weight =
      parts->weight ? channels(call, *parts->weight, count, rank) : filled(call, count.front(), 1);
  const std::string bias =
      parts->bias ? channels(call, *parts->bias, count, rank) : filled(call, count.front(), 0);
  if (mean.empty() || variance.empty() || weight.empty() || bias.empty()) {
    return false;
  }
  call.result(call.add("BatchNormalization",
                       {call.name_of(parts->x), weight, bias, mean, variance},
                       {{"epsilon", parts->variance.epsilon}}));
  return true;
}

// ---- LayerNormalization ----

// The axes of a mean that keeps them, as bits.
std::optional<std::uint32_t> kept_axes(const PassStep* mean) {
  if (mean == nullptr) {
    return std::nullopt;
  }
  const auto given = mean->op->view().attributes<ReduceAttributes>();
  return given.keep_dims != 0 ? std::optional(given.axes) : std::nullopt;
}

struct Centred {
  ValueNumber x = 0;
  std::size_t axis_count = 0;
  float epsilon = 0;
};

// (x - mean)/√(mean of the squares + epsilon) over the last axes.
std::optional<Centred> centred(const StepCall& call, ValueNumber value) {
  const PassStep* const product = pair(call, value, OpKind::mul);
  const std::optional<Root> scale = product ? root(call, product->inputs[1]) : std::nullopt;
  const PassStep* const spread = scale ? call.producer(scale->x, OpKind::reduce_mean) : nullptr;
  const PassStep* const square =
      spread ? call.producer(spread->inputs[0], OpKind::square) : nullptr;
  const PassStep* const distance = square ? pair(call, square->inputs[0], OpKind::sub) : nullptr;
  if (distance == nullptr || square->inputs[0] != product->inputs[0]) {
    return std::nullopt;
  }
  const PassStep* const mean = call.producer(distance->inputs[1], OpKind::reduce_mean);
  const std::optional<std::uint32_t> axes = kept_axes(mean);
  if (!axes || axes != kept_axes(spread) || mean->inputs[0] != distance->inputs[0]) {
    return std::nullopt;
  }
  const std::size_t rank = call.shape_of(distance->inputs[0]).size();
  for (std::size_t count = 1; count <= rank; ++count) {
    if (*axes == ((1U << count) - 1U) << (rank - count)) {
      return Centred{distance->inputs[0], count, scale->epsilon};
    }
  }
  return std::nullopt;
}

// Whether a weight or bias has the sizes of the last axes.
bool stands_beside(const StepCall& call, ValueNumber beside, const Centred& norm) {
  const std::vector<Sizes> shape = call.shape_of(norm.x);
  const std::vector<Sizes> its = call.shape_of(beside);
  return its.size() == norm.axis_count && std::equal(its.rbegin(), its.rend(), shape.rbegin());
}

bool write_layer_norm(StepCall& call) {
  const bool has_bias = call.kind() == OpKind::add;
  const PassStep* const product =
      has_bias ? pair(call, call.step().inputs[0], OpKind::mul) : &call.step();
  const std::optional<Centred> norm =
      product != nullptr ? centred(call, product->inputs[0]) : std::nullopt;
  if (!norm || !stands_beside(call, product->inputs[1], *norm) ||
      (has_bias && !stands_beside(call, call.step().inputs[1], *norm))) {
    return false;
  }
  std::vector<std::string> inputs{call.name_of(norm->x), call.name_of(product->inputs[1])};
  if (has_bias) {
    inputs.push_back(call.name_of(call.step().inputs[1]));
  }
  call.result(call.add(
      "LayerNormalization",
      std::move(inputs),
      {{"axis", -static_cast<std::int64_t>(norm->axis_count)}, {"epsilon", norm->epsilon}}));
  return true;
}

}  // namespace
}  // namespace norm_steps_of

// Epsilon is an f32 in ONNX, so norms of f64 are written as their ops. Those of 16 bits run in f32.
bool write_norm(StepCall& call) {
  const OpKind kind = call.kind();
  if ((kind != OpKind::add && kind != OpKind::mul) || norm_steps_of::has_scalar(call.step()) ||
      call.output_dtype() != DType::f32) {
    return false;
  }
  return (kind == OpKind::add && norm_steps_of::write_batch_norm(call)) ||
         norm_steps_of::write_layer_norm(call);
}

}  // namespace hearth::onnx
