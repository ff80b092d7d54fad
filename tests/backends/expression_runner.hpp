// Runs expressions on its own cores, without a device. Any one thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/fused/expression.hpp"
#include "backends/cpu/fused/program_cache.hpp"
#include "tests/conformance/case_values.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/memory/host_page_provider.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

namespace hearth::cpu {

class ExpressionRunner {
 public:
  explicit ExpressionRunner(IsaLevel isa = machine_isa(), std::vector<int> cores = {0})
      : arena_(std::move(cores)),
        scratch_(pages_),
        context_{.arena = arena_,
                 .scratch = scratch_,
                 .isa = isa,
                 .use_blas = false,
                 .programs = &programs_} {}

  [[nodiscard]] Status run(const KernelIR& kernel, std::span<const ExpressionCall> calls) {
    return run_expression(kernel, hash(kernel), calls, context_);
  }
  [[nodiscard]] Status run(const KernelIR& kernel, const ExpressionCall& call) {
    return run(kernel, std::span(&call, 1));
  }
  /// Runs one elementwise op by its expression.
  [[nodiscard]] Status run_op(const KernelCall& call) {
    const std::vector<TensorSpec> inputs = specs_of(call.inputs);
    const std::vector<TensorSpec> outputs = specs_of(call.outputs);
    HEARTH_TRY(const KernelIR kernel, op_kernel(call.op, inputs, outputs));
    std::vector<ScalarAttributes> parameters;
    const DType dtype = inputs.empty() ? outputs[0].dtype : inputs[0].dtype;
    for (const KernelParameter& each : op_parameters(call.op, dtype)) {
      parameters.push_back(each.value);
    }
    return run(kernel, {call.inputs, call.outputs, parameters});
  }
  [[nodiscard]] const ProgramCache& programs() const noexcept { return programs_; }
  [[nodiscard]] KernelContext& context() noexcept { return context_; }

  [[nodiscard]] static std::vector<TensorSpec> specs_of(std::span<const TensorView> views) {
    std::vector<TensorSpec> specs;
    for (const TensorView& view : views) {
      specs.push_back({view.dtype, view.shape()});
    }
    return specs;
  }

 private:
  HostPageProvider pages_;
  Arena arena_;
  Scratch scratch_;
  ProgramCache programs_;
  KernelContext context_;
};

/// Equal bits; any two NaNs count as equal.
[[nodiscard]] inline bool is_same(const conformance::Number& a, const conformance::Number& b) {
  if (std::isnan(a.real) || std::isnan(b.real)) {
    return std::isnan(a.real) && std::isnan(b.real);
  }
  return std::bit_cast<std::uint64_t>(a.real) == std::bit_cast<std::uint64_t>(b.real) &&
         a.integer == b.integer;
}

}  // namespace hearth::cpu
