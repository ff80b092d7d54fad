// Splits the work. A row that is short for a subgroup's threads belongs to the subgroup or a part
// of it, so folds are shuffles without barriers. A longer row has a workgroup. Each thread keeps
// the elements that later stages need in registers, so each input is read once. Rows too long for
// that are read once for each stage, and recomputed.
#include "rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/pointwise.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/row_stages.hpp"
#include "pointwise.hpp"
#include "rows_text.hpp"

namespace hearth::gpu {
namespace {

/// Elements of a row that a thread keeps, with a workgroup for the row and with fewer threads.
constexpr std::int64_t kKeptElements = 16;
constexpr std::int64_t kMostKeptElements = 32;
/// Places below this leave room for the overhang of a grid.
constexpr std::int64_t kMostNarrowRows = (std::int64_t{1} << 31U) - (std::int64_t{1} << 24U);

bool is_aligned_to(const TensorView& view, std::int64_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(view.data) %  // NOLINT: a device address
             static_cast<std::uintptr_t>(bytes) ==
         0;
}

struct RowPlan {
  explicit RowPlan(const Shape& of) : space(of) {}

  StridedSpace<kMostExpressionInputs> space;
  RowForm form;
  std::int64_t rows = 1;
  std::int64_t length = 1;
};

bool takes_row_vectors(const KernelCall& call, const RowPlan& plan, int vector) noexcept {
  const auto is_ready = [&](const TensorView& view) {
    return is_aligned_to(view, std::min<std::int64_t>(16, vector * size_bytes(view.dtype)));
  };
  if (plan.length % vector != 0) {
    return false;
  }
  const KernelIR& kernel = call.expression->kernel;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!is_of_rows(kernel.outputs[i].map) && !is_ready(call.outputs[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (plan.form.access[i] == RowAccess::one) {
      continue;
    }
    if (plan.form.access[i] == RowAccess::strided || !is_ready(call.inputs[i])) {
      return false;
    }
    for (int axis = 0; axis < plan.form.kept_rank; ++axis) {
      if (plan.space.stride[i][static_cast<std::size_t>(axis)] % vector != 0) {
        return false;
      }
    }
  }
  return true;
}

// Phases: vectors; threads for a row; elements that each of them keeps.
void cut(const KernelCall& call, const DeviceLimits& limits, RowPlan& plan) noexcept {
  RowForm& form = plan.form;
  std::int64_t smallest = 4;
  for (const TensorView& view : call.inputs) {
    smallest = std::min(smallest, size_bytes(view.dtype));
  }
  for (int vector = smallest == 4 ? 4 : 8; vector >= 4; vector /= 2) {
    const bool fits = smallest * vector >= 4 && takes_row_vectors(call, plan, vector);
    if (fits) {
      form.vector = vector;
      break;
    }
  }
  const std::int64_t units = plan.length / form.vector;
  const std::int64_t widest = std::bit_floor(std::min<std::uint32_t>(limits.subgroup_size, 64));
  const auto most_threads = static_cast<std::int64_t>(std::bit_floor(limits.most_group_threads));
  form.threads = static_cast<int>(std::min<std::int64_t>(kGroupThreads, most_threads));
  if (units * form.vector <= widest * kMostKeptElements) {
    const auto wanted = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(units, 1))));
    form.row_threads = static_cast<int>(std::min(wanted, widest));
  } else {
    const std::int64_t each = std::max<std::int64_t>(1, kKeptElements / form.vector);
    const auto wanted = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>((units + each - 1) / each)));
    form.threads = static_cast<int>(std::clamp<std::int64_t>(wanted, widest, most_threads));
    form.row_threads = form.threads;
  }
  const std::int64_t chunks = (units + form.row_threads - 1) / form.row_threads;
  form.chunks = chunks * form.vector <= kMostKeptElements ? static_cast<int>(chunks) : 0;
  // Up to 32 copies of the body. Rows that are not kept have `vector` copies. A loop there would
  // take steps for each element of a row, and drivers in software end loops early.
  form.is_rolled =
      form.chunks > 0 && (limits.is_cpu || has_long_body(call.expression->kernel, limits));
}

