// Cross entropy. Forward it is the shader of lines, which keeps a row, and stores one loss a row.
// Backward each element needs only its row's gradient and target: a thread takes packs of elements,
// all rows in one grid. A pack may span two rows.
#include "cross_entropy.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/space/axis_list.hpp"
#include "backends/gpu/space/packs.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "line_plan.hpp"
#include "line_shader.hpp"

namespace hearth::gpu {
namespace {

constexpr std::int64_t kNarrowLossIndex = std::int64_t{1} << 30;
constexpr int kLossThreads = 128;

Status refuse_loss_guard() {
  return Error{.code = ErrorCode::unsupported, .text = "cross entropy joins no update group"};
}

constexpr std::string_view kCrossEntropyMembers =
    "uint64_t grad; uint64_t probabilities; uint64_t targets; uint64_t result; uint64_t cell; "
    "INDEX count; INDEX classes; INDEX grad_step; INDEX row_step; INDEX class_step; "
    "INDEX target_step; uint row_m; uint row_h; ";

// CROSSES: rows follow each other without gaps, so a pack may begin in one and end in the next.
constexpr std::string_view kCrossEntropyMain = R"(
FN bool find_row(INDEX row, OUT(INDEX) target, OUT(VALUE) grad) {
  const int64_t read = int64_t(load_target(p.targets, row * p.target_step));
  const bool is_class = read >= 0l && read < int64_t(p.classes);
  if (!is_class) {
    fail(p.cell, 1u, read, int64_t(row), int64_t(p.classes));
  }
  target = INDEX(read);
  grad = load_element(p.grad, row * p.grad_step);
  return is_class;
}
// A row whose loss does not count has the gradient 0, whatever its probabilities.
FN VALUE slope_of(VALUE grad, VALUE probability, bool is_target) {
  return grad == VALUE(0) ? VALUE(0) : grad * (probability - (is_target ? VALUE(1) : VALUE(0)));
}
FN void main() {
  const INDEX i = INDEX(GROUP) * THREADS + INDEX(THREAD);
  const INDEX begin = i * PACK;
  if (begin >= p.count) {
    return;
  }
  const INDEX row = ROW_OF(begin);
  const INDEX first = begin - row * p.classes;
  INDEX target;
  VALUE grad;
  if (!find_row(row, target, grad)) {
    return;
  }
  const INDEX hit = target - first;
#if CROSSES
  const INDEX left = p.classes - first;
  INDEX next_hit = INDEX(PACK);
  VALUE next_grad = grad;
  if (left < PACK && begin + left < p.count) {
    if (!find_row(row + 1, target, next_grad)) {
      return;
    }
    next_hit = left + target;
  }
  if (begin + PACK > p.count) {
    for (INDEX j = 0; begin + j < p.count; ++j) {
      const VALUE v = load_element(p.probabilities, begin + j);
      store_element(
          p.result, begin + j, slope_of(j < left ? grad : next_grad, v, j == hit || j == next_hit));
    }
    return;
  }
  VALUE v[PACK];
  load_pack_e(p.probabilities, begin, v);
  UNROLLED for (int j = 0; j < PACK; ++j) {
    v[j] = slope_of(j < left ? grad : next_grad, v[j], j == hit || j == next_hit);
  }
#else
  VALUE v[PACK];
  load_pack_e(p.probabilities, row * p.row_step + first * p.class_step, v);
  UNROLLED for (int j = 0; j < PACK; ++j) {
    v[j] = slope_of(grad, v[j], j == hit);
  }
#endif
  store_pack_e(p.result, begin, v);
}
)";

std::string backward_text(DType dtype,
                          DType targets,
                          std::int64_t pack,
                          bool crosses,
                          bool wide,
                          std::size_t parameter_bytes) {
  std::string text = glsl_prelude({.threads = kLossThreads, .wide_index = wide});
  text += glsl_parameters(kCrossEntropyMembers, parameter_bytes);
  text += fmt::format(
      "#define VALUE {0}\n#define THREADS {1}\n#define PACK {2}\n#define CROSSES {3:d}\n"
      "#define load_target load_{4}\n#define load_element load_{5}\n"
      "#define store_element store_{5}\n#define ROW_OF(i) {6}\n",
      glsl_value_type(dtype),
      kLossThreads,
      pack,
      crosses,
      glsl_suffix(targets),
      glsl_suffix(dtype),
      wide ? "((i) / p.classes)" : "int(divide(uint(i), p.row_m, p.row_h))");
  text += glsl_divide();
  text += glsl_fail();
  text += glsl_pack("e", dtype, pack, wide);
  return text += kCrossEntropyMain;
}

}  // namespace

