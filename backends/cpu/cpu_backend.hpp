// The CPU backend: its own kernels and OpenBLAS on a set of cores, in host memory. Owned by its
// device; driven by the holder of the device's token. A kernel forks over the device's cores and
// joins before submit() returns.
// Invariants: (1) an op's result depends on its operands and the machine, never on the number of
// cores; (2) submit() allocates nothing but scratch memory, which the device owns.
#pragma once

#include <hearth/backends/backend.hpp>
#include <hearth/backends/cpu/isa.hpp>
#include <hearth/backends/host_copies.hpp>
#include <hearth/memory/host_page_provider.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hearth::cpu {

struct CpuOptions {
  std::string name = "cpu:0";
  std::vector<int> cores =
      {};  ///< Logical cores of this device; empty: all that the process may use.
  bool serial =
      false;  ///< Never fork; for the manual executor, which runs everything on one thread.
  IsaLevel max_isa = IsaLevel::avx512;  ///< Highest instruction set to use.
  HostPageOptions pages = {};
};

class CpuBackend final : public Backend {
 public:
  /// Errors: OutOfMemory if OpenBLAS's threads find no address space (ulimit -v).
  explicit CpuBackend(CpuOptions options = {});
  ~CpuBackend() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  [[nodiscard]] const KernelFacts& facts() const noexcept override;
  /// Joins products of a few rows, as many calls as keep the product small: such a product computes
  /// each row on its own.
  [[nodiscard]] KernelMaker& kernels() noexcept override;
  [[nodiscard]] CopyEngine& copies() noexcept override { return copies_; }
  /// Returns no for a kind without a kernel, and for dtypes outside the op table's.
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  /// Optimizer steps need no scratch memory; other kernels fail without it when they run.
  void use_scratch(ScratchMemory& scratch) noexcept override;
  /// Runs the ops; they are done on return.
  ///
  /// Errors: unsupported for a kind without a kernel; out_of_range for a class or a slice outside
  /// its range; kernel_failed for integer division by zero; invalid_argument for the maximum of an
  /// empty set; out_of_memory without scratch memory.
  /// Cost: about 20 ns beyond the kernel.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;

  [[nodiscard]] IsaLevel isa() const noexcept;

 private:
  struct Machine;  // the arena, the scratch memory and the kernels by kind

  [[nodiscard]] Support supports_prologue(const KernelCall& call) const;
  [[nodiscard]] Status run(const KernelCall& call);
  /// Runs a launch whose pick is not the rule.
  [[nodiscard]] Issue submit_picked(const Launch& launch);
  /// Runs neighbouring ops of one expression as one launch.
  [[nodiscard]] Issue submit_several(std::span<const Launch> batch);

  BackendInfo info_;
  HostPageProvider pages_;
  HostCopies copies_;
  std::unique_ptr<Machine> machine_;
  std::vector<KernelCall> calls_;  // scratch, reused
};

}  // namespace hearth::cpu