// Phases: the space; the rows of each input; the split.
Result<RowPlan> plan_rows(const KernelCall& call, const KernelEncoder& encoder) {
  const KernelIR& kernel = call.expression->kernel;
  const auto row_axes = static_cast<int>(call.op.attributes<ExpressionAttributes>().row_axes);
  std::array<Shape, kMostExpressionInputs> shapes;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    shapes[i] = call.inputs[i].shape();
  }
  HEARTH_TRY(const Shape space,
             row_space(kernel, std::span(shapes).first(call.inputs.size()), row_axes));
  const int kept = space.rank() - row_axes;
  RowPlan plan(space);
  for (int axis = 0; axis < space.rank(); ++axis) {
    (axis < kept ? plan.rows : plan.length) *= space[axis];
  }
  if (plan.length == 0) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("{}: rows without elements", call.expression->name),
                 .op = call.expression->name};
  }
  if (plan.rows == 0) {
    return plan;
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!is_of_rows(kernel.inputs[i].map)) {
      plan.space.add(call.inputs[i]);
      continue;
    }
    // The input has size 1 along the axes of a row, or lacks them.
    const hearth::detail::Layout& own = *call.inputs[i].layout;
    Strides& stride = plan.space.stride[plan.space.operand_count++];
    for (int axis = 0; axis < space.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      stride[at] =
          axis < kept && axis < own.shape.rank() && own.shape[axis] != 1 ? own.strides[at] : 0;
    }
  }
  RowForm& form = plan.form;
  form.kept_rank = plan.space.merge(kept);
  form.row_rank = plan.space.rank - form.kept_rank;
  std::int64_t reach = plan.rows * plan.length;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    reach = std::max(reach, plan.space.reach_from_first(i));
    const bool repeats = plan.space.repeats(i, form.kept_rank, plan.space.rank);
    const bool is_one = is_of_rows(kernel.inputs[i].map) || (repeats && plan.length > 1);
    form.access[i] = is_one ? RowAccess::one
                     : plan.space.is_linear(i, form.kept_rank, plan.space.rank)
                         ? RowAccess::vectors
                         : RowAccess::strided;
  }
  form.is_wide = reach >= kMostNarrowRows;
  const DeviceLimits& limits = encoder.limits();
  cut(call, limits, plan);
  return plan;
}

void add_axes(ParameterBlock& to, const RowPlan& plan, std::size_t inputs) noexcept {
  const RowForm& form = plan.form;
  const auto add_index = [&](std::int64_t value) {
    if (form.is_wide) {
      to.add(value);
    } else {
      to.add(static_cast<std::int32_t>(value));
    }
  };
  const int rank = form.kept_rank + form.row_rank;
  for (int axis = 1; axis < rank; ++axis) {
    if (axis == form.kept_rank) {
      continue;
    }
    const std::int64_t size = plan.space.size[static_cast<std::size_t>(axis)];
    if (form.is_wide) {
      to.add(size);
      continue;
    }
    const Divisor divisor(size);
    to.add(static_cast<std::uint32_t>(size)).add(divisor.factor).add(divisor.shift);
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    const int axes = form.access[i] == RowAccess::strided ? rank : form.kept_rank;
    for (int axis = 0; axis < axes; ++axis) {
      add_index(plan.space.stride[i][static_cast<std::size_t>(axis)]);
    }
  }
}

KernelKey rows_key(const Expression& expression, const RowForm& form, std::size_t inputs) noexcept {
  KernelKey key(KernelFamily::rows);
  key.add(expression.hash);
  key.add(static_cast<std::uint32_t>(form.threads) | static_cast<std::uint32_t>(form.row_threads)
                                                         << 16U);
  key.add(static_cast<std::uint32_t>(form.vector) | static_cast<std::uint32_t>(form.chunks) << 8U |
          static_cast<std::uint32_t>(form.kept_rank) << 16U |
          static_cast<std::uint32_t>(form.row_rank) << 20U | (form.is_wide ? 1U << 24U : 0U) |
          (form.is_rolled ? 1U << 25U : 0U));
  std::uint32_t access = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    access = access << 2U | static_cast<std::uint32_t>(form.access[i]);
  }
  key.add(access);
  return key;
}

}  // namespace

Status encode_rows(const KernelCall& call, KernelEncoder& encoder) {
  const Expression& expression = *call.expression;
  if (encoder.guard() != 0) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("{}: rows are no part of an update", expression.name),
                 .op = expression.name};
  }
  HEARTH_TRY(const RowPlan plan, plan_rows(call, encoder));
  if (plan.rows == 0) {
    return {};
  }
  ParameterBlock parameters;
  for (const TensorView& view : call.inputs) {
    parameters.add(view);
  }
  for (const TensorView& view : call.outputs) {
    parameters.add(view);
  }
  for (const std::int64_t number : {plan.rows, plan.length}) {
    if (plan.form.is_wide) {
      parameters.add(number);
    } else {
      parameters.add(static_cast<std::int32_t>(number));
    }
  }
  const ExpressionParameters scalars(call.op, expression);
  for (std::size_t i = 0; i < expression.kernel.parameters.size(); ++i) {
    add_scalar(parameters, expression.kernel.parameters[i], scalars.all()[i]);
  }
  add_axes(parameters, plan, call.inputs.size());
  const auto make_text = [&] {
    return rows_text(
        spell_out_row_functions(expression.kernel), plan.form, parameters.size_bytes());
  };
  const std::int64_t rows_each = plan.form.threads / plan.form.row_threads;
  return encoder.dispatch(rows_key(expression, plan.form, call.inputs.size()),
                          make_text,
                          parameters,
                          encoder.linear((plan.rows + rows_each - 1) / rows_each));
}

}  // namespace hearth::gpu