Status encode_cross_entropy(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return refuse_loss_guard();
  }
  const TensorView& logits = call.inputs[0];
  const TensorView& targets = call.inputs[1];
  if (logits.element_count() == 0 && call.outputs[0].element_count() == 0) {
    return {};
  }
  const bool has_result = call.outputs.size() > 1;
  std::array<LineOperand, 2> operands;
  operands[0] = {logits.data, logits.strides()};
  if (has_result) {
    operands[1] = {call.outputs[1].data, contiguous_strides(logits.shape())};
  }
  const LinePlan plan = plan_lines(logits.shape(),
                                   1,
                                   logits.dtype,
                                   std::span(operands).first(has_result ? 2 : 1),
                                   1,
                                   encoder.limits());
  return encode_lines({.kind = LineKind::loss,
                       .dtype = logits.dtype,
                       .x = address_of(logits),
                       .out = has_result ? address_of(call.outputs[1]) : 0,
                       .target_dtype = targets.dtype,
                       .targets = address_of(targets),
                       .target_step = targets.strides()[0],
                       .losses = address_of(call.outputs[0])},
                      plan,
                      encoder);
}

Status encode_cross_entropy_backward(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return refuse_loss_guard();
  }
  const TensorView& grad = call.inputs[0];
  const TensorView& probabilities = call.inputs[1];
  const TensorView& targets = call.inputs[2];
  const Shape& shape = probabilities.shape();
  const std::int64_t count = probabilities.element_count();
  if (count == 0) {
    return {};
  }
  const DType dtype = probabilities.dtype;
  const std::int64_t row_step = probabilities.strides()[0];
  const std::int64_t class_step = probabilities.strides()[1];
  const std::int64_t most = pack_of(dtype, 8);
  const bool is_aligned = class_step == 1 && is_pack_aligned(probabilities.data, dtype, most) &&
                          is_pack_aligned(call.outputs[0].data, dtype, most);
  const bool fits = is_aligned && shape[1] % most == 0 && row_step % most == 0;
  const bool crosses = is_aligned && !fits && row_step == shape[1] && shape[1] >= most;
  const std::int64_t pack = fits || crosses ? most : 1;
  const std::int64_t reach = (shape[0] - 1) * std::max({std::abs(row_step),
                                                        std::abs(grad.strides()[0]),
                                                        std::abs(targets.strides()[0])}) +
                             (shape[1] - 1) * std::abs(class_step);
  const bool wide = reach >= kNarrowLossIndex || count >= kNarrowLossIndex;
  const Divisor row(wide ? 1 : shape[1]);
  ParameterBlock parameters;
  parameters.add(grad).add(probabilities).add(targets).add(call.outputs[0]);
  parameters.add(encoder.error_cell());
  for (const std::int64_t value :
       {count, shape[1], grad.strides()[0], row_step, class_step, targets.strides()[0]}) {
    add_index(parameters, wide, value);
  }
  parameters.add(row.factor).add(row.shift);
  KernelKey key(KernelFamily::cross_entropy);
  key.add(dtype).add(targets.dtype).add(static_cast<std::uint32_t>(pack)).add(crosses).add(wide);
  const auto text = [&] {
    return backward_text(dtype, targets.dtype, pack, crosses, wide, parameters.size_bytes());
  };
  const std::int64_t groups = (count + kLossThreads * pack - 1) / (kLossThreads * pack);
  return encoder.dispatch(key, text, parameters, encoder.linear(groups));
}

Support supports_cross_entropy(const KernelCall& call, const DeviceLimits& limits) {
  if (call.inputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  return {};
}

bool cross_entropy_may_alias(OpKind kind, int index) noexcept {
  return kind == OpKind::cross_entropy_backward && index == 1;
}

}  // namespace hearth::gpu
