#include <hearth/backends/cpu/cpu_backend.hpp>

#include "backends/cpu/fused/expression_kernel.hpp"
#include "backends/cpu/fused/program_cache.hpp"
#include "backends/cpu/machine/arena.hpp"
#include "backends/cpu/machine/kernel_table.hpp"
#include "backends/cpu/machine/scratch.hpp"
#include "backends/cpu/machine/sweep_memory.hpp"
#include "backends/cpu/products/epilogue.hpp"
#include "backends/cpu/products/gemm_blas.hpp"

#include <hearth/autotune/fingerprint.hpp>
#include <hearth/backends/issue_inline.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hearth::cpu {

struct CpuBackend::Machine final : KernelMaker {
  Machine(std::vector<int> cores, bool serial, IsaLevel isa, PageProvider& pages)
      : arena(std::move(cores), serial),
        scratch(pages),
        context{.arena = arena,
                .scratch = scratch,
                .isa = isa,
                .use_blas = blas_status().usable && is_worthy_blas_core(blas_status().core, isa),
                .sweeps = &sweeps,
                .programs = &programs} {
    for (const auto& group : {elementwise_rows(),
                              random_rows(),
                              reduction_rows(),
                              row_rows(),
                              optimizer_rows(),
                              expression_rows(),
                              matmul_rows(),
                              conv_rows(),
                              pool_rows(),
                              indexing_rows(),
                              attention_rows(),
                              custom_rows()}) {
      for (const KernelRow& row : group) {
        rows[static_cast<std::size_t>(row.kind)] = row;
        facts.of(row.kind) = facts_of(row);
      }
    }
  }
  [[nodiscard]] static KindFacts facts_of(const KernelRow& row) noexcept {
    KindFacts facts{.aliased_inputs = row.may_alias_mask,
                    .prologue_inputs = 1,  // input 0
                    .takes_epilogue = row.takes_epilogue};
    for (const OpKind producer : row.producers) {
      facts.prologue_makers.set(static_cast<std::size_t>(producer));
    }
    return facts;
  }

  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override {
    const KernelRow& of_kind = row(call.op.kind());
    return of_kind.joinable_calls == nullptr || call.prologue != nullptr
               ? 1
               : of_kind.joinable_calls(call);
  }

  [[nodiscard]] std::vector<detail::Candidate> candidates(const KernelCall& call) const override {
    const KernelRow& of_kind = row(call.op.kind());
    return of_kind.candidates == nullptr ? std::vector<detail::Candidate>()
                                         : of_kind.candidates(call, context);
  }

  [[nodiscard]] const KernelRow& row(OpKind kind) const noexcept {
    return rows[static_cast<std::size_t>(kind)];
  }

  Arena arena;
  Scratch scratch;
  SweepMemory sweeps;
  ProgramCache programs;
  KernelContext context;
  std::array<KernelRow, kOpKindCount> rows{};
  KernelFacts facts;
};

CpuBackend::CpuBackend(CpuOptions options)
    : pages_(options.pages),
      machine_(std::make_unique<Machine>(
          options.cores.empty() ? shared_cores() : std::move(options.cores),
          options.serial,
          std::min(options.max_isa, machine_isa()),
          pages_)) {
  if (const std::string& starving = blas_status().starving; !starving.empty()) {
    throw_error(Error{.code = ErrorCode::out_of_memory,
                      .text = starving,
                      .op = "Runtime",
                      .device = options.name});
  }
  const int core_count = machine_->arena.core_count();
  info_ =
      BackendInfo{.name = std::move(options.name),
                  .description = fmt::format("{} core{} of {}, {}, {}",
                                             core_count,
                                             core_count == 1 ? "" : "s",
                                             machine_name(),
                                             hearth::cpu::name(isa()),
                                             describe_products(isa())),
                  .core_count = core_count,
                  .peaks_name = fmt::format("{}, {}", processor_name(), hearth::cpu::name(isa())),
                  .fingerprint = detail::Fingerprint::of({{"processor", processor_name()},
                                                          {"isa", hearth::cpu::name(isa())},
                                                          {"cores", fmt::to_string(core_count)},
                                                          {"products", describe_products(isa())}})
                                     .text};
}

CpuBackend::~CpuBackend() = default;

IsaLevel CpuBackend::isa() const noexcept {
  return machine_->context.isa;
}

