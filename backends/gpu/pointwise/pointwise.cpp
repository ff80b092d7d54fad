// Splits the work. Vectors serve operands that are laid out as the result, repeat whole, or have
// rows of whole vectors. A thread then takes vectors of about 16 bytes, several for few inputs. The
// shader then moves bytes as fast as a copy. Else a thread takes four elements, a workgroup's width
// apart, and finds each operand's element by strides. Axes are merged first, so few are left.
#include "pointwise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "interpreter.hpp"
#include "pointwise_text.hpp"

namespace hearth::gpu {
namespace {

constexpr int kScalarPieces = 4;
/// Results need registers, too: with more of them a thread takes one vector of four.
constexpr std::size_t kFewOutputs = 8;
/// Vectors of a thread on drivers in software, which have no memory latency to hide, and whose
/// compile time grows with the kernel. With one input the number is a card's, to test that form.
constexpr int kSoftwarePieces = 2;
/// Elements of a thread; doubled if few inputs leave it registers.
constexpr int kElements = 8;
constexpr std::size_t kFewInputs = 4;
/// Neighbours that share a block of random words.
constexpr int kRun = 4;
/// Nodes above which a body is too long to stand in a shader several times.
constexpr std::size_t kLongBody = 150;
/// Places below this leave room for the overhang of a grid.
constexpr std::int64_t kMostNarrow = (std::int64_t{1} << 31U) - (std::int64_t{1} << 24U);

using Space = StridedSpace<kMostExpressionInputs>;

bool is_aligned(const TensorView& view, std::int64_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(view.data) %  // NOLINT: a device address
             static_cast<std::uintptr_t>(bytes) ==
         0;
}

// Operands of a call, and the split of the work on them.
struct Plan {
  Plan(const KernelCall& call, const KernelEncoder& encoder, bool fails, bool is_long);

  Space space;
  PointwiseForm form;
  std::int64_t count;
  bool has_strided = false;
  bool is_software = false;
  int multiprocessors = 1;

