// Dispatch runs one op: operands to views, memory for the results, the kernel, and the end of the
// inputs. The only place where streams, memory and a backend meet. Private to runtime. Touched by
// the token holder only.
// Invariants: (1) an op that fails poisons only its outputs, whether a backend or a memory strategy
// refuses or throws; (2) its inputs are consumed exactly once, as the last step, whether it ran or
// not; (3) in-place reuse happens only for a last use whose storage has no other user.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/trace.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/streams/op_facts.hpp>

#include "fused_group.hpp"
#include "group_call.hpp"
#include "guests.hpp"
#include "in_flight.hpp"
#include "kernel_journal.hpp"
#include "lane_state.hpp"
#include "resolved_op.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/memory/device_scratch.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

/// Outcome of one op. `short_of_memory`: nothing ran; the op is retried after memory is released.
/// `in_part`: the device took a part of the copy; the record is retried for the rest
/// (LaneState::copy).
enum class Ran : std::uint8_t { done, failed, short_of_memory, in_part };

/// Outcome of a group as one kernel. Except for `ran`, nothing ran and its ops may run singly.
/// `not_now`: a temporary cause, such as a shortage of memory.
enum class Fused : std::uint8_t { ran, unsupported, not_now };

class LayoutsToCome;
class Picks;

class Dispatch {
 public:
  Dispatch(DeviceEndpoint& endpoint,
           Backend& backend,
           DeviceScratch& scratch,
           HandleTable& handles,
           InFlight& in_flight) noexcept
      : endpoint_(endpoint), scratch_(&scratch), handles_(handles), in_flight_(in_flight) {
    use(backend);
    in_flight_.cells.limit(backend.info().most_cells);
  }

