#include "expression.hpp"

#include "backends/cpu/machine/part_memory.hpp"
#include "program_cache.hpp"
#include "row_call.hpp"
#include "tile_call.hpp"
#include "tile_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace hearth::cpu {

namespace {

// Limit of the sets cut together: parts of small sets would not be worth a fork each.
constexpr std::size_t kMostTogether = 256;

Error misfit(std::string_view what, std::size_t wanted, std::size_t given) {
  return {.code = ErrorCode::invalid_argument,
          .text = fmt::format("kernel: {} {}, {} given", wanted, what, given)};
}

Status check(const TileProgram& program, const ExpressionCall& call) {
  const KernelIR& kernel = program.kernel;
  if (call.inputs.size() != kernel.inputs.size()) {
    return misfit("inputs", kernel.inputs.size(), call.inputs.size());
  }
  if (call.outputs.size() != kernel.outputs.size()) {
    return misfit("outputs", kernel.outputs.size(), call.outputs.size());
  }
  if (call.parameters.size() != kernel.parameters.size()) {
    return misfit("parameters", kernel.parameters.size(), call.parameters.size());
  }
  return {};
}

Error error_of(const UndefinedElement& undefined) {
  const TileInstruction& instruction = *undefined.instruction;
  const bool is_div = instruction.kind == OpKind::div;
  return {.code = ErrorCode::kernel_failed,
          .text = fmt::format("kernel: node %{} {}: {} at element {}: {} and {}",
                              instruction.node,
                              is_div ? "div" : "pow",
                              is_div ? "division by zero" : "zero to a negative power",
                              undefined.place,
                              undefined.operands[0],
                              undefined.operands[1])};
}

// Compares bits, so that NaN equals itself.
bool are_equal(std::span<const ScalarAttributes> a, std::span<const ScalarAttributes> b) noexcept {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class ProgramLaunch {
 public:
  ProgramLaunch(const TileProgram& program, KernelContext& context)
      : program_(program), arena_(context.arena), scratch_(context.scratch), isa_(context.isa) {}

  // Phases: check integers for undefined results; then compute and store.
  Status run(std::span<const ExpressionCall> calls) {
    if (program_.has_rows) {
      for (const ExpressionCall& call : calls) {
        HEARTH_TRY_STATUS(run_rows(call));
      }
      return {};
    }
    if (program_.may_fail) {
      for (const ExpressionCall& call : calls) {
        HEARTH_TRY_STATUS(check_call(call));
      }
    }
    if (calls.size() == 1) {
      run_alone(calls[0]);
      return {};
    }
    while (!calls.empty()) {
      const std::size_t count = std::min(calls.size(), kMostTogether);
      run_together(calls.first(count));
      calls = calls.subspan(count);
    }
    return {};
  }

 private:
  // Each part finds its first undefined place; the first of all is evaluated again for its values.
  Status check_call(const ExpressionCall& call) {
    const TileCall tiles(program_, call, isa_);
    if (tiles.count() == 0) {
      return {};
    }
    TileRun run(program_, isa_);
    UndefinedElement undefined;
    if (run.start(call.parameters, tiles.sizes(), undefined)) {
      return error_of(undefined);
    }
    if (!run.may_fail()) {
      return {};
    }
    std::atomic<std::int64_t> first{tiles.count()};
    arena_.parallel_for(tiles.count(), program_.grain, [&](std::int64_t begin, std::int64_t end) {
      TileRun part(program_, isa_);
      UndefinedElement found;
      static_cast<void>(part.start(call.parameters, tiles.sizes(), found));
      if (!tiles.find_undefined(part, begin, end, found)) {
        return;
      }
      std::int64_t known = first.load(std::memory_order_acquire);
      while (found.place < known &&
             !first.compare_exchange_weak(known, found.place, std::memory_order_acq_rel)) {
      }
    });
    // Pairs with the exchange above; the parts have been joined.
    const std::int64_t place = first.load(std::memory_order_acquire);
    if (place == tiles.count() || !tiles.find_undefined(run, place, place + 1, undefined)) {
      return {};
    }
    return error_of(undefined);
  }

  void run_alone(const ExpressionCall& call) {
    const TileCall tiles(program_, call, isa_);
    arena_.parallel_for(tiles.count() == 0 ? 0 : tiles.unit_count(),
                        tiles.grain(),
                        [&](std::int64_t begin, std::int64_t end) {
                          TileRun run(program_, isa_);
                          UndefinedElement none;  // checked before
                          static_cast<void>(run.start(call.parameters, tiles.sizes(), none));
                          tiles.run(run, begin, end);
                        });
  }

  // At most one part per core runs at a time, each in memory of its own.
  Status run_rows(const ExpressionCall& call) {
    HEARTH_TRY(const RowCall rows, RowCall::make(program_, call, isa_));
    const std::int64_t parts = std::min<std::int64_t>(
        arena_.core_count(), (rows.row_count() + rows.grain() - 1) / rows.grain());
    if (parts == 0) {
      return {};
    }
    HEARTH_TRY(std::byte* const memory,
               scratch_.take_all(PartMemory::bytes(parts, rows.part_bytes())));
    const PartMemory pieces(memory, parts, rows.part_bytes());
    arena_.parallel_for(rows.row_count(), rows.grain(), [&](std::int64_t begin, std::int64_t end) {
      rows.run(PartMemory::Part(pieces).data(), begin, end);
    });
    return {};
  }

  // Contiguous sets are cut as if concatenated. Their cells depend on the parameters alone, which
  // an optimizer's updates mostly share.
  void run_together(std::span<const ExpressionCall> calls) {
    std::array<std::int64_t, kMostTogether> counts{};
    std::int64_t total = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      counts[i] = TileCall::flat_count(program_, calls[i]);
      total += counts[i];
    }
    arena_.parallel_for(total, program_.grain, [&](std::int64_t begin, std::int64_t end) {
      TileRun run(program_, isa_);
      const ExpressionCall* started = nullptr;
      std::int64_t first = 0;  // first element within the current set
      for (std::size_t i = 0; i < calls.size() && first < end; ++i) {
        const std::int64_t from = std::max<std::int64_t>(begin - first, 0);
        const std::int64_t to = std::min(end - first, counts[i]);
        first += counts[i];
        if (from >= to) {
          continue;
        }
        const TileCall tiles(program_, calls[i], isa_);
        if (started == nullptr || !are_equal(started->parameters, calls[i].parameters)) {
          UndefinedElement none;  // checked before
          // Such kernels have one axis, whose size no instruction reads.
          static_cast<void>(run.start(calls[i].parameters, {}, none));
          started = &calls[i];
        }
        tiles.run(run, from, to);
      }
    });
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (counts[i] == 0) {
        run_alone(calls[i]);
      }
    }
  }

  const TileProgram& program_;
  Arena& arena_;
  Scratch& scratch_;
  IsaLevel isa_;
};

}  // namespace

Status run_expression(const KernelIR& kernel,
                      std::uint64_t hash,
                      std::span<const ExpressionCall> calls,
                      KernelContext& context) {
  HEARTH_TRY(const TileProgram* const program, context.programs->find(kernel, hash, context.isa));
  return run_program(*program, calls, context);
}

Status run_program(const TileProgram& program,
                   std::span<const ExpressionCall> calls,
                   KernelContext& context) {
  for (const ExpressionCall& call : calls) {
    HEARTH_TRY_STATUS(check(program, call));
  }
  return ProgramLaunch(program, context).run(calls);
}

}  // namespace hearth::cpu