 private:
  void find_access(const KernelCall& call, bool is_long);
  void find_vectors(const KernelCall& call, std::int64_t smallest);
  [[nodiscard]] int pieces_of(int most) const noexcept;
  [[nodiscard]] bool take_vectors(const KernelCall& call, int vector);
};

Plan::Plan(const KernelCall& call, const KernelEncoder& encoder, bool fails, bool is_long)
    : space(call.outputs[0].shape()), count(call.outputs[0].element_count()) {
  const DeviceLimits& limits = encoder.limits();
  form.threads =
      static_cast<int>(std::min<std::uint32_t>(kGroupThreads, limits.most_group_threads));
  form.may_fail = fails;
  form.is_guarded = encoder.guard() != 0;
  if (form.is_guarded) {
    const std::span<const std::int8_t> keeps = encoder.keeps();
    for (std::size_t i = 0; i < std::min(keeps.size(), form.keeps.size()); ++i) {
      form.keeps[i] = keeps[i];
    }
  }
  is_software = limits.is_cpu;
  multiprocessors = limits.multiprocessors;
  find_access(call, is_long);
  form.rank = has_strided ? space.rank : 1;
}

// Phases: inputs laid out as the result, found by their layouts; the others' strides; vectors, if
// all inputs allow them.
void Plan::find_access(const KernelCall& call, bool is_long) {
  const std::size_t inputs = call.inputs.size();
  std::int64_t smallest = 8;
  std::int64_t reach = count;
  for (std::size_t i = 0; i < inputs; ++i) {
    const TensorView& view = call.inputs[i];
    const bool is_whole = view.layout->contiguous && view.shape() == call.outputs[0].shape();
    form.access[i] = is_whole                    ? Access::linear
                     : view.element_count() == 1 ? Access::cell
                                                 : Access::any;
    has_strided = has_strided || form.access[i] == Access::any;
    smallest =
        form.access[i] == Access::cell ? smallest : std::min(smallest, size_bytes(view.dtype));
  }
  for (const TensorView& view : call.outputs) {
    smallest = std::min(smallest, size_bytes(view.dtype));
  }
  if (has_strided) {
    for (const TensorView& view : call.inputs) {
      space.add(view);
    }
    space.merge();
    has_strided = false;
    for (std::size_t i = 0; i < inputs; ++i) {
      reach = std::max(reach, space.reach_from_first(i));
      form.access[i] = space.is_linear(i) ? Access::linear
                       : space.repeats(i) ? Access::cell
                                          : Access::any;
      has_strided = has_strided || form.access[i] == Access::any;
    }
  }
  form.is_wide = reach >= kMostNarrow;
  if (is_long) {
    form.run = kRun;
    return;
  }
  find_vectors(call, smallest);
}

// `smallest`: the bytes of the smallest element.
void Plan::find_vectors(const KernelCall& call, std::int64_t smallest) {
  const std::size_t inputs = call.inputs.size();
  const bool has_many = call.outputs.size() > kFewOutputs;
  const int most_pieces = has_many ? 1 : is_software && inputs > 1 ? kSoftwarePieces : kElements;
  const int widest = has_many ? 4 : smallest == 1 ? 16 : smallest == 2 ? 8 : 4;
  for (int vector = widest; vector >= 4; vector /= 2) {
    if (take_vectors(call, vector)) {
      const int pieces = (inputs > kFewInputs ? kElements : 2 * kElements) / vector;
      form.vector = vector;
      form.pieces = pieces_of(std::clamp(pieces, 1, most_pieces));
      return;
    }
  }
  const auto strided = std::count_if(
      form.access.begin(), form.access.begin() + static_cast<std::ptrdiff_t>(inputs), is_strided);
  // The index arithmetic of many strides hides the loads.
  form.pieces = pieces_of(strided <= 3 ? std::min(kScalarPieces, most_pieces) : 1);
}

// Uses one piece if `most` would leave multiprocessors idle: the code of the others would only be
// skipped.
int Plan::pieces_of(int most) const noexcept {
  const std::int64_t filled =
      std::int64_t{multiprocessors} * form.threads * form.vector * std::int64_t{most};
  return is_software || count >= filled ? most : 1;
}

// Rows of vectors: the innermost axis consists of whole, aligned ones in each row.
bool Plan::take_vectors(const KernelCall& call, int vector) {
  const auto is_ready = [&](const TensorView& view) {
    return is_aligned(view, std::min<std::int64_t>(16, vector * size_bytes(view.dtype)));
  };
  if (!std::ranges::all_of(call.outputs, is_ready) ||
      (has_strided && space.inner_size() % vector != 0)) {
    return false;
  }
  std::array<Access, kMostExpressionInputs> access = form.access;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (access[i] == Access::cell) {
      continue;
    }
    if (access[i] == Access::any && space.inner_stride(i) == 0) {
      access[i] = Access::columns;
      continue;
    }
    bool fits = is_ready(call.inputs[i]);
    if (access[i] == Access::any) {
      fits = fits && space.inner_stride(i) == 1;
      for (int axis = 0; axis < space.rank - 1; ++axis) {
        fits = fits && space.stride[i][static_cast<std::size_t>(axis)] % vector == 0;
      }
      access[i] = Access::rows;
    }
    if (!fits) {
      return false;
    }
  }
  form.access = access;
  return true;
}

void add_form(KernelKey& key, const PointwiseForm& form, std::size_t inputs) noexcept {
  key.add(static_cast<std::uint32_t>(form.vector) | static_cast<std::uint32_t>(form.pieces) << 8U |
          static_cast<std::uint32_t>(form.rank) << 16U |
          static_cast<std::uint32_t>(form.run) << 20U | (form.is_wide ? 1U << 24U : 0U) |
          (form.is_guarded ? 1U << 25U : 0U));
  std::uint64_t access = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    access = access << 4U | static_cast<std::uint64_t>(form.access[i]);
  }
  key.add(access);
  if (form.is_guarded) {
    key.add(std::bit_cast<std::uint32_t>(form.keeps));
  }
}

// In the order that pointwise_text() declares.
void add_addresses(ParameterBlock& to,
                   const KernelCall& call,
                   const KernelEncoder& encoder,
                   const Plan& plan) noexcept {
  for (const TensorView& view : call.inputs) {
    to.add(view);
  }
  for (const TensorView& view : call.outputs) {
    to.add(view);
  }
  if (plan.form.may_fail) {
    to.add(encoder.error_cell());
  }
  if (plan.form.is_guarded) {
    to.add(encoder.guard());
  }
  if (plan.form.is_wide) {
    to.add(plan.count);
  } else {
    to.add(static_cast<std::int32_t>(plan.count));
  }
}

void add_strides(ParameterBlock& to, const Plan& plan, std::size_t inputs) noexcept {
  if (!plan.has_strided) {
    return;
  }
  const Space& space = plan.space;
  for (int axis = 1; axis < space.rank; ++axis) {
    const std::int64_t size = space.size[static_cast<std::size_t>(axis)];
    if (plan.form.is_wide) {
      to.add(size);
      continue;
    }
    const Divisor divisor(size);
    to.add(static_cast<std::uint32_t>(size)).add(divisor.factor).add(divisor.shift);
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    for (int axis = 0; is_strided(plan.form.access[i]) && axis < space.rank; ++axis) {
      const std::int64_t stride = space.stride[i][static_cast<std::size_t>(axis)];
      if (plan.form.is_wide) {
        to.add(stride);
      } else {
        to.add(static_cast<std::int32_t>(stride));
      }
    }
  }
}

