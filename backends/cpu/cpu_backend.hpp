// The CPU backend: kernels of its own and OpenBLAS on a set of cores, in host memory.
// Owned by its device; driven by the holder of the device's token. A kernel forks over the device's
// cores and joins before submit returns. Invariants: (1) an op's result depends on its operands
// and the machine, never on the number of cores; (2) submit allocates nothing but scratch memory,
// which is the device's.
#pragma once

#include <hearth/backends/backend.hpp>
#include <hearth/backends/cpu/isa.hpp>
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
      false;  ///< Never fork: for the manual executor, which runs everything on one thread.
  IsaLevel max_isa = IsaLevel::avx512;  ///< Use no higher instruction set than this.
  HostPageOptions pages = {};
};

class CpuBackend final : public Backend {
 public:
  /// Errors: OutOfMemory where OpenBLAS's threads find no addresses (ulimit -v).
  explicit CpuBackend(CpuOptions options = {});
  ~CpuBackend() override;

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  /// no for a kind that has no kernel here, and for element types outside the op table's.
  [[nodiscard]] Support supports(const KernelCall& call) const override;
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept override;
  [[nodiscard]] bool may_anchor(OpKind kind) const noexcept override;
  [[nodiscard]] bool may_take_prologue(OpKind kind,
                                       int input,
                                       OpKind maker) const noexcept override;
  /// Products of a few rows: as many as together stay few, since such a product treats each row by
  /// itself.
  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override;
  /// Optimizer steps need none, others say so when they run.
  void use_scratch(ScratchMemory& scratch) noexcept override;
  /// Runs the ops; they are done on return.
  ///
  /// Errors: unsupported for a kind without a kernel; out_of_range for a class or a slice outside
  /// its range; kernel_failed for integer division by zero; invalid_argument for the maximum of
  /// nothing; out_of_memory when there is no scratch memory. Cost: about 20 ns beyond the kernel.
  [[nodiscard]] Issue submit(std::span<const Launch> batch,
                             std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after) override;
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after) override;

  [[nodiscard]] IsaLevel isa() const noexcept;

 private:
  struct Machine;  // the arena, the scratch memory and the kernels by kind

  [[nodiscard]] Support supports_prologue(const KernelCall& call) const;
  [[nodiscard]] Status run(const KernelCall& call);
  /// Neighbours of one expression are one launch.
  [[nodiscard]] Issue submit_several(std::span<const Launch> batch);

  BackendInfo info_;
  HostPageProvider pages_;
  std::unique_ptr<Machine> machine_;
  std::vector<KernelCall> calls_;  // scratch, reused
};

}  // namespace hearth::cpu
