#include "row_operands.hpp"

#include "backends/cpu/elementwise/cast_loops.hpp"
#include "backends/cpu/elementwise/chunk_walk.hpp"
#include "backends/cpu/elementwise/unary_loops.hpp"

#include <algorithm>
#include <cstring>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t bytes_of(const TensorView& view, DType type) noexcept {
  const std::int64_t bytes = view.element_count() * size_bytes(type);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Copies by a walk whose body only copies: the walk gathers and casts.
void lay_out(const TensorView& from, std::byte* to, DType type, KernelContext& context) {
  const hearth::detail::Layout layout(from.shape());
  const TensorView target{.data = to, .layout = &layout, .dtype = type};
  const WalkSpec spec{
      .inputs = {&from, 1}, .outputs = {&target, 1}, .input_types = {type}, .output_types = {type}};
  const std::int64_t size = size_bytes(type);
  walk_chunks(spec, context, [size](const Chunk& chunk) {
    std::memcpy(chunk.out[0], chunk.in[0], static_cast<std::size_t>(chunk.count * size));
  });
}

}  // namespace

Status RowOperands::prepare(const KernelCall& call,
                            std::size_t first,
                            std::size_t count,
                            const TensorView& out,
                            KernelContext& context) {
  type_ = compute_dtype(out.dtype);
  result_ = out;
  const bool is_half = out.dtype != type_;
  std::int64_t bytes = is_half ? bytes_of(out, type_) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorView& in = call.inputs[first + i];
    bytes += is_half || !in.layout->contiguous ? bytes_of(in, type_) : 0;
  }
  std::byte* memory = nullptr;
  if (bytes > 0) {
    HEARTH_TRY(memory, context.scratch.take_all(bytes));
  }
  output_ = is_half ? memory : out.data;
  memory += is_half ? bytes_of(out, type_) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorView& in = call.inputs[first + i];
    inputs_[i] = in.data;
    if (is_half || !in.layout->contiguous) {
      lay_out(in, memory, type_, context);
      inputs_[i] = memory;
      memory += bytes_of(in, type_);
    }
  }
  return {};
}

void RowOperands::finish(KernelContext& context) const {
  if (output_ == result_.data) {
    return;
  }
  const hearth::detail::Layout layout(result_.shape());
  const TensorView from{.data = output_, .layout = &layout, .dtype = type_};
  const WalkSpec spec{.inputs = {&from, 1},
                      .outputs = {&result_, 1},
                      .input_types = {type_},
                      .output_types = {result_.dtype}};
  const CastLoop cast = cast_loops(context.isa).at(type_, result_.dtype);
  walk_chunks(
      spec, context, [cast](const Chunk& chunk) { cast(chunk.out[0], chunk.in[0], chunk.count); });
}

}  // namespace hearth::cpu
