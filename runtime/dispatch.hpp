// Dispatch: runs one op: operands to views, memory for the results, the kernel, and what is left of the inputs.
// The only place where streams, memory and a backend meet. Private to runtime. Touched by the token holder only.
// Invariants: (1) an op that fails poisons its outputs and nothing else, whether a backend or a memory strategy refuses or throws;
// (2) its inputs are consumed whether it ran or not, once, and as the last thing; (3) in-place reuse happens only for a last use whose
// storage nobody else shares.
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
      : endpoint_(endpoint), backend_(&backend), handles_(handles) {}

  /// The slot of the first input that no record has made yet, or nullptr: then the lane must wait.
  [[nodiscard]] Slot* find_unborn_input(const OpView& op);
  /// Runs a kernel op, a view, or poisons the outputs.
  void run(const OpView& op, LaneState& lane);
  /// The same, but where memory is short nothing happens and the answer is false: others may release some.
  [[nodiscard]] bool run_or_wait(const OpView& op, LaneState& lane);
  /// How many ops like this one, of as many lanes, may run as one call without a bit of any result changing. 1: it runs alone.
  [[nodiscard]] std::int64_t joinable_calls(const OpView& op);
  /// Whether two joinable ops differ in input 0 and output alone.
  [[nodiscard]] bool are_alike(const OpView& a, const OpView& b);
  /// Runs the ops at the fronts of these lanes, which are alike, as one call. Returns how many lanes have their result; the ops of
  /// the others, from there on, were not touched.
  [[nodiscard]] std::size_t run_joined(std::span<LaneState* const> lanes);
  /// Fails an op without running it.
  void fail(const OpView& op, LaneState& lane, ErrorRef error);
  /// Checks an update group's inputs and gets all its memory: then it can run. On failure it has taken nothing.
  /// `is_short`, where given: memory was short, and it may be asked again when others have released some.
  [[nodiscard]] Result<GroupMemory> prepare_group(std::span<const GroupRecord> group,
                                                  LaneState& lane,
                                                  bool* is_short);
  /// Runs a prepared group. The status is the step's.
  [[nodiscard]] Status run_group(std::span<const GroupRecord> group,
                                 GroupMemory& memory,
                                 LaneState& lane);
  /// Drops a group that will not run: outputs keep their old values.
  void abandon_group(std::span<const GroupRecord> group, LaneState& lane, const ErrorRef& error);

  /// upload, readback and lend.
  void upload(const OpView& op, LaneState& lane);
  [[nodiscard]] bool upload_or_wait(const OpView& op, LaneState& lane);
  void readback(const OpView& op, LaneState& lane);
  /// Waits until the device has ended what was submitted; why it did not, or null.
  [[nodiscard]] ErrorRef finish(const OpView& op, LaneId lane);
  /// The bytes to lend: the input's own when this is its last use, else a copy. Consumes the input; the output is made when the loan
  /// ends, so that nobody reads it before. On failure the output is poisoned.
  [[nodiscard]] Result<HeldStorage> prepare_loan(const OpView& op, LaneState& lane);
  /// The end of a loan: the tensor is there, or carries the error.
  void finish_loan(const Operand& out, LaneId lane, HeldStorage storage, const Status& status);
  [[nodiscard]] HeldStorage hold(Storage* storage) noexcept {
    return HeldStorage(storage, GiveBack{&handles_});
  }

  /// Frees a slot and gives its number back.
  void release_slot(SlotId slot) noexcept;
  /// From a failure of this op to an error that says where it came from.
  [[nodiscard]] ErrorRef with_provenance(const Error& error, const OpView& op, LaneId lane) const;
  /// The exception being handled, as the failure of this op.
  [[nodiscard]] ErrorRef thrown_by(const OpView& op, LaneId lane) const;

  /// The device is lost: everything fails with this from now on.
  void lose(ErrorRef error) noexcept { lost_ = std::move(error); }
  [[nodiscard]] const ErrorRef& lost() const noexcept { return lost_; }
  /// It runs again, on a fresh backend.
  void restart(Backend& backend) noexcept {
    backend_ = &backend;
    lost_ = nullptr;
  }
  [[nodiscard]] DeviceStatistics& statistics() noexcept { return statistics_; }
  /// Waits and refusals for want of memory; the strategy counts the other rungs.
  [[nodiscard]] const MemoryRungs& rungs() const noexcept { return rungs_; }

 private:
  /// What an op does that finds no memory: fails with a report; is put off, unless it can never fit; or ends what it tries.
  enum class OnShortage : std::uint8_t { report, wait, give_up };
  /// For its lifetime; is_short_ says whether it came to that.
  class ShortageRule {
   public:
    ShortageRule(Dispatch& dispatch, OnShortage rule) noexcept : dispatch_(dispatch) {
      dispatch_.on_shortage_ = rule;
    }
    ShortageRule(const ShortageRule&) = delete;
    ShortageRule& operator=(const ShortageRule&) = delete;
    ~ShortageRule() {
      dispatch_.on_shortage_ = OnShortage::report;
      dispatch_.is_short_ = false;
    }

   private:
    Dispatch& dispatch_;
  };

  [[nodiscard]] ErrorRef first_poison(const OpView& op);
  /// The same, and counts the inputs that another lane made and has not published.
  [[nodiscard]] ErrorRef look_at_inputs(const OpView& op, const LaneState& lane);
  void run_kernel(const OpView& op, LaneState& lane);
  void run_view(const OpView& op, LaneState& lane);
  /// Runs the kernel with outputs in these storages.
  [[nodiscard]] Status submit(const OpView& op, std::span<const HeldStorage> storages);
  [[nodiscard]] Status submit_joined(std::span<LaneState* const> lanes,
                                     const Storage& in,
                                     const Storage& out,
                                     std::int64_t in_bytes);
  [[nodiscard]] Status submit_views(const OpView& op,
                                    std::span<const TensorView> inputs,
                                    std::span<const TensorView> outputs);
  /// The input whose bytes output `index` of an optimizer op replaces: parameter for 0, state after the gradient for the rest.
  [[nodiscard]] static int updated_input(int output_index) noexcept {
    return output_index == 0 ? 0 : output_index + 1;
  }
  /// The storage of output `index` if it may take an input's bytes.
  [[nodiscard]] Storage* reusable_storage(const OpView& op, int output_index);
  /// Bytes for a result, or the shortage, or what the memory strategy threw.
  [[nodiscard]] Result<HeldStorage> allocate(std::int64_t size_bytes,
                                             PoolKind kind,
                                             const BlockOrigin& origin);
  [[nodiscard]] Result<HeldStorage> storage_for(const OpView& op, int output_index);
  void make_outputs(const OpView& op, LaneState& lane, std::span<HeldStorage> storages);
  void poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error);
  void consume_inputs(const OpView& op) noexcept;
  void fill(Slot& slot, const Operand& operand, LaneId home, HeldStorage&& storage);
  void wake_waiting(Slot& slot);
  /// Runs something that may be put off for want of memory; whether it was.
  template <class Run>
  [[nodiscard]] bool attempt(const Run& run);
  [[nodiscard]] Result<GroupMemory> memory_of_group(std::span<const GroupRecord> group,
                                                    LaneState& lane);
  /// What OnShortage says, as a failure.
  [[nodiscard]] Status shortage(std::int64_t size_bytes, Acquire outcome);
  /// Whether the kernel wrote where it should not; for a strategy that can tell.
  [[nodiscard]] Status check_blocks(const OpView& op, std::span<const HeldStorage> storages);
  [[nodiscard]] Status copy_to_contiguous(const Slot& from, Storage& to);
  /// The elements of `operand`, whose slot is `from`, anew and without gaps.
  [[nodiscard]] Result<HeldStorage> packed(const OpView& op,
                                           const Operand& operand,
                                           const Slot& from);
  [[nodiscard]] Status download(const OpView& op, std::span<std::byte> target);
  [[nodiscard]] Result<HeldStorage> storage_to_lend(const OpView& op);
  /// From what the backend said of this op to an error that says where it came from. A lost device is remembered.
  [[nodiscard]] ErrorRef blame(const Status& status, const OpView& op, LaneId lane);

  DeviceEndpoint& endpoint_;
  Backend* backend_;
  HandleTable& handles_;
  DeviceStatistics statistics_;
  ErrorRef lost_;
  MemoryRungs rungs_;
  OnShortage on_shortage_ = OnShortage::report;
  bool is_short_ = false;              // the op under way found no memory, and nobody was told
  std::vector<TensorView> views_;      // scratch, reused: inputs then outputs
  std::vector<HeldStorage> storages_;  // of the kernel under way; empty uses between ops

 public:
  std::vector<LaneState*> woken;  ///< lanes whose slot was made; the actor makes them ready
};

}  // namespace hearth
