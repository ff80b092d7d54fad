#include "backends/cpu/machine/kernel_table.hpp"
#include "chunk_walk.hpp"
#include "optimizer_loops.hpp"
#include "unary_loops.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cmath>

namespace hearth::cpu {

namespace {

// Elements worth a fork: fewer than for a cheap op, since each one moves seven streams of memory.
constexpr std::int64_t kOptimizerGrain = std::int64_t{3} << 14;

template <class T>
SgdArrays<T> sgd_arrays(const Chunk& chunk) noexcept {
  return {static_cast<T*>(chunk.out[0]),
          static_cast<T*>(chunk.out[1]),
          static_cast<const T*>(chunk.in[0]),
          static_cast<const T*>(chunk.in[1]),
          static_cast<const T*>(chunk.in[2])};
}

template <class T>
AdamArrays<T> adam_arrays(const Chunk& chunk) noexcept {
  return {static_cast<T*>(chunk.out[0]),
          static_cast<T*>(chunk.out[1]),
          static_cast<T*>(chunk.out[2]),
          static_cast<const T*>(chunk.in[0]),
          static_cast<const T*>(chunk.in[1]),
          static_cast<const T*>(chunk.in[2]),
          static_cast<const T*>(chunk.in[3])};
}

WalkSpec spec_of(const KernelCall& call, DType type) noexcept {
  return {.inputs = call.inputs,
          .outputs = call.outputs,
          .input_types = {type, type, type, type},
          .output_types = {type, type, type},
          .grain = kOptimizerGrain};
}

Status run_sgd(const KernelCall& call, KernelContext& context) {
  const auto a = call.op.attributes<SgdAttributes>();
  const bool is_first = a.first != 0;
  const SgdFactors factors{.learning_rate = a.learning_rate,
                           .weight_decay = a.weight_decay,
                           .keep = is_first ? 0.0 : a.momentum,
                           .take = is_first ? 1.0 : 1.0 - a.dampening,
                           .ahead = a.momentum,
                           .nesterov = a.nesterov != 0};
  const OptimizerLoops& loops = optimizer_loops(context.isa);
  const DType type = compute_dtype(call.inputs[0].dtype);
  walk_chunks(spec_of(call, type), context, [&](const Chunk& chunk) {
    if (type == DType::f64) {
      loops.sgd_f64(sgd_arrays<double>(chunk), factors, chunk.count);
    } else {
      loops.sgd_f32(sgd_arrays<float>(chunk), factors, chunk.count);
    }
  });
  return {};
}

Status run_adam(const KernelCall& call, KernelContext& context) {
  const auto a = call.op.attributes<AdamAttributes>();
  const auto step = static_cast<double>(a.step);
  const bool is_decoupled = a.decoupled != 0;
  const AdamFactors factors{
      .is_decoupled = is_decoupled,
      .decay = is_decoupled ? 1.0 - a.learning_rate * a.weight_decay : a.weight_decay,
      .beta1 = a.beta1,
      .rest1 = 1.0 - a.beta1,
      .beta2 = a.beta2,
      .rest2 = 1.0 - a.beta2,
      .step = a.learning_rate / (1.0 - std::pow(a.beta1, step)),
      .correction = 1.0 / std::sqrt(1.0 - std::pow(a.beta2, step)),
      .epsilon = a.epsilon};
  const OptimizerLoops& loops = optimizer_loops(context.isa);
  const DType type = compute_dtype(call.inputs[0].dtype);
  walk_chunks(spec_of(call, type), context, [&](const Chunk& chunk) {
    if (type == DType::f64) {
      loops.adam_f64(adam_arrays<double>(chunk), factors, chunk.count);
    } else {
      loops.adam_f32(adam_arrays<float>(chunk), factors, chunk.count);
    }
  });
  return {};
}

}  // namespace

std::span<const KernelRow> optimizer_rows() noexcept {
  // Each element is read before it is written, at its own place, so the parameter may share the
  // bytes of any input.
  static constexpr KernelRow kRows[] = {
      {OpKind::sgd_step, run_sgd, nullptr, 7},
      {OpKind::adam_step, run_adam, nullptr, 15},
  };
  return kRows;
}

}  // namespace hearth::cpu
