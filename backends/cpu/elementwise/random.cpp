#include "backends/cpu/machine/kernel_table.hpp"
#include "chunk_walk.hpp"
#include "random_loops.hpp"
#include "unary_loops.hpp"

#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth::cpu {

namespace {

RandomDraw draw_of(const RandomAttributes& random) noexcept {
  return {.seed = random.seed,
          .counter = random.counter,
          .limit = philox::threshold(random.a),
          .a = random.a,
          .b = random.b};
}

RandomLoops::Uniform uniform_loop(const RandomLoops& loops, DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return loops.uniform_f64;
    case DType::f16:
      return loops.uniform_f16;
    case DType::bf16:
      return loops.uniform_bf16;
    default:
      return loops.uniform_f32;
  }
}

Status run_uniform(const KernelCall& call, KernelContext& context) {
  RandomDraw draw = draw_of(call.op.attributes<RandomAttributes>());
  const philox::UniformRange range = philox::uniform_range(draw.a, draw.b, call.outputs[0].dtype);
  draw.b -= draw.a;
  draw.first = range.first;
  draw.last = range.last;
  const auto loop = uniform_loop(random_loops(context.isa), call.outputs[0].dtype);
  // Computes in f64; the walk's cast rounds each element once.
  const WalkSpec spec{
      .outputs = call.outputs, .output_types = {DType::f64}, .grain = WalkSpec::kCostlyGrain};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    loop(static_cast<double*>(chunk.out[0]), chunk.count, chunk.begin, draw);
  });
  return {};
}

Status run_normal(const KernelCall& call, KernelContext& context) {
  const RandomDraw draw = draw_of(call.op.attributes<RandomAttributes>());
  const RandomLoops& loops = random_loops(context.isa);
  const DType type = compute_dtype(call.outputs[0].dtype);
  const std::int64_t grain =
      type == DType::f64 ? WalkSpec::kCostlyGrain / 16 : WalkSpec::kCostlyGrain;
  const WalkSpec spec{.outputs = call.outputs, .output_types = {type}, .grain = grain};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    if (type == DType::f64) {
      loops.normal_f64(static_cast<double*>(chunk.out[0]), chunk.count, chunk.begin, draw);
    } else {
      loops.normal_f32(static_cast<float*>(chunk.out[0]), chunk.count, chunk.begin, draw);
    }
  });
  return {};
}

Status run_bernoulli(const KernelCall& call, KernelContext& context) {
  const RandomDraw draw = draw_of(call.op.attributes<RandomAttributes>());
  const auto loop = random_loops(context.isa).hits;
  const WalkSpec spec{
      .outputs = call.outputs, .output_types = {DType::boolean}, .grain = WalkSpec::kCostlyGrain};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    loop(static_cast<std::uint8_t*>(chunk.out[0]), chunk.count, chunk.begin, draw);
  });
  return {};
}

Status run_dropout(const KernelCall& call, KernelContext& context) {
  RandomDraw draw = draw_of(call.op.attributes<RandomAttributes>());
  draw.b = 1.0 / (1.0 - draw.a);
  const RandomLoops& loops = random_loops(context.isa);
  const DType type = compute_dtype(call.inputs[0].dtype);
  const WalkSpec spec{.inputs = call.inputs,
                      .outputs = call.outputs,
                      .input_types = {type},
                      .output_types = {type},
                      .grain = WalkSpec::kCostlyGrain};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    if (type == DType::f64) {
      loops.dropout_f64(static_cast<double*>(chunk.out[0]),
                        static_cast<const double*>(chunk.in[0]),
                        chunk.count,
                        chunk.begin,
                        draw);
    } else {
      loops.dropout_f32(static_cast<float*>(chunk.out[0]),
                        static_cast<const float*>(chunk.in[0]),
                        chunk.count,
                        chunk.begin,
                        draw);
    }
  });
  return {};
}

}  // namespace

std::span<const KernelRow> random_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {OpKind::random_uniform, run_uniform, nullptr, 0},
      {OpKind::random_normal, run_normal, nullptr, 0},
      {OpKind::random_bernoulli, run_bernoulli, nullptr, 0},
      {OpKind::dropout, run_dropout, nullptr, 1},
  };
  return kRows;
}

}  // namespace hearth::cpu