  /// Sets the source of picks; nullptr: kernels follow their rules.
  void use_picks(Picks* picks) noexcept { picks_ = picks; }
  [[nodiscard]] bool runs_inline() const noexcept { return runs_inline_; }
  [[nodiscard]] ResolvedOp resolve(const OpView& op, LaneId lane) {
    return ResolvedOp(handles_, op, lane);
  }
  /// Runs a kernel op, a view or a readback, or poisons the outputs.
  [[nodiscard]] Ran run(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  /// Creates a view before its turn, which no other op notices. Only for a tensor that exists and
  /// outlives the view's record. Takes neither memory nor a kernel.
  [[nodiscard]] bool show_ahead(const OpView& op, LaneState& lane);
  /// Expression that an op of kind `expression` computes; null for other kinds.
  [[nodiscard]] const Expression* expression_of(const OpView& op) const noexcept;
  [[nodiscard]] const ExpressionTable& expressions() const noexcept;
  /// Number of ops like this one, each of its own lane, that may run as one call without changing a
  /// bit of any result. 1: it runs alone. `input_to_come` is an input that counts as present.
  [[nodiscard]] std::int64_t joinable_calls(const OpView& op, int input_to_come = -1);
  /// Whether the device's kernel of this op takes an epilogue. An op that may fail for its values
  /// is admitted only on inline devices. There the failure is found before the group has written,
  /// so its ops run singly, each with its own error.
  [[nodiscard]] bool may_anchor(const OpView& op) const noexcept {
    return facts_->may_anchor(op.kind()) &&
           (runs_inline_ || !may_fail(op.kind(), op.input(0).dtype));
  }
  /// Whether that kernel can compute this input itself, as the result of an op of kind `producer`.
  [[nodiscard]] bool may_take_prologue(OpKind kind, int input, OpKind producer) const noexcept {
    return runs_inline_ && facts_->may_take_prologue(kind, input, producer);
  }
  /// Whether two joinable ops differ only in input 0 and the output.
  [[nodiscard]] bool are_alike(const OpView& a, const OpView& b);
  /// Runs the ops at the fronts of these lanes, which are alike, as one call. Returns the number of
  /// lanes, from the first, that have their result; the ops of the others were not touched.
  [[nodiscard]] std::size_t run_joined(std::span<LaneState* const> lanes);
  /// Whether the runtime's fusion limit admits this group.
  [[nodiscard]] bool admits(const FusedGroup& group, const GroupKernels& kernels) {
    FusionLimit& limit = endpoint_.tables().fusion_limit;
    return !limit.is_set() || admits_by(limit, group, kernels);
  }
  /// Runs a group of ops as one kernel. A kernel that fails after it may have overwritten an input
  /// poisons the group's results.
  [[nodiscard]] Fused run_fused(const FusedGroup& group,
                                const GroupKernels& kernels,
                                LaneState& lane);
  /// Ends the tensors that the group's unneeded ops end; none of the ops runs.
  void skip_unneeded(const FusedGroup& group, LaneState& lane);
  /// Ends a tensor for a record that ran before its turn.
  void end_use(const Operand& operand) noexcept { consume(operand, handles_.slot(operand.slot)); }
  [[nodiscard]] const Shape& shape_of(ShapeId id) const noexcept {
    return endpoint_.tables().shapes.shape(id);
  }
  /// Precision of f16 and bf16 values inside groups.
  [[nodiscard]] Between between() const noexcept { return endpoint_.tables().between; }
  /// Fails an op without running it.
  void fail(const OpView& op, LaneState& lane, const ErrorRef& error);
  /// Fails an op that has not begun because its stream's limits end it; an input's error takes
  /// precedence. Returns the error of its outputs.
  [[nodiscard]] ErrorRef cancel(const OpView& view, LaneState& lane, const Error& why);
  /// Checks that an update group's inputs and kernels exist, and allocates all its memory, so that
  /// it can run. On failure it holds nothing. If is_short() of the status, the call may be retried
  /// after a release.
  [[nodiscard]] Result<GroupMemory> prepare_group(std::span<const GroupRecord> group,
                                                  LaneState& lane,
                                                  OnShortage rule);
  /// Runs a prepared group. On the device its results keep the old elements if one of `guards`
  /// fails. The status is the step's, as far as it is known. If the group fails after it has begun,
  /// all its results are poisoned.
  [[nodiscard]] Status run_group(std::span<const GroupRecord> group,
                                 GroupMemory& memory,
                                 const LateFailures& guards,
                                 LaneState& lane);
  /// Abandons one update: its outputs keep the old values.
  void abandon_update(const OpView& view, LaneState& lane, const ErrorRef& error);
  /// Abandons a group: its outputs keep the old values.
  void abandon_group(std::span<const GroupRecord> group, LaneState& lane, const ErrorRef& error);

  /// Uploads the next part of the bytes; the last part creates the output.
  [[nodiscard]] Ran upload(const OpView& op, LaneState& lane, OnShortage rule);
  /// Returns the bytes to lend: the input's own if this is its last use, else a copy. The input is
  /// not consumed. is_short() of the status: as in prepare_group().
  [[nodiscard]] Result<HeldStorage> storage_to_lend(const ResolvedOp& op,
                                                    LaneState& lane,
                                                    OnShortage rule);
  /// Error for which the op must not run, or null.
  [[nodiscard]] ErrorRef first_poison(const ResolvedOp& op) const {
    return lost_ ? lost_ : op.poison();
  }
  /// Whether a loan lends a copy in host memory, because the host cannot access the device's
  /// memory.
  [[nodiscard]] bool lends_copies() const noexcept { return !backend_->info().has_host_memory; }
  /// Begins or continues to copy a storage's first bytes into `copy`. All parts are submitted once
  /// the lane has no copy any more. The bytes have arrived once the storage's last use has ended.
  [[nodiscard]] Status copy_out(Storage& storage, const HostBytes& copy, LaneState& lane);
  /// Copies the bytes back; the storage's last use is the end of that copy. Blocks if the device
  /// takes the copy in parts: memory of host_bytes() is taken whole, unless the system had no such
  /// memory.
  [[nodiscard]] Status copy_back(Storage& storage, const HostBytes& copy);
  /// Ends or abandons the lane's copy in parts. Parts that the device has taken continue, without
  /// the reader's host bytes.
  void end_copy(LaneState& lane) noexcept;
  /// Allocates host memory for copy_out() and copy_back().
  [[nodiscard]] HostBytes host_bytes(std::size_t size) { return copies_->host_bytes(size); }
  /// Consumes the inputs of a lend. Its output is created when the loan ends, so that no reader
  /// sees it before.
  void consume_lent(const ResolvedOp& op) noexcept { consume_inputs(op); }
  /// Adds the loan, which ends now, to the trace, if there is one.
  void trace_loan(const Loan& loan, LaneId lane);
  /// Begin of a traced event; zero without a trace.
  [[nodiscard]] detail::TimePoint traced_now() const noexcept;
  /// Ends a loan: the tensor becomes live, or carries the error.
  void finish_loan(const Operand& out, LaneId lane, HeldStorage storage, const Status& status);
  [[nodiscard]] HeldStorage hold(Storage* storage) noexcept {
    return HeldStorage(storage, ReleaseStorage{&handles_});
  }

  /// Whether the status is that of deferred work: it found no memory and may be retried.
  [[nodiscard]] bool is_short(const Status& status) const noexcept {
    return !status.has_value() && status.shared_error() == short_;
  }
  /// Adds uses of other lanes to a tensor whose home assumes that it is the only user.
  void add_guests(DeferredDrop entry);
  /// Clears a slot and returns its number.
  void release_slot(SlotId id) noexcept;
  /// Converts a failure of this op to an error with the op's place in the program.
  [[nodiscard]] ErrorRef with_provenance(const Error& error, const OpView& op, LaneId lane) const;
  /// Adds the op's place like with_provenance() and registers the failure. Reading a result throws
  /// it, else the log reports it.
  [[nodiscard]] ErrorRef failure_of(const Error& error, const OpView& op, LaneId lane) const;
  /// Registers a failure with the lane: its next sync() reports the failure unless it was read
  /// before.
  void register_failure(const ErrorRef& error, LaneState& lane);
  /// Counts a failed op and registers its failure like register_failure().
  void account(const ErrorRef& error, LaneState& lane);
  /// Counts a failure that was found after the lane went on; the lane may have ended (null).
  void account_late(const ErrorRef& error, LaneState* lane);
  /// Converts the exception being handled to a failure of this op.
  [[nodiscard]] ErrorRef thrown_by(const OpView& op, LaneId lane) const noexcept;

  /// Logs the exception being handled, where no op depends on the failed work. Its cause is a bug
  /// of the library or a shortage of host memory.
  void log_mistake(const char* what) const noexcept;

  /// Marks the device as lost: all further work fails with this error.
  void lose(ErrorRef error) noexcept { lost_ = std::move(error); }
  [[nodiscard]] const ErrorRef& lost() const noexcept { return lost_; }
  /// Whether the memory strategy checks after each op for writes out of bounds.
  [[nodiscard]] bool checks_blocks() const noexcept { return handles_.is_checked(); }
  /// Whether a record left work for the actor: lanes to wake, late drops, a failure, a loss. One
  /// branch per record, which is almost never taken.
  [[nodiscard]] bool has_aftermath() const noexcept { return has_aftermath_; }
  void end_aftermath() noexcept { has_aftermath_ = false; }
  /// Whether a failure was registered since the last call.
  [[nodiscard]] bool take_new_failure() noexcept { return std::exchange(has_new_failure_, false); }
  /// Submits batched work to the device. The device's next status reports a loss.
  void flush() noexcept;
  /// Error of an inline device that hangs. Success on asynchronous devices, whose work is in
  /// flight.
  [[nodiscard]] Status inline_hang();
  /// Point value up to which the device has ended its ops.
  [[nodiscard]] std::uint64_t ended_ops() const noexcept { return backend_->completed(kOpStream); }
  /// Continues on a fresh backend.
  void restart(Backend& backend, DeviceScratch& scratch) noexcept {
    use(backend);
    scratch_ = &scratch;
    lost_ = nullptr;
    journal_.reset();
  }
  /// Starts to record the kernels that run.
  void start_journal() { journal_ = std::make_unique<KernelJournal>(); }
  [[nodiscard]] Explanation take_journal();
  /// Name of an op in errors and explanations.
  [[nodiscard]] std::string_view name_of(const OpRecord& record) const noexcept {
    return endpoint_.tables().op_name(record);
  }
  /// Null if no journal is open.
  [[nodiscard]] KernelJournal* journal() const noexcept { return journal_.get(); }
  [[nodiscard]] std::uint64_t kernel_count() const noexcept { return statistics_.kernels; }
  /// Whether the last launch was refused because its kernel is being compiled.
  [[nodiscard]] bool is_compiling() const noexcept { return is_compiling_; }
  /// Reason for which the last group did not run; empty for a shortage of memory.
  [[nodiscard]] std::string_view refusal() const noexcept {
    return refusal_ ? std::string_view(refusal_->text) : std::string_view();
  }
  [[nodiscard]] DeviceStatistics& statistics() noexcept { return statistics_; }
  /// Waits and refusals caused by a shortage of memory. The strategy counts the other rungs.
  [[nodiscard]] const MemoryRungs& rungs() const noexcept { return rungs_; }

 private:
  /// Keeps the parts of this backend for the next calls.
  void use(Backend& backend) noexcept {
    backend_ = &backend;
    facts_ = &backend.facts();
    kernels_ = &backend.kernels();
    copies_ = &backend.copies();
    runs_inline_ = backend.info().runs_inline;
  }

  static constexpr std::size_t kMostOutputs = 4;
  /// Memory of an op's results, until slots take it over.
  struct OutputMemory {
    std::array<HeldStorage, kMostOutputs> held = {};
    std::size_t count = 0;

    void add(HeldStorage&& storage) {
      HEARTH_ASSERT(count < kMostOutputs, "no kind has more outputs");
      held[count++] = std::move(storage);
    }
    [[nodiscard]] std::span<HeldStorage> all() noexcept { return {held.data(), count}; }
  };

  [[nodiscard]] Ran run_kernel(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  [[nodiscard]] Ran run_view(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  /// Creates the view. Returns false if strides cannot express it.
  [[nodiscard]] bool show(const ResolvedOp& op, LaneState& lane);
  [[nodiscard]] Ran run_reshaped(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  [[nodiscard]] Ran readback(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  /// Fails the op: its outputs carry the status. A deferred op is not failed.
  [[nodiscard]] Ran fail_or_defer(const ResolvedOp& op, LaneState& lane, const Status& status);
  void fail(const ResolvedOp& op, LaneState& lane, const ErrorRef& error);
  /// Builds the call with the op's operands and with outputs in these storages. Valid as long as
  /// `views`, which has room for all operands.
  [[nodiscard]] KernelCall call_of(const ResolvedOp& op,
                                   std::span<const HeldStorage> storages,
                                   std::span<TensorView> views) const;
  /// Room for an op's views, until the next call. A warm device reuses it without allocating.
  [[nodiscard]] std::span<TensorView> room_for_views(const OpView& op) {
    const auto count = static_cast<std::size_t>(op.record().operand_count());
    if (views_.size() < count) [[unlikely]] {
      views_.resize(count);
    }
    return {views_.data(), count};
  }
  /// Runs the kernel. If it found no scratch memory, the status is that of a shortage.
  [[nodiscard]] Status run_call(const char* what, Launch& launch, OnShortage rule);
  /// Submits the launch to an asynchronous device, behind all work that it must wait for.
  [[nodiscard]] Issue issue(Launch& launch);
  /// On an asynchronous device: records the storages that the next launch reads and writes, its op,
  /// and the kernels on which its results depend.
  void touch(const ResolvedOp& op, std::span<const HeldStorage> written);
  void touch(const FusedGroup& group, LaneId lane);
  /// Records that a group did not run because its kernel does not exist.
  void record_unmade(const FusedGroup& group, const GroupKernels& kernels, const Error& why);
  /// Sets the layer of a group in a trace: that of its first op with a layer.
  void record_layer(const FusedGroup& group) noexcept;
  /// Points of the storages in `touched_` that the launch must wait for, by stream.
  [[nodiscard]] std::span<const TimelinePoint> points_before();
  void record_launched(TimelinePoint point, const Launch& launch);
  /// Records a copy into or out of the storage that was issued up to this point.
  static void record_copy(Storage& storage, TimelinePoint point, bool writes) noexcept;
  /// Records a failed copy, of which the device may have taken a part.
  void record_begun_copy(Storage& storage, std::uint8_t stream);
  /// Submits the next part of the copy into or out of these host bytes.
  [[nodiscard]] Status upload_part(PartialCopy& copy,
                                   std::span<const std::byte> bytes,
                                   const std::shared_ptr<const void>& owner);
  [[nodiscard]] Status download_part(PartialCopy& copy,
                                     std::span<std::byte> bytes,
                                     const std::shared_ptr<const void>& owner);
  /// Records that the device took this part, up to `size_bytes` in all. `owner` keeps the host
  /// bytes until the part has ended.
  void record_part(PartialCopy& copy,
                   const CopyPart& part,
                   std::size_t size_bytes,
                   std::uint8_t stream,
                   const std::shared_ptr<const void>& owner);
  /// Waits until the device has ended its ops, for a strategy that inspects the bytes. Blocks.
  [[nodiscard]] Status wait_for_ops();
  /// Prepares a launch whose pick did not run to run by the rule.
  void follow_rule(Launch& launch, bool is_pick_refused);
  /// Cause of a kernel's failure: its status, or a shortage of scratch memory.
  [[nodiscard]] Status why_failed(Status status, OnShortage rule);
  /// Runs the kernel with outputs in these storages.
  [[nodiscard]] Status submit(const ResolvedOp& op,
                              std::span<const HeldStorage> storages,
                              OnShortage rule,
                              bool is_deferrable = false);
  /// Called when a kernel must be compiled now. Requests the compilation of the kernels of later
  /// records of the lane, as far as those records are predictable.
  void precompile(LaneState& lane) noexcept;
  void precompile_ahead(LaneState& lane);
  [[nodiscard]] KernelCall call_to_come(const OpView& op,
                                        LayoutsToCome& layouts,
                                        std::vector<TensorView>& views) const;
  [[nodiscard]] Status submit_custom(const ResolvedOp& op,
                                     std::span<const HeldStorage> storages,
                                     OnShortage rule);
  [[nodiscard]] Status submit_joined(std::span<LaneState* const> lanes,
                                     const Storage& in,
                                     const Storage& out,
                                     std::int64_t in_bytes);
  /// `op_count`: number of ops that the kernel computes.
  [[nodiscard]] Status submit_launch(Launch& launch,
                                     std::size_t op_count,
                                     OnShortage rule,
                                     LaneId lane);
  [[nodiscard]] Status submit_watched(Launch& launch,
                                      std::size_t op_count,
                                      OnShortage rule,
                                      LaneId lane);
  /// Name of a kernel in a trace.
  [[nodiscard]] std::string_view traced_name(const KernelCall& call) const;
  [[nodiscard]] detail::TraceEvent event_of(const OpView& op,
                                            std::string_view name,
                                            std::size_t op_count,
                                            LaneId lane) const;
  /// Ends the event now and adds it to the trace.
  void trace_until_now(detail::TraceEvent event) noexcept;
  /// Adds a copy from `begin` to `point` to the trace, if there is one.
  void trace_copy(const OpView& op,
                  LaneId lane,
                  detail::TraceTrack track,
                  std::size_t size_bytes,
                  detail::TimePoint begin,
                  TimelinePoint point);
  /// Adds kernels that one call of the backend runs to the journal, if there is one.
  void record_launch(std::span<const Launch> launches, std::size_t op_count) noexcept;
  /// Announces that the next journalled kernel is one call for `streams` lanes; 0: it did not run.
  void expect_end_of_join(std::size_t streams) noexcept;
  /// Adds a copy that the op needs to the journal.
  void record_copy(const Launch& launch, const OpView& op) noexcept;
  /// Names the members of the group whose kernel was journalled last.
  void record_members(const FusedGroup& group) noexcept;
  void record_view(const Operand& from, const Operand& view) noexcept;
  /// Allocates the stored results of a group, in their order. Returns false if memory is short.
  [[nodiscard]] bool get_memory(const FusedGroup& group);
  [[nodiscard]] Storage* reusable_storage(const FusedGroup& group,
                                          const FusedGroup::Member& member) const;
  [[nodiscard]] bool admits_by(FusionLimit& limit,
                               const FusedGroup& group,
                               const GroupKernels& kernels);
  [[nodiscard]] Status submit_group(const FusedGroup& group,
                                    const GroupKernels& kernels,
                                    LaneState& lane);
  [[nodiscard]] const KernelCall& call_of(const FusedGroup& group,
                                          const GroupKernels& kernels,
                                          std::span<const HeldStorage> outputs);
  [[nodiscard]] Status submit_call(const FusedGroup& group,
                                   const GroupKernels& kernels,
                                   LaneId lane,
                                   bool is_deferrable);
  /// Whether each op of the group could run singly now, without a compilation.
  [[nodiscard]] bool could_run_singly(const FusedGroup& group) const;
  /// Prepares to finish a group: reserves all host memory that finish_fused() needs.
  void prepare_finish(const FusedGroup& group);
  /// Ends the group's internal values.
  void pass_over_values(const FusedGroup& group) noexcept;
  void consume_last(const FusedGroup& group) noexcept;
  /// Fills the group's results and ends its inputs. `error`: null, or why the kernel spoilt its
  /// operands.
  void finish_fused(const FusedGroup& group, LaneState& lane, const ErrorRef& error) noexcept;
  /// The program's own code of an op of kind `custom`; null for other kinds.
  [[nodiscard]] const CustomCode* custom_of(const OpView& op) const noexcept;
  /// Input whose bytes output `index` of an update replaces: the parameter for 0, else the state
  /// after the gradient.
  [[nodiscard]] static constexpr int updated_input(int output_index) noexcept {
    return output_index == 0 ? 0 : output_index + 1;
  }
  /// Storage of output `index` if the output may reuse an input's bytes.
  [[nodiscard]] Storage* reusable_storage(const ResolvedOp& op, int output_index);
  /// Allocates bytes for a result. Errors: the shortage; an exception of the memory strategy.
  [[nodiscard]] Result<HeldStorage> allocate(std::int64_t size_bytes,
                                             PoolKind kind,
                                             const BlockOrigin& origin,
                                             OnShortage rule);
  [[nodiscard]] Result<HeldStorage> storage_for(const ResolvedOp& op,
                                                int output_index,
                                                OnShortage rule);
  /// Origin of the bytes of output `index`, for memory reports.
  [[nodiscard]] BlockOrigin origin_of_result(const OpView& op, int output_index);
  /// Allocates new bytes for an output that reuses no input.
  [[nodiscard]] Result<HeldStorage> new_storage_for(const OpView& op,
                                                    int output_index,
                                                    OnShortage rule);
  void make_outputs(const OpView& op, LaneState& lane, std::span<HeldStorage> storages);
  void poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error);
  /// Ends the copy of a readback whose parts are all submitted.
  void finish_copy(LaneState& lane) noexcept;
  void consume_inputs(const ResolvedOp& op) noexcept;
  void consume_inputs(const OpView& op) noexcept;
  /// Ends the tensor if this operand is its last use.
  void consume(const Operand& operand, Slot& slot) noexcept;
  /// Whether the last user of this slot may overwrite the storage.
  [[nodiscard]] bool is_free_to_write(SlotId id, const Slot& slot) const noexcept {
    return slot.storage != nullptr && slot.storage->uses == 1 && slot.layout->contiguous &&
           slot.data == slot.storage->block.data && (guests.empty() || !guests.has(id));
  }
  void fill(Slot& slot, const Operand& operand, LaneId home, HeldStorage&& storage);
  /// Wakes the lanes that wait for the slot's tensor.
  void wake_waiting(Slot& slot) {
    if (!slot.waiting.empty()) [[unlikely]] {
      record_woken(slot);
    }
  }
  void record_woken(Slot& slot);
  /// Defers consume() of a tensor with guests.
  void consume_later(SlotId slot) noexcept;
  /// Corrects the counters after deferred work. `releases`: the release count before it.
  void uncount_deferred(std::uint64_t releases, OnShortage rule) noexcept;
  [[nodiscard]] Result<GroupMemory> memory_of_group(std::span<const GroupRecord> group,
                                                    LaneState& lane,
                                                    OnShortage rule);
  /// Answers of the backend about calls of a group, so that equal calls query it once.
  class QueriedCalls;
  struct PreparedRecord {
    std::int64_t scratch_bytes = 0;  ///< of its kernel
    bool is_overwriter = false;  ///< it overwrites bytes that an earlier record of the group reads
  };
  /// Allocates the results of one record of a group, after those of earlier records, and fills in
  /// its views.
  [[nodiscard]] Result<PreparedRecord> prepare_record(const OpView& view,
                                                      LaneState& lane,
                                                      OnShortage rule,
                                                      std::vector<HeldStorage>& outputs,
                                                      std::span<TensorView> views,
                                                      QueriedCalls& asked);
  /// Whether the record, with results in these storages, overwrites bytes that an earlier record of
  /// its group reads. Also marks the bytes that this record reads.
  [[nodiscard]] bool record_reads(const ResolvedOp& op,
                                  std::span<const HeldStorage> results) const noexcept;
  /// Number of records, from the first, that may form one batch as far as their kind matters.
  [[nodiscard]] std::size_t alike_from(std::span<const GroupRecord> group) const noexcept;
  /// Submits records that are alike, with these views of their operands.
  [[nodiscard]] Issue submit_alike(std::span<const GroupRecord> group,
                                   std::span<const TensorView> views,
                                   LaneId lane);
  void trace_alike(std::span<const Launch> launches, LaneId lane, detail::TimePoint begin);
  /// Submits the records of a group, up to the first that fails.
  [[nodiscard]] Issue issue_group(std::span<const GroupRecord> group,
                                  const GroupMemory& memory,
                                  LaneId lane);
  /// Submits the whole group. `has_begun`: whether it may have written bytes.
  [[nodiscard]] Status issue_guarded(std::span<const GroupRecord> group,
                                     const GroupMemory& memory,
                                     const LateFailures& guards,
                                     LaneState& lane,
                                     bool& has_begun);
  /// Submits a record with outputs in these storages.
  [[nodiscard]] Issue submit_alone(const GroupRecord& entry,
                                   std::span<const HeldStorage> outputs,
                                   LaneId lane);
  /// Refuses a kernel that may fail for its values on an asynchronous device: a group learns of the
  /// failure too late.
  [[nodiscard]] Status check_surely_runs(const KernelCall& call) const;
  /// Fills the results of one record of a group. `status`: the group's, success or a failure in its
  /// middle.
  void finish_record(const GroupRecord& entry,
                     std::span<HeldStorage> outputs,
                     const Status& status,
                     LaneState& lane);
  /// On an asynchronous device: results of an update carry the open failures of the tensors that
  /// they replace, and no others. If a guard fails, the device keeps the old elements.
  void inherit_from_old(const ResolvedOp& op);
  /// Returns the status with the op's place, unless the work is deferred.
  [[nodiscard]] Status short_or_named(const Status& status, const OpView& op, LaneId lane) const;
  /// Gives the new tensor of an abandoned update the old value.
  void keep_old_value(const ResolvedOp& op, int output, LaneState& lane, const ErrorRef& error);
  /// Releases idle staging memory when the machine has no more memory. Returns whether there was
  /// any.
  [[nodiscard]] bool unstage(Acquire outcome) noexcept;
  /// Converts a shortage to a status, by the rule.
  [[nodiscard]] Status shortage(std::int64_t size_bytes, Acquire outcome, OnShortage rule);
  /// Whether the kernel wrote out of bounds, for a checking memory strategy.
  [[nodiscard]] Status check_blocks(const ResolvedOp& op, std::span<const HeldStorage> storages);
  /// Copies the elements to row-major order, for this op.
  [[nodiscard]] Status copy_to_contiguous(const OpView& op,
                                          const Slot& from,
                                          Storage& to,
                                          OnShortage rule);
  /// Allocates a copy of the elements of `operand`, whose slot is `from`, without gaps.
  [[nodiscard]] Result<HeldStorage> packed(const OpView& op,
                                           const Operand& operand,
                                           const Slot& from,
                                           OnShortage rule);
  /// Begins or continues the download of the input's bytes, as the lane's copy.
  [[nodiscard]] Status download(const ResolvedOp& op,
                                std::span<std::byte> target,
                                LaneState& lane,
                                OnShortage rule);
  [[nodiscard]] Result<HeldStorage> lendable(const ResolvedOp& op,
                                             LaneState& lane,
                                             OnShortage rule);
  /// Converts a backend's status of this op to an error with the op's place. Records a loss of the
  /// device.
  [[nodiscard]] ErrorRef error_of(const Status& status, const OpView& op, LaneId lane);

  DeviceEndpoint& endpoint_;
  Backend* backend_ = nullptr;
  const KernelFacts* facts_ = nullptr;  // parts of backend_
  KernelMaker* kernels_ = nullptr;
  CopyEngine* copies_ = nullptr;
  DeviceScratch* scratch_;
  HandleTable& handles_;
  InFlight& in_flight_;
  bool runs_inline_ = false;
  DeviceStatistics statistics_;
  std::unique_ptr<KernelJournal> journal_;
  // the launch being submitted to an asynchronous device
  std::optional<detail::TraceEvent> traced_;
  PathId group_layer_;  // of the group that runs now, in a trace
  ErrorRef lost_;
  bool may_have_begun_ = false;  // whether the failed launch may have begun
  bool is_compiling_ = false;    // whether that launch was refused because its kernel compiles
  ErrorRef refusal_;             // of the last refused group
  std::set<std::uint64_t> failed_kernels_;  // kernels of groups that cannot be compiled
  bool has_aftermath_ = false;
  bool has_new_failure_ = false;
  Picks* picks_ = nullptr;
  MemoryRungs rungs_;
  /// Status of all deferred work. is_short() compares its identity; no reader receives it.
  const ErrorRef short_ = std::make_shared<const Error>(
      Error{.code = ErrorCode::out_of_memory, .text = "others may release memory yet"});
  std::vector<TensorView> views_;  // scratch, reused: inputs then outputs
  /// Operands of the next launch of an asynchronous device.
  struct Touched {
    std::vector<Storage*> reads;
    std::vector<Storage*> writes;
    LateFailures late;  ///< failures on which its results depend
    OpRecord record;
    LaneId lane;
  };
  Touched touched_;
  std::vector<ErrorCell> guards_;      // of the last update group
  std::uint64_t group_number_ = 0;     // of the update group being prepared
  std::vector<TimelinePoint> points_;  // scratch, reused
  std::vector<Launch> batch_;
  bool fused_in_place_ = false;             // an output of the group lies in an input's bytes
  std::vector<HeldStorage> fused_outputs_;  // scratch, reused, like the next
  std::vector<LateFailures> fused_late_;    // of each op's result
  GroupCall fused_call_;
  GroupCall call_before_;  // of the group before that one

 public:
  std::vector<LaneState*> woken;  ///< lanes whose slot was filled; the actor makes them ready
  Guests guests;
  /// drops of tensors with guests; the actor waits for those
  std::vector<DeferredDrop> late_drops;
};

}  // namespace hearth
