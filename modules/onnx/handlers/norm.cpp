// Normalisations.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <hearth/modules/state_updates.hpp>
#include <hearth/runtime/buffer.hpp>

#include <algorithm>
#include <numeric>

namespace hearth::onnx {
namespace norm_ops {
namespace {

Tensor by_channel(Call& call, std::size_t i, int rank, DType dtype) {
  return along_axis(cast(call.take(i), dtype), rank, rank > 1 ? 1 : 0);
}

std::vector<int> axes_but_channels(int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != 1) {
      axes.push_back(axis);
    }
  }
  return axes;
}

struct Moments {
  Tensor mean;
  Tensor variance;
};

Moments moments(const Tensor& x, const std::vector<int>& axes) {
  Tensor centre = mean(x, axes, {.keep_dims = true});
  Tensor spread = mean(square(sub(x, centre)), axes, {.keep_dims = true});
  return {std::move(centre), std::move(spread)};
}

// In training the batch's moments move the running ones by 1 - momentum.
void update_statistics(Call& call, const Moments& batch, std::int64_t per_channel) {
  const double share = 1 - call.node().real("momentum", 0.9);
  const Buffer* const running_mean = call.buffer(3);
  const Buffer* const running_variance = call.buffer(4);
  if (running_mean == nullptr || running_variance == nullptr) {
    call.refuse(
        "its running statistics are no constants of the file, so training cannot move them");
  }
  StateUpdates& updates = current_state_updates("BatchNormalization", call.context().loc);
  const auto count = static_cast<double>(per_channel);
  const auto flat = [](const Tensor& statistic, DType dtype) {
    return cast(reshape(statistic.detach(), {-1}), dtype);
  };
  updates.blend(*running_mean, flat(batch.mean, running_mean->dtype()), share);
  const Tensor estimate = mul(batch.variance, count / std::max(count - 1, 1.0));
  updates.blend(*running_variance, flat(estimate, running_variance->dtype()), share);
}

std::string check_batch_norm(const NodeInfo& node) {
  return node.opset < 9 && node.integer("spatial", 1) == 0
             ? "attribute spatial = 0 normalises each position by itself"
             : "";
}

void batch_norm(Call& call) {
  const OnnxType type = call.type(0);
  const double epsilon = call.node().real("epsilon", 1e-5);
  const bool is_stated = call.node().integer("training_mode", 0) != 0 ||
                         (call.opset() < 7 && call.node().integer("is_test", 0) == 0);
  const Tensor x = widened(call.take(0));
  const int rank = x.rank();
  const DType dtype = x.dtype();
  Moments used;
  if (is_stated || call.is_training()) {
    used = moments(x, axes_but_channels(rank));
    if (!is_stated) {
      update_statistics(call, used, x.element_count() / std::max<std::int64_t>(1, x.size(1)));
    }
  } else {
    used = {by_channel(call, 3, rank, dtype), by_channel(call, 4, rank, dtype)};
  }
  const Tensor scale = mul(by_channel(call, 1, rank, dtype), rsqrt(add(used.variance, epsilon)));
  Tensor result = add(mul(sub(x, used.mean), scale), by_channel(call, 2, rank, dtype));
  call.give(0, std::move(result), type);
  if (!is_stated) {
    return;
  }
  const double momentum = call.node().real("momentum", 0.9);
  const auto moved = [&](std::size_t i, const Tensor& batch) {
    return add(mul(cast(call.take(i), dtype), momentum), mul(reshape(batch, {-1}), 1 - momentum));
  };
  if (call.wants(1)) {
    const OnnxType of_mean = call.type(3);
    call.give(1, moved(3, used.mean), of_mean);
  }
  if (call.wants(2)) {
    const OnnxType of_variance = call.type(4);
    call.give(2, moved(4, used.variance), of_variance);
  }
}

void instance_norm(Call& call) {
  const OnnxType type = call.type(0);
  const double epsilon = call.node().real("epsilon", 1e-5);
  const Tensor x = widened(call.take(0));
  std::vector<int> axes(static_cast<std::size_t>(std::max(x.rank() - 2, 0)));
  std::iota(axes.begin(), axes.end(), 2);
  if (axes.empty()) {
    call.refuse("{} has no axes behind the channels", x.shape().to_string());
  }
  const Moments own = moments(x, axes);
  const Tensor normal = mul(sub(x, own.mean), rsqrt(add(own.variance, epsilon)));
  const Tensor scaled = mul(normal, by_channel(call, 1, x.rank(), x.dtype()));
  call.give(add(scaled, by_channel(call, 2, x.rank(), x.dtype())), type);
}

// The axes from `axis` on. Mean and 1 / deviation are results too.
void layer_normalisation(Call& call) {
  const OnnxType type = call.type(0);
  const double epsilon = call.node().real("epsilon", 1e-5);
  const int rank = call.rank(0);
  const int axis = call.axis(call.node().integer("axis", -1), rank);
  Tensor x = call.take(0);
  if (!call.wants(1) && !call.wants(2)) {
    const NormOptions options{.axis_count = rank - axis, .epsilon = epsilon};
    const Shape shape = x.shape();
    const Shape inner(Sizes(shape.dims().begin() + axis, shape.dims().end()));
    const bool is_full = call.shape(1) == inner && (!call.has(2) || call.shape(2) == inner);
    if (is_full) {
      call.give(call.has(2) ? layer_norm(std::move(x), call.take(1), call.take(2), options)
                            : layer_norm(std::move(x), call.take(1), options),
                type);
      return;
    }
  }
  x = widened(std::move(x));
  std::vector<int> axes(static_cast<std::size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  const Moments own = moments(x, axes);
  const Tensor scale = rsqrt(add(own.variance, epsilon));
  Tensor result = mul(mul(sub(x, own.mean), scale), cast(call.take(1), x.dtype()));
  if (call.has(2)) {
    result = add(std::move(result), cast(call.take(2), x.dtype()));
  }
  call.give(0, std::move(result), type);
  call.give(1, OnnxValue(own.mean));
  call.give(2, OnnxValue(scale));
}

void rms_normalisation(Call& call) {
  const OnnxType type = call.type(0);
  const int rank = call.rank(0);
  const int axis = call.axis(call.node().integer("axis", -1), rank);
  std::vector<int> axes(static_cast<std::size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  const Tensor x = widened(call.take(0));
  const Tensor power = mean(square(x), axes, {.keep_dims = true});
  const Tensor normal = mul(x, rsqrt(add(power, call.node().real("epsilon", 1e-5))));
  call.give(mul(normal, cast(call.take(1), x.dtype())), type);
}

// Before opset 21 scale and bias belong to groups, later to channels.
void group_normalisation(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t groups = call.node().integer("num_groups", 1);
  const double epsilon = call.node().real("epsilon", 1e-5);
  Tensor scale = call.take(1);
  Tensor bias = call.take(2);
  Tensor x = call.take(0);
  const std::int64_t channels = x.size(1);
  const auto spread = [&](Tensor values) {
    if (call.opset() >= 21 || values.element_count() == channels) {
      return values;
    }
    const std::int64_t each = channels / std::max<std::int64_t>(1, groups);
    return reshape(repeat(reshape(std::move(values), {groups, 1}), {1, each}), {channels});
  };
  call.give(
      group_norm(std::move(x), groups, spread(std::move(scale)), spread(std::move(bias)), epsilon),
      type);
}

// x / (bias + alpha/size · sum of squares of `size` neighbouring channels)^beta.
void local_response(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t size = call.node().integer("size", 1);
  const double alpha = call.node().real("alpha", 1e-4);
  const double beta = call.node().real("beta", 0.75);
  const double bias = call.node().real("bias", 1);
  const Tensor x = widened(call.take(0));
  const std::int64_t channels = x.size(1);
  const std::int64_t before = (size - 1) / 2;
  const Tensor wide = pad(square(x), {{.axis = 1, .before = before, .after = size - 1 - before}});
  Tensor sums;
  for (std::int64_t i = 0; i < size; ++i) {
    Tensor shifted = slice(wide, 1, {.start = i, .stop = i + channels});
    sums = sums.is_valid() ? add(std::move(sums), std::move(shifted)) : std::move(shifted);
  }
  const Tensor divisor = add(mul(std::move(sums), alpha / static_cast<double>(size)), bias);
  call.give(div(x, pow(divisor, beta)), type);
}

void mean_variance(Call& call) {
  const OnnxType type = call.type(0);
  const Sizes* const given = call.node().integers("axes");
  const std::vector<int> axes = call.axes(given == nullptr ? Sizes{0, 2, 3} : *given, call.rank(0));
  const Tensor x = widened(call.take(0));
  const Moments own = moments(x, axes);
  call.give(div(sub(x, own.mean), add(sqrt(own.variance), 1e-9)), type);
}

void lp_norm(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.node().integer("axis", -1), call.rank(0));
  const bool is_first = call.node().integer("p", 2) == 1;
  const Tensor x = widened(call.take(0));
  const Tensor length = is_first ? sum(abs(x), axis, {.keep_dims = true})
                                 : sqrt(sum(square(x), axis, {.keep_dims = true}));
  call.give(where(equal(length, 0.0), 0.0, div(x, length)), type);
}

constexpr OpRow kRows[] = {
    {.op = "BatchNormalization", .run = batch_norm, .check = check_batch_norm},
    {.op = "InstanceNormalization", .run = instance_norm},
    {.op = "LayerNormalization", .since = 17, .run = layer_normalisation},
    {.op = "RMSNormalization", .since = 23, .run = rms_normalisation},
    {.op = "GroupNormalization", .since = 18, .run = group_normalisation},
    {.op = "LRN", .run = local_response},
    {.op = "MeanVarianceNormalization", .since = 9, .run = mean_variance},
    {.op = "LpNormalization", .run = lp_norm},
};

}  // namespace
}  // namespace norm_ops

std::span<const OpRow> norm_rows() {
  return norm_ops::kRows;
}

}  // namespace hearth::onnx