Support CpuBackend::supports(const KernelCall& call) const {
  const OpKind kind = call.op.kind();
  const KernelRow& row = machine_->row(kind);
  const OpInfo& op = op_info(kind);
  if (row.run == nullptr) {
    return {.yes = false,
            .reason = fmt::format("{}: the CPU backend has no kernel for it", op.name)};
  }
  // The first input of `where` is the condition, so its type is not that of the values.
  const bool is_by_output = call.inputs.empty() || kind == OpKind::where;
  const DType dtype = is_by_output ? call.outputs[0].dtype : call.inputs[0].dtype;
  if (!accepts(kind, dtype)) {
    return {.yes = false,
            .reason = fmt::format(
                "{}: {} is not one of {}", op.name, hearth::name(dtype), describe(op.dtypes))};
  }
  if (call.prologue != nullptr) {
    if (Support support = supports_prologue(call); !support.yes) {
      return support;
    }
  }
  if (kind == OpKind::expression) {
    return supports_expression_call(call, machine_->context);
  }
  if (call.epilogue != nullptr) {
    return row.takes_epilogue
               ? supports_epilogue(call, machine_->context)
               : Support{.yes = false, .reason = fmt::format("{} with an epilogue", op.name)};
  }
  return row.supports == nullptr ? Support{} : row.supports(call);
}

Support CpuBackend::supports_prologue(const KernelCall& call) const {
  const KernelCall& producer = *call.prologue->call;
  const TensorView& input = call.inputs[static_cast<std::size_t>(call.prologue->input)];
  if (!facts().may_take_prologue(call.op.kind(), call.prologue->input, producer.op.kind()) ||
      producer.prologue != nullptr || producer.outputs.size() != 1) {
    return {.yes = false,
            .reason = fmt::format("{} takes no prologue for input {} of a call of {}",
                                  hearth::name(call.op.kind()),
                                  call.prologue->input,
                                  hearth::name(producer.op.kind()))};
  }
  if (producer.outputs[0].dtype != input.dtype || !input.layout->contiguous ||
      producer.outputs[0].element_count() != input.element_count()) {
    return {.yes = false, .reason = "a prologue's result is the whole input"};
  }
  if (Support support = supports(producer); !support.yes) {
    return support;
  }
  return machine_->row(call.op.kind()).supports_prologue(call, machine_->context);
}

const KernelFacts& CpuBackend::facts() const noexcept {
  return machine_->facts;
}

KernelMaker& CpuBackend::kernels() noexcept {
  return *machine_;
}

Issue CpuBackend::submit(std::span<const Launch> batch, std::span<const TimelinePoint> /*after*/) {
  if (batch.size() > 1) {
    return submit_several(batch);
  }
  if (!batch.empty() && batch[0].pick != detail::kRulePick) {
    return submit_picked(batch[0]);
  }
  return issue_inline(batch, [this](const KernelCall& call) { return run(call); });
}

Issue CpuBackend::submit_picked(const Launch& launch) {
  const KernelRow& row = machine_->row(launch.call.op.kind());
  machine_->context.pick = launch.pick;
  Issue issue{.may_have_begun = false, .is_pick_refused = true};
  if (row.allows_pick != nullptr && row.allows_pick(launch.call, machine_->context)) {
    issue = issue_inline({&launch, 1}, [this](const KernelCall& call) { return run(call); });
  } else {
    issue.status = Error{.code = ErrorCode::unsupported,
                         .text = fmt::format("{}: the call does not allow candidate {}",
                                             op_info(launch.call.op.kind()).name,
                                             launch.pick),
                         .device = info_.name};
  }
  machine_->context.pick = detail::kRulePick;
  return issue;
}

Status CpuBackend::run(const KernelCall& call) {
  const KernelRow& row = machine_->row(call.op.kind());
  if (row.run == nullptr) {
    const auto op = std::string(op_info(call.op.kind()).name);
    return Error{.code = ErrorCode::unsupported,
                 .text = op + ": the CPU backend has no kernel for it",
                 .op = op,
                 .device = info_.name};
  }
  Status status = row.run(call, machine_->context);
  machine_->scratch.release();
  return status;
}

Issue CpuBackend::submit_several(std::span<const Launch> batch) {
  calls_.clear();
  std::ranges::transform(batch, std::back_inserter(calls_), &Launch::call);
  Issue issue;
  while (issue.issued < calls_.size() && issue.status.has_value()) {
    if (batch[issue.issued].pick != detail::kRulePick) {
      Issue picked = submit_picked(batch[issue.issued]);
      picked.issued += issue.issued;
      issue = std::move(picked);
      continue;
    }
    const std::span<const KernelCall> left = std::span(calls_).subspan(issue.issued);
    const std::size_t count = equal_expressions(left);
    issue.status =
        count == 1 ? run(left[0]) : run_expression_batch(left.first(count), machine_->context);
    issue.issued += issue.status.has_value() ? static_cast<std::uint32_t>(count) : 0;
  }
  return issue;
}

void CpuBackend::use_scratch(ScratchMemory& scratch) noexcept {
  machine_->scratch.use(scratch);
}

}  // namespace hearth::cpu
