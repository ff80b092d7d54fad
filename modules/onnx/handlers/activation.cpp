// Activations, and functions along one axis that networks end with.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

namespace hearth::onnx {
namespace activation_ops {
namespace {

void rectify(Call& call) {
  const OnnxType type = call.type(0);
  call.give(is_float(type) ? relu(call.take(0)) : maximum(call.take(0), 0), type);
}

void leaky(Call& call) {
  const OnnxType type = call.type(0);
  const double slope = call.node().real("alpha", 0.01);
  call.give(leaky_relu(call.take(0), slope), type);
}

void elu(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 1);
  call.give(elu(call.take(0), alpha), type);
}

void selu(Call& call) {
  const OnnxType type = call.type(0);
  const bool is_old = call.opset() < 6;  // whose defaults have fewer digits
  const double alpha = call.node().real("alpha", is_old ? 1.6732 : 1.67326319217681884765625);
  const double gamma = call.node().real("gamma", is_old ? 1.0507 : 1.05070102214813232421875);
  call.give(mul(elu(widened(call.take(0)), alpha), gamma), type);
}

void celu(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 1);
  call.give(celu(call.take(0), alpha), type);
}

void hard_sigmoid(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 0.2);
  const double beta = call.node().real("beta", 0.5);
  call.give(clamp(add(mul(call.take(0), alpha), beta), 0.0, 1.0), type);
}

template <Tensor (*kFunction)(Arg)>
void apply_function(Call& call) {
  const OnnxType type = call.type(0);
  call.give(kFunction(call.take(0)), type);
}

void smooth_rectify(Call& call) {
  const OnnxType type = call.type(0);
  call.give(softplus(call.take(0)), type);
}

void swish(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 1);
  const Tensor x = widened(call.take(0));
  call.give(mul(x, sigmoid(mul(x, alpha))), type);
}

void thresholded(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 1);
  const Tensor x = call.take(0);
  call.give(where(greater(x, alpha), x, 0.0), type);
}

void shrink(Call& call) {
  const OnnxType type = call.type(0);
  const double bias = call.node().real("bias", 0);
  const double limit = call.node().real("lambd", 0.5);
  const Tensor x = call.take(0);
  Tensor high = where(greater(x, limit), sub(x, bias), 0.0);
  call.give(where(less(x, -limit), add(x, bias), std::move(high)), type);
}

std::string check_gelu(const NodeInfo& node) {
  const std::string form = node.text("approximate", "none");
  return form == "none" || form == "tanh"
             ? std::string{}
             : fmt::format("attribute approximate is '{}', neither none nor tanh", form);
}

void gaussian(Call& call) {
  const OnnxType type = call.type(0);
  const bool is_tanh = call.node().text("approximate", "none") == "tanh";
  call.give(gelu(call.take(0), is_tanh ? GeluForm::tanh : GeluForm::erf), type);
}

// Before opset 7, and by habit later, a slope of one axis belongs to the channels.
void parametric(Call& call) {
  const OnnxType type = call.type(0);
  Tensor slope = call.take(1);
  const int rank = call.rank(0);
  if (call.opset() < 7 && slope.rank() == 1 && rank > 1 && slope.element_count() > 1) {
    slope = along_axis(std::move(slope), rank, 1);
  }
  const Tensor x = call.take(0);
  call.give(where(less(x, 0), mul(x, std::move(slope)), x), type);
}

// A number if the host knows it, which the op then takes as an attribute.
OptionalArg bound(Call& call, std::size_t i) {
  if (!call.has(i)) {
    return {};
  }
  const OnnxValue& value = call.value(i);
  if (value.has_host() && value.shape().element_count() == 1) {
    const HostArray& array = value.host();
    return has_reals(array) ? OptionalArg(array.reals()[0]) : OptionalArg(array.integers()[0]);
  }
  return call.tensor(i);
}

void clip(Call& call) {
  const OnnxType type = call.type(0);
  if (call.opset() < 11) {
    constexpr double kAll = 3.402823466e38;
    const double low = call.node().real("min", -kAll);
    const double high = call.node().real("max", kAll);
    Tensor x = call.take(0);
    const bool is_half = x.dtype() == DType::f16;
    call.give(
        is_half ? clamp(cast(std::move(x), DType::f32), low, high) : clamp(std::move(x), low, high),
        type);
    return;
  }
  if (!call.has(1) && !call.has(2)) {
    call.give(call.take(0), type);
    return;
  }
  const OptionalArg low = bound(call, 1);
  const OptionalArg high = bound(call, 2);
  call.give(clamp(call.take(0), low, high), type);
}

// Before opset 13 the axes from `axis` on are one.
template <class Fn>
void along(Call& call, const Fn& fn) {
  const OnnxType type = call.type(0);
  const int rank = call.rank(0);
  const bool is_joined = call.opset() < 13;
  const std::int64_t given = call.node().integer("axis", is_joined ? 1 : -1);
  if (!is_joined) {
    call.give(fn(call.take(0), call.axis(given, rank)), type);
    return;
  }
  const Shape shape = call.shape(0);
  const int axis = given == rank ? rank : call.axis(given, rank);
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) {
    rows *= shape[i];
  }
  const std::int64_t columns = rows == 0 ? 0 : shape.element_count() / rows;
  Tensor flat = reshape(call.take(0), {rows, columns});
  call.give(reshape(fn(std::move(flat), 1), shape), type);
}

void soft(Call& call) {
  along(call, [](Tensor x, int axis) { return softmax(std::move(x), axis); });
}
void log_soft(Call& call) {
  along(call, [](Tensor x, int axis) { return log_softmax(std::move(x), axis); });
}
void hard(Call& call) {
  along(call, [](const Tensor& x, int axis) {
    const Tensor best = argmax(x, axis, {.keep_dims = true});
    const auto size = static_cast<double>(x.size(axis));
    const Tensor positions = arange(x.device(), 0, size, 1, DType::i64);
    return cast(equal(best, along_axis(positions, x.rank(), axis)), x.dtype());
  });
}

constexpr OpRow kRows[] = {
    {.op = "Relu", .run = rectify},
    {.op = "LeakyRelu", .run = leaky},
    {.op = "Elu", .run = elu},
    {.op = "Selu", .run = selu},
    {.op = "Celu", .since = 12, .run = celu},
    {.op = "HardSigmoid", .run = hard_sigmoid},
    {.op = "HardSwish", .since = 14, .run = apply_function<hardswish>},
    {.op = "Softplus", .run = smooth_rectify},
    {.op = "Softsign", .run = apply_function<softsign>},
    {.op = "Mish", .since = 18, .run = apply_function<mish>},
    {.op = "Swish", .since = 23, .run = swish},
    {.op = "ThresholdedRelu", .run = thresholded},
    {.op = "Shrink", .since = 9, .run = shrink},
    {.op = "Gelu", .since = 20, .run = gaussian, .check = check_gelu},
    {.op = "PRelu", .run = parametric},
    {.op = "Clip", .run = clip, .plain_inputs = inputs(1, 2)},
    {.op = "Softmax", .run = soft},
    {.op = "LogSoftmax", .run = log_soft},
    {.op = "Hardmax", .run = hard},
};

}  // namespace
}  // namespace activation_ops

std::span<const OpRow> activation_rows() {
  return activation_ops::kRows;
}

}  // namespace hearth::onnx