Grid grid_of(const Plan& plan, const KernelEncoder& encoder) noexcept {
  const std::int64_t taken = std::int64_t{plan.form.threads} * plan.form.pieces * plan.form.vector;
  return encoder.linear((plan.count + taken - 1) / taken);
}

// ---- kinds ----

// True if an expression depends on more than kind, flags and types.
bool has_choice(const OpView& op) noexcept {
  switch (op.kind()) {
    case OpKind::sgd_step:
      return op.attributes<SgdAttributes>().nesterov != 0;
    case OpKind::adam_step:
      return op.attributes<AdamAttributes>().decoupled != 0;
    default:
      return false;
  }
}

// True if the body of a kind is too long to stand in a shader several times. Long bodies have
// random numbers of two or four words, a logarithm, a sine and a cosine, or a power in f64.
// NVIDIA's driver compiles two such powers in 20 copies in 2 s, and in one copy in 0.1 s. More
// kinds count as long on software drivers, which compile slowly and gain nothing from vectors.
bool has_long_body(const KernelCall& call, const DeviceLimits& limits) noexcept {
  switch (call.op.kind()) {
    case OpKind::random_normal:
      return true;
    case OpKind::random_uniform:
      return limits.is_cpu || call.outputs[0].dtype == DType::f64;
    case OpKind::random_bernoulli:
    case OpKind::dropout:
    case OpKind::sin:
    case OpKind::cos:
      return limits.is_cpu;
    case OpKind::pow:
      return limits.is_cpu || call.outputs[0].dtype == DType::f64;
    default:
      return false;
  }
}
bool has_immediate(const OpRecord& record) noexcept {
  return record.has(RecordFlag::scalar_lhs) || record.has(RecordFlag::scalar_rhs);
}

bool is_binary(OpKind kind) noexcept {
  return op_info(kind).op_class == OpClass::binary;
}

// True if op_parameters() returns more than an immediate.
bool has_parameters(OpKind kind) noexcept {
  return kind <= OpKind::random_bernoulli || kind == OpKind::dropout || kind == OpKind::sgd_step ||
         kind == OpKind::adam_step;
}

bool fails_on_data(const KernelCall& call) noexcept {
  return may_fail(call.op.kind(),
                  call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype);
}

KernelIR kernel_of(const KernelCall& call) {
  KernelBuilder builder({0});
  std::vector<AffineIndex> plain(1);
  plain[0].terms.push_back({.axis = 0});
  std::vector<KernelValue> inputs;
  for (const TensorView& view : call.inputs) {
    inputs.push_back(builder.input(view.dtype, plain));
  }
  const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
  std::vector<KernelValue> parameters;
  for (const KernelParameter& each : op_parameters(call.op, dtype)) {
    parameters.push_back(builder.parameter(each.type));
  }
  std::vector<DType> types;
  for (const TensorView& view : call.outputs) {
    types.push_back(view.dtype);
  }
  for (const KernelValue& value : op_expression(builder, call.op, inputs, parameters, types)) {
    builder.output(value);
  }
  return builder.take();
}

void add_scalars(ParameterBlock& to, const KernelCall& call) {
  const OpRecord& record = call.op.record();
  const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
  if (has_parameters(record.kind)) {
    for (const KernelParameter& each : op_parameters(call.op, dtype)) {
      add_scalar(to, each.type, each.value);
    }
  } else if (is_binary(record.kind) && has_immediate(record)) {
    add_scalar(to, compute_type(dtype), call.op.attributes<ScalarAttributes>());
  }
}

}  // namespace

void add_scalar(ParameterBlock& to, DType type, const ScalarAttributes& value) noexcept {
  switch (type) {
    case DType::f32:
      to.add(static_cast<float>(value.real));
      break;
    case DType::f64:
      to.add(value.real);
      break;
    case DType::f16:
      to.add(static_cast<float>(f16(sticky_f32(value.real))));
      break;
    case DType::bf16:
      to.add(static_cast<float>(bf16(sticky_f32(value.real))));
      break;
    case DType::i64:
      to.add(value.integer);
      break;
    case DType::i32:
      to.add(static_cast<std::int32_t>(value.integer));
      break;
    case DType::i8:
      to.add(std::int32_t{static_cast<std::int8_t>(value.integer)});
      break;
    case DType::u8:
      to.add(static_cast<std::uint32_t>(value.integer) & 255U);
      break;
    default:
      to.add(value.integer != 0 ? 1U : 0U);
      break;
  }
}

