// Dispatch: runs one op: operands to views, memory for the results, the kernel, and what is left of the inputs.
// The only place where streams, memory and a backend meet. Private to runtime. Touched by the token holder only.
// Invariants: (1) an op that fails poisons its outputs and nothing else; (2) its inputs are consumed whether it ran or not;
// (3) in-place reuse happens only for a last use whose storage nobody else shares.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/device.hpp>

#include "device_endpoint.hpp"
#include "handle_table.hpp"
#include "lane_state.hpp"

namespace hearth {

class Dispatch {
 public:
  Dispatch(DeviceEndpoint& endpoint, Backend& backend, HandleTable& handles) noexcept
      : endpoint_(endpoint), backend_(backend), handles_(handles) {}

  /// The slot of the first input that no record has made yet, or nullptr: then the lane must wait.
  [[nodiscard]] Slot* find_unborn_input(const OpView& op);
  /// Runs a kernel op, a view, or poisons the outputs.
  void run(const OpView& op, LaneState& lane);
  /// Fails an op without running it.
  void fail(const OpView& op, LaneState& lane, ErrorRef error);
  /// Runs an update group: all or nothing. The status is the step's.
  [[nodiscard]] Status run_group(std::span<const GroupRecord> group, LaneState& lane);
  /// Drops a group that will not run: outputs keep their old values.
  void abandon_group(std::span<const GroupRecord> group, LaneState& lane, const ErrorRef& error);

  /// upload, readback and lend.
  void upload(const OpView& op, LaneState& lane);
  void readback(const OpView& op, LaneState& lane);
  /// The bytes to lend: the input's own when this is its last use, else a copy. Consumes the input; the output is made when the loan
  /// ends, so that nobody reads it before. On failure the output is poisoned.
  [[nodiscard]] Result<Storage*> prepare_loan(const OpView& op, LaneState& lane);
  /// The end of a loan: the tensor is there, or carries the error.
  void finish_loan(const Operand& out, LaneId lane, Storage* storage, const Status& status);

  /// Frees a slot and gives its number back.
  void release_slot(SlotId slot);
  /// From a failure of this op to an error that says where it came from.
  [[nodiscard]] ErrorRef with_provenance(const Error& error, const OpView& op, LaneId lane) const;

  /// The device is lost: everything fails with this from now on.
  void lose(ErrorRef error) noexcept { lost_ = std::move(error); }
  [[nodiscard]] const ErrorRef& lost() const noexcept { return lost_; }
  [[nodiscard]] DeviceStatistics& statistics() noexcept { return statistics_; }

 private:
  struct Operands;
  [[nodiscard]] ErrorRef first_poison(const OpView& op);
  void run_kernel(const OpView& op, LaneState& lane);
  void run_view(const OpView& op, LaneState& lane);
  /// Runs the kernel with outputs in these storages.
  [[nodiscard]] Status submit(const OpView& op, std::span<Storage* const> storages);
  /// The storage of output `index` if it may take an input's bytes.
  [[nodiscard]] Storage* reusable_storage(const OpView& op, int output_index);
  [[nodiscard]] Result<Storage*> storage_for(const OpView& op, int output_index);
  void make_outputs(const OpView& op, LaneState& lane, std::span<Storage* const> storages);
  void poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error);
  void consume_inputs(const OpView& op);
  void fill(Slot& slot, const Operand& operand, LaneId home, Storage* storage);
  void wake_waiting(Slot& slot);
  void count_foreign(const OpView& op, const LaneState& lane);
  [[nodiscard]] Error out_of_memory(std::int64_t size_bytes, Acquire outcome) const;
  [[nodiscard]] Status copy_to_contiguous(const Slot& from, Storage& to);
  void note_status(const Status& status);

  DeviceEndpoint& endpoint_;
  Backend& backend_;
  HandleTable& handles_;
  DeviceStatistics statistics_;
  ErrorRef lost_;
  std::vector<TensorView> views_;   // scratch, reused: inputs then outputs
  std::vector<Storage*> storages_;  // scratch, reused

 public:
  std::vector<LaneState*> woken;  ///< lanes whose slot was made; the actor makes them ready
};

}  // namespace hearth
