#include "epilogue.hpp"

#include "backends/cpu/fused/expression.hpp"
#include "backends/cpu/fused/program_cache.hpp"
#include "backends/cpu/fused/tile_call.hpp"
#include "backends/cpu/fused/tile_run.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/kernel/expression.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace hearth::cpu {

namespace {

bool knows_places(const KernelIR& kernel) noexcept {
  return std::ranges::any_of(kernel.body, [](const KernelNode& node) {
    return node.primitive == Primitive::position || node.primitive == Primitive::index;
  });
}

/// Whether the operand has one step over all axes of the result but the last.
bool has_row_step(const TensorView& view, const Shape& result, std::int64_t& step) {
  const Strides strides = broadcast_strides(*view.layout, result);
  step = 0;
  std::int64_t inner = 1;  // product of the sizes of later axes
  for (int axis = result.rank() - 2; axis >= 0; --axis) {
    if (result[axis] == 1) {
      continue;
    }
    const std::int64_t own = strides[static_cast<std::size_t>(axis)];
    if (inner == 1) {
      step = own;
    } else if (own != step * inner) {
      return false;
    }
    inner *= result[axis];
  }
  return true;
}

/// Returns the index of an output whose bytes can hold the result, or the number of outputs if none
/// can. Prefers an output of the result's type to one of its element size.
std::size_t result_output(const KernelCall& call) noexcept {
  const DType dtype = call.epilogue->expression->kernel.inputs[0].dtype;
  auto found = std::ranges::find(call.outputs, dtype, &TensorView::dtype);
  if (found == call.outputs.end()) {
    found = std::ranges::find_if(call.outputs, [dtype](const TensorView& output) {
      return size_bytes(output.dtype) == size_bytes(dtype);
    });
  }
  return static_cast<std::size_t>(found - call.outputs.begin());
}

}  // namespace

Result<const TileProgram*> program_of(const Epilogue& epilogue, const KernelContext& context) {
  const Expression& expression = *epilogue.expression;
  return context.programs->find_lasting(expression.kernel, expression.hash, context.isa);
}

Support supports_epilogue(const KernelCall& call, KernelContext& context) {
  if (call.epilogue == nullptr) {
    return {};
  }
  const Epilogue& epilogue = *call.epilogue;
  const Result<const TileProgram*> program = program_of(epilogue, context);
  if (!program.has_value()) {
    return {.yes = false, .reason = program.error().text};
  }
  if (!program.value()->is_pointwise || program.value()->may_fail ||
      knows_places(epilogue.expression->kernel)) {
    return {.yes = false, .reason = "an epilogue works on each element by itself"};
  }
  const OpKind kind = call.op.kind();
  const bool is_product = kind == OpKind::matmul;
  if (!is_product && kind != OpKind::conv2d && kind != OpKind::conv2d_backward_input) {
    return {};  // handled by EpilogueRows
  }
  if (result_output(call) == call.outputs.size()) {
    return {.yes = false, .reason = "no result of the epilogue has elements of the product's size"};
  }
  if (!is_product) {
    return {};  // boxes have all axes of the result
  }
  const Shape& shape = call.outputs[0].shape();
  for (const TensorView& view : epilogue.inputs) {
    std::int64_t step = 0;
    if (!has_row_step(view, shape, step)) {
      return {.yes = false,
              .reason = fmt::format("the epilogue's operand {} has no single step from row to row",
                                    view.shape().to_string())};
    }
  }
  return {};
}

EpilogueBlocks::EpilogueBlocks(const KernelCall& call,
                               const TileProgram& program,
                               IsaLevel isa) noexcept
    : call_(&call), program_(&program), isa_(isa) {
  const Shape& shape = call.outputs[0].shape();
  const std::span<const TensorView> inputs = call.epilogue->inputs;
  if (call.op.kind() == OpKind::matmul) {
    const auto last = static_cast<std::size_t>(shape.rank() - 1);
    result_steps_ = {shape[shape.rank() - 1], 1};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      static_cast<void>(has_row_step(inputs[i], shape, steps_[i][0]));
      steps_[i][1] = broadcast_strides(*inputs[i].layout, shape)[last];
    }
    find_beside();
    return;
  }
  axes_ = shape.rank();
  HEARTH_ASSERT(axes_ <= static_cast<int>(ResultBox::kMostAxes), "a box has fewer axes");
  const auto set = [this](Steps& steps, const Strides& strides) {
    std::copy_n(strides.begin(), axes_, steps.begin());
  };
  set(result_steps_, call.outputs[0].strides());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    set(steps_[i], broadcast_strides(*inputs[i].layout, shape));
  }
}

