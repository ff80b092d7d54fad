// KernelJournal: the kernels that a device runs, with the tensors that each reads and writes, while
// an explanation is recorded. Private to runtime. Owned by Dispatch, touched by the token holder
// only.
// Invariant: a view counts as the tensor that it shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/explanation.hpp>

#include "fused_group.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

struct RuntimeTables;

/// Name of a kernel in explanations and traces, made of the names of its ops.
[[nodiscard]] std::string kernel_name(const KernelCall& call, const RuntimeTables& tables);

class KernelJournal {
 public:
  /// Elements that a kernel has read. Another tensor may hold the bytes by now.
  struct Read {
    const std::byte* data = nullptr;
    std::int64_t size_bytes = 0;

    friend bool operator==(const Read&, const Read&) = default;
  };

  /// Counts a call of the backend; note() adds its kernels.
  void record_launch() noexcept { ++explanation_.launches; }
  /// Adds a kernel of that call. It computes `op_count` ops.
  void note(const KernelCall& call, std::size_t op_count, const RuntimeTables& tables);
  /// Adds a kernel that copies elements to row-major order, for the op.
  void record_copy(const KernelCall& call, const OpView& op, const RuntimeTables& tables);
  /// Adds the program's names of the group's ops to the last kernel.
  void record_members(const FusedGroup& group, const RuntimeTables& tables);
  /// Counts ops that never run, because no consumer needs their results.
  void record_unneeded(std::size_t op_count) noexcept {
    explanation_.unneeded_ops += static_cast<std::int64_t>(op_count);
  }
  void record_view(const Operand& from, const Operand& view);
  /// Sets the reason for which the next kernel will not include the op after it.
  void expect_end(std::string_view why) noexcept {
    try {
      boundary_ = why;
    } catch (...) {
      boundary_.clear();
    }
  }
  /// Returns the whole explanation, with the tensors that exist now.
  [[nodiscard]] Explanation read(HandleTable& handles, std::string device);

 private:
  using Tensor = std::uint64_t;  // slot and generation
  struct Bytes {
    std::vector<Read> read = {};  ///< Reads before the first write; each view counts once.
    std::int64_t written = 0;
  };

  [[nodiscard]] Tensor shown_by(const Operand& operand) const;
  void record_reads(const KernelCall& call, std::vector<Read>& seen, ExplainedKernel& kernel);
  void record_read(const TensorView& view,
                   const Operand& operand,
                   std::vector<Read>& seen,
                   ExplainedKernel& kernel);
  void record_written(const TensorView& view, const Operand& operand, ExplainedKernel& kernel);

  Explanation explanation_;
  std::string boundary_;
  std::map<Tensor, Tensor> views_;  // from a view to the tensor that it shows
  std::map<Tensor, Bytes> bytes_;
};

}  // namespace hearth
