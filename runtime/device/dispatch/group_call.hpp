// GroupCall: a group as the call of one kernel. Either the call of an op of kind `expression`, so
// that every backend with expressions runs groups, or the anchor's call with prologue and epilogue.
// Private to runtime. Reused from group to group; touched by the token holder only.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "fused_group.hpp"
#include "runtime/client/runtime_tables.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

/// Expressions of a group and of the group before it; null if absent.
struct GroupKernels {
  const Expression* own = nullptr;
  const Expression* before = nullptr;
};

class GroupCall final {
 public:
  GroupCall() = default;
  GroupCall(const GroupCall&) = delete;
  GroupCall& operator=(const GroupCall&) = delete;
  ~GroupCall() = default;

  /// Returns the call of the group with results in `outputs`. `outputs` is empty if the one result
  /// feeds the next group's anchor, or before memory is allocated. `before`: call of the group
  /// before it. Valid until the next call.
  [[nodiscard]] const KernelCall& make(const FusedGroup& group,
                                       const Expression* kernel,
                                       const KernelCall* before,
                                       std::span<const HeldStorage> outputs,
                                       const RuntimeTables& tables);

 private:
  [[nodiscard]] KernelCall as_expression(const FusedGroup& group,
                                         const Expression& kernel,
                                         std::span<const HeldStorage> outputs,
                                         const RuntimeTables& tables);
  [[nodiscard]] KernelCall as_anchor(const FusedGroup& group,
                                     const Expression* kernel,
                                     std::span<const HeldStorage> outputs,
                                     const RuntimeTables& tables);
  void add_inputs(const std::vector<FusedGroup::Input>& inputs);
  void add_outputs(const FusedGroup& group,
                   const detail::Layout* space,
                   std::span<const HeldStorage> outputs,
                   const RuntimeTables& tables);
  void write_parameters(const FusedGroup& group);

  OpRecord record_;
  std::vector<TensorView> views_;
  std::vector<Operand> operands_;
  std::vector<std::byte> blob_;
  std::vector<ScalarAttributes> parameters_;  ///< Scalars of an epilogue.
  Epilogue epilogue_;
  Prologue prologue_;
  std::optional<KernelCall> call_;  ///< Call of the last group.
};

}  // namespace hearth
