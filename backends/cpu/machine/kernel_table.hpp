// The CPU backend's kernels: one row for each kind, in groups with a file each. Private to
// backends/cpu. Threads: owner only; a kernel forks and joins inside Arena::parallel_for.
// Invariants: (1) size alone determines how sums are cut, and partial sums are joined in a fixed
// order. So the bits depend neither on the arena nor on its awake threads. (2) A kernel allocates
// from Scratch, never from the heap on the warm path. It does so before it stores over an input, so
// it can be retried when the allocation fails.
#pragma once

#include "arena.hpp"
#include "scratch.hpp"

#include <hearth/autotune/candidate.hpp>
#include <hearth/backends/cpu/isa.hpp>
#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/op_kind.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace hearth::cpu {

class ProgramCache;
class SweepMemory;

struct KernelContext {
  Arena& arena;      ///< The device's cores.
  Scratch& scratch;  ///< Reused memory for packing and partial results.
  IsaLevel isa;
  bool use_blas;                     ///< OpenBLAS is the pthread build; else our own GEMM runs.
  SweepMemory* sweeps = nullptr;     ///< Reading directions; nullptr: always forwards.
  ProgramCache* programs = nullptr;  ///< Tile programs; required by expressions.
  /// Candidate of the running call; kernels without choices ignore it.
  detail::CandidateId pick = detail::kRulePick;
};

using KernelFn = Status (*)(const KernelCall& call, KernelContext& context);
using SupportFn = Support (*)(const KernelCall& call);
using PrologueFn = Support (*)(const KernelCall& call, const KernelContext& context);
using ChoiceFn = std::vector<detail::Candidate> (*)(const KernelCall& call,
                                                    const KernelContext& context);
using PickFn = bool (*)(const KernelCall& call, const KernelContext& context) noexcept;
using JoinFn = std::int64_t (*)(const KernelCall& call) noexcept;

struct KernelRow {
  OpKind kind;
  KernelFn run;
  SupportFn supports;                ///< nullptr: all dtypes and layouts of the op table.
  std::uint32_t may_alias_mask = 0;  ///< Bit i: output 0 may share the bytes of input i.
  JoinFn joinable_calls = nullptr;   ///< KernelMaker::joinable_calls; nullptr: 1.
  bool takes_epilogue = false;       ///< Accepts an epilogue that passes supports_epilogue().
  /// Kinds whose calls may produce input 0 (Prologue), if supports_prologue accepts the call.
  std::span<const OpKind> producers = {};
  PrologueFn supports_prologue = nullptr;
  ChoiceFn candidates = nullptr;  ///< KernelMaker::candidates; nullptr: none.
  /// Whether the call allows the context's pick; set if `candidates` is.
  PickFn allows_pick = nullptr;
};

[[nodiscard]] std::span<const KernelRow>
elementwise_rows() noexcept;  // creation, cast, unary, binary, where, copy, concat, slice_scatter
[[nodiscard]] std::span<const KernelRow> random_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> reduction_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> row_rows() noexcept;  // softmax, cross entropy
[[nodiscard]] std::span<const KernelRow> optimizer_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> expression_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> matmul_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> conv_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> pool_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> indexing_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> attention_rows() noexcept;
[[nodiscard]] std::span<const KernelRow> custom_rows() noexcept;

}  // namespace hearth::cpu