bool has_long_body(const KernelIR& kernel, const DeviceLimits& limits) noexcept {
  if (kernel.body.size() > kLongBody) {
    return true;
  }
  return std::ranges::any_of(kernel.body, [&limits](const KernelNode& node) {
    const bool is_pow = node.primitive == Primitive::pow;
    const bool is_slow_anywhere = is_pow && node.type == DType::f64;
    const bool is_slow_in_software = is_pow || node.primitive == Primitive::philox ||
                                     node.primitive == Primitive::sin ||
                                     node.primitive == Primitive::cos;
    return is_slow_anywhere || (limits.is_cpu && is_slow_in_software);
  });
}

Support supports_types(const KernelIR& kernel, std::string_view op, const DeviceLimits& limits) {
  const auto is_wide = [](const KernelNode& node) { return node.type == DType::f64; };
  if (limits.has_f64 || std::ranges::none_of(kernel.body, is_wide)) {
    return {};
  }
  return {.yes = false,
          .reason = fmt::format("{}: it computes in f64, which the device's kernels have not", op)};
}

Support supports_elementwise(const KernelCall& call, const DeviceLimits& limits) {
  return limits.has_f64 ? Support{} : supports_types(kernel_of(call), name(call.op.kind()), limits);
}

Status encode_elementwise(const KernelCall& call, KernelEncoder& encoder) {
  const Plan plan(call, encoder, fails_on_data(call), has_long_body(call, encoder.limits()));
  if (plan.count == 0) {
    return {};
  }
  const OpRecord& record = call.op.record();
  constexpr auto kSides = static_cast<std::uint32_t>(RecordFlag::scalar_lhs) |
                          static_cast<std::uint32_t>(RecordFlag::scalar_rhs);
  KernelKey key(KernelFamily::pointwise);
  key.add(static_cast<std::uint32_t>(record.kind) | (record.flags & kSides) << 16U |
          static_cast<std::uint32_t>(call.inputs.size()) << 20U |
          static_cast<std::uint32_t>(call.outputs.size()) << 24U |
          (has_choice(call.op) ? 1U << 28U : 0U));
  std::uint64_t types = 0;
  for (const TensorView& view : call.inputs) {
    types = types << 4U | static_cast<std::uint64_t>(view.dtype);
  }
  for (const TensorView& view : call.outputs) {
    types = types << 4U | static_cast<std::uint64_t>(view.dtype);
  }
  key.add(types);
  add_form(key, plan.form, call.inputs.size());

  ParameterBlock parameters;
  add_addresses(parameters, call, encoder, plan);
  add_scalars(parameters, call);
  add_strides(parameters, plan, call.inputs.size());
  const auto make_text = [&] {
    return pointwise_text(kernel_of(call), plan.form, parameters.size_bytes());
  };
  if (!interprets(encoder.limits()) || plan.form.may_fail) {
    return encoder.dispatch(key, make_text, parameters, grid_of(plan, encoder));
  }
  return encoder.dispatch_or(
      key, make_text, parameters, grid_of(plan, encoder), [&]() -> Result<bool> {
        std::vector<ScalarAttributes> scalars;
        const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
        for (const KernelParameter& each : op_parameters(call.op, dtype)) {
          scalars.push_back(each.value);
        }
        return interpret(call, kernel_of(call), scalars, encoder);
      });
}

Status encode_pointwise_expression(const KernelCall& call, KernelEncoder& encoder) {
  const Expression& expression = *call.expression;
  const Plan plan(
      call, encoder, expression.may_fail, has_long_body(expression.kernel, encoder.limits()));
  if (plan.count == 0) {
    return {};
  }
  KernelKey key(KernelFamily::pointwise);
  key.add(static_cast<std::uint32_t>(OpKind::expression)).add(expression.hash);
  key.add(expression.may_fail);
  add_form(key, plan.form, call.inputs.size());

  ParameterBlock parameters;
  add_addresses(parameters, call, encoder, plan);
  const ExpressionParameters scalars(call.op, expression);
  for (std::size_t i = 0; i < expression.kernel.parameters.size(); ++i) {
    add_scalar(parameters, expression.kernel.parameters[i], scalars.all()[i]);
  }
  add_strides(parameters, plan, call.inputs.size());
  const auto make_text = [&] {
    return pointwise_text(expression.kernel, plan.form, parameters.size_bytes());
  };
  if (!interprets(encoder.limits()) || expression.may_fail) {
    return encoder.dispatch(key, make_text, parameters, grid_of(plan, encoder));
  }
  return encoder.dispatch_or(
      key, make_text, parameters, grid_of(plan, encoder), [&]() -> Result<bool> {
        return interpret(call, expression.kernel, scalars.all(), encoder);
      });
}

}  // namespace hearth::gpu
