// Which kernels a device runs, with the tensors that each reads and writes, while somebody asks for
// it. Private to runtime. Owned by Dispatch, touched by the token holder only. Invariant: a view
// counts as the tensor that it shows.
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
#include "handle_table.hpp"

namespace hearth {

struct RuntimeTables;

/// What a kernel is called where it is explained or traced: by the ops that it does the work of.
[[nodiscard]] std::string kernel_name(const KernelCall& call, const RuntimeTables& tables);

class KernelJournal {
 public:
  /// Elements that a kernel has read. The bytes may have another tensor's by now.
  struct Read {
    const std::byte* data = nullptr;
    std::int64_t size_bytes = 0;

    friend bool operator==(const Read&, const Read&) = default;
  };

  /// A call of the backend follows.
  void note_launch() noexcept { ++explanation_.launches; }
  /// A kernel of it, which stands for so many ops.
  void note(const KernelCall& call, std::size_t op_count, const RuntimeTables& tables);
  /// A kernel that brings elements into row-major order, as the op behind it needs them.
  void note_copy(const KernelCall& call, const OpView& op, const RuntimeTables& tables);
  /// The kernel that was noted last is that of a group: what the program called its ops.
  void note_members(const FusedGroup& group, const RuntimeTables& tables);
  /// So many ops never run, as nobody needs their results.
  void note_unneeded(std::size_t op_count) noexcept {
    explanation_.unneeded_ops += static_cast<std::int64_t>(op_count);
  }
  void note_view(const Operand& from, const Operand& view);
  /// Why the kernel that comes next will not take in the op behind it.
  void expect_end(std::string_view why) noexcept {
    try {
      boundary_ = why;
    } catch (...) {
      boundary_.clear();
    }
  }
  /// All of it, with what is there now.
  [[nodiscard]] Explanation read(HandleTable& handles, std::string device);

 private:
  using Tensor = std::uint64_t;  // slot and generation
  struct Bytes {
    std::vector<Read> read = {};  ///< Before anything was written; each view of it once.
    std::int64_t written = 0;
  };

  [[nodiscard]] Tensor shown_by(const Operand& operand) const;
  void note_reads(const KernelCall& call, std::vector<Read>& seen, ExplainedKernel& kernel);
  void note_read(const TensorView& view,
                 const Operand& operand,
                 std::vector<Read>& seen,
                 ExplainedKernel& kernel);
  void note_written(const TensorView& view, const Operand& operand, ExplainedKernel& kernel);

  Explanation explanation_;
  std::string boundary_;
  std::map<Tensor, Tensor> views_;  // from a view to what it shows
  std::map<Tensor, Bytes> bytes_;
};

}  // namespace hearth