// Collects the operands with an element at each place of the result; other operands are small.
void EpilogueBlocks::find_beside() noexcept {
  const auto add = [this](const TensorView& view, const Steps& steps, bool is_written) {
    const std::int64_t size = size_bytes(view.dtype);
    if (steps[0] != 0 && steps[1] == 1 && view.data != result()) {
      beside_[beside_count_++] = {view.data, steps[0] * size, size, is_written};
    }
  };
  for (std::size_t i = 0; i < call_->epilogue->inputs.size(); ++i) {
    add(call_->epilogue->inputs[i], steps_[i], false);
  }
  for (const TensorView& output : call_->outputs) {
    add(output, result_steps_, true);
  }
}

Result<EpilogueBlocks> EpilogueBlocks::make(const KernelCall& call, KernelContext& context) {
  HEARTH_TRY(const TileProgram* const program, program_of(*call.epilogue, context));
  return EpilogueBlocks(call, *program, context.isa);
}

std::byte* EpilogueBlocks::result() const noexcept {
  return call_->outputs[result_output(*call_)].data;
}

BlockSink EpilogueBlocks::sink() const noexcept {
  return {.done =
              [](const void* context,
                 std::int64_t row,
                 std::int64_t row_count,
                 std::int64_t column,
                 std::int64_t column_count) {
                static_cast<const EpilogueBlocks*>(context)->run(
                    {.first = {row, column}, .sizes = {row_count, column_count}});
              },
          .context = this,
          .beside = std::span(beside_).first(beside_count_)};
}

bool EpilogueBlocks::runs_anywhere() const noexcept {
  return call_->epilogue->inputs.empty() && call_->outputs.size() == 1 &&
         call_->outputs[0].dtype == call_->epilogue->expression->kernel.inputs[0].dtype;
}

void EpilogueBlocks::run_in_place(std::byte* elements, std::int64_t count) const {
  const hearth::detail::Layout layout(Shape{count});
  const TensorView view{elements, &layout, call_->outputs[0].dtype};
  run_on({.inputs = {&view, 1}, .outputs = {&view, 1}, .parameters = call_->epilogue->parameters});
}

void EpilogueBlocks::run_on(const ExpressionCall& call) const {
  const TileCall tiles(*program_, call, isa_);
  TileRun run(*program_, isa_);
  UndefinedElement none;  // stays unset: an epilogue has no integer ops that can fail
  static_cast<void>(run.start(call.parameters, tiles.sizes(), none));
  tiles.run(run, 0, tiles.unit_count());
}

void EpilogueBlocks::run(const ResultBox& box) const {
  const Epilogue& epilogue = *call_->epilogue;
  const Shape block(std::span(box.sizes).first(static_cast<std::size_t>(axes_)));
  std::array<hearth::detail::Layout, TileProgram::kMostInputs + TileProgram::kMostOutputs + 1>
      layouts;
  std::array<TensorView, TileProgram::kMostInputs + TileProgram::kMostOutputs + 1> views;
  std::size_t count = 0;
  const auto add = [&](std::byte* data, DType dtype, const Steps& steps) {
    Strides strides{};
    std::int64_t first = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(axes_); ++axis) {
      first += box.first[axis] * steps[axis];
      strides[axis] = box.steps[axis] * steps[axis];
    }
    layouts[count] = hearth::detail::Layout(block, strides);
    views[count] = {data + first * size_bytes(dtype), &layouts[count], dtype};
    ++count;
  };
  add(result(), epilogue.expression->kernel.inputs[0].dtype, result_steps_);
  for (std::size_t i = 0; i < epilogue.inputs.size(); ++i) {
    add(epilogue.inputs[i].data, epilogue.inputs[i].dtype, steps_[i]);
  }
  const std::size_t inputs = count;
  for (const TensorView& output : call_->outputs) {
    add(output.data, output.dtype, result_steps_);
  }
  const std::span<const TensorView> all(views.data(), count);
  run_on({.inputs = all.first(inputs),
          .outputs = all.subspan(inputs),
          .parameters = epilogue.parameters});
}

}  // namespace hearth::cpu
