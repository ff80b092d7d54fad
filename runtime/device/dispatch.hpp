// Dispatch: runs one op: operands to views, memory for the results, the kernel, and what is left of
// the inputs. The only place where streams, memory and a backend meet. Private to runtime. Touched
// by the token holder only. Invariants: (1) an op that fails poisons its outputs and nothing else,
// whether a backend or a memory strategy refuses or throws; (2) its inputs are consumed whether it
// ran or not, once, and as the last thing; (3) in-place reuse happens only for a last use whose
// storage nobody else shares.
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

#include "device_scratch.hpp"
#include "fused_group.hpp"
#include "group_call.hpp"
#include "guests.hpp"
#include "handle_table.hpp"
#include "in_flight.hpp"
#include "kernel_journal.hpp"
#include "lane_state.hpp"
#include "resolved_op.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

/// How an op came out. Where memory was short nothing has happened, and others may release some.
/// Of a copy `in_part` it comes again for the rest (LaneState::copy).
enum class Ran : std::uint8_t { done, failed, short_of_memory, in_part };

/// How a group of ops came out as one kernel. But for `ran` nothing has happened, and its ops may
/// run singly; `not_now`: for want of memory, say, or as the backend refused this once.
enum class Fused : std::uint8_t { ran, unsupported, not_now };

class LayoutsToCome;

class Dispatch {
 public:
  Dispatch(DeviceEndpoint& endpoint,
           Backend& backend,
           DeviceScratch& scratch,
           HandleTable& handles,
           InFlight& in_flight) noexcept
      : endpoint_(endpoint),
        backend_(&backend),
        scratch_(&scratch),
        handles_(handles),
        in_flight_(in_flight),
        runs_inline_(backend.info().runs_inline) {
    in_flight_.cells.limit(backend.info().most_cells);
  }

  [[nodiscard]] bool runs_inline() const noexcept { return runs_inline_; }
  [[nodiscard]] ResolvedOp resolve(const OpView& op, LaneId lane) {
    return ResolvedOp(handles_, op, lane);
  }
  /// Runs a kernel op, a view or a readback, or poisons the outputs.
  [[nodiscard]] Ran run(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  /// Makes a view before its turn, where that changes nothing for anybody else: of a tensor that is
  /// there and stays. Costs neither memory nor a kernel.
  [[nodiscard]] bool show_ahead(const OpView& op, LaneState& lane);
  /// What an op of kind `expression` computes; null for the other kinds.
  [[nodiscard]] const Expression* expression_of(const OpView& op) const noexcept;
  [[nodiscard]] const ExpressionTable& expressions() const noexcept;
  /// How many ops like this one, of as many lanes, may run as one call without a bit of any result
  /// changing. 1: it runs alone. `input_to_come` counts as if it were there.
  [[nodiscard]] std::int64_t joinable_calls(const OpView& op, int input_to_come = -1);
  /// Whether the device has a kernel for this op that takes a group behind it. What fails for its
  /// values is found before anything of the group has happened, or it stays alone: then the ops run
  /// singly, and each has its own error.
  [[nodiscard]] bool may_anchor(const OpView& op) const noexcept {
    return backend_->may_anchor(op.kind()) &&
           (runs_inline_ || !may_fail(op.kind(), op.input(0).dtype));
  }
  /// Whether that kernel can read such an input as one of kind `maker` makes it.
  [[nodiscard]] bool may_take_prologue(OpKind kind, int input, OpKind maker) const noexcept {
    return runs_inline_ && backend_->may_take_prologue(kind, input, maker);
  }
  /// Whether two joinable ops differ in input 0 and output alone.
  [[nodiscard]] bool are_alike(const OpView& a, const OpView& b);
  /// Runs the ops at the fronts of these lanes, which are alike, as one call. Returns how many
  /// lanes have their result; the ops of the others, from there on, were not touched.
  [[nodiscard]] std::size_t run_joined(std::span<LaneState* const> lanes);
  /// Whether the runtime's limit lets this group become one kernel.
  [[nodiscard]] bool admits(const FusedGroup& group, const GroupKernels& kernels) {
    FusionLimit& limit = endpoint_.tables().fusion_limit;
    return !limit.is_set() || admits_by(limit, group, kernels);
  }
  /// Runs a group of ops as one kernel. One that has begun to overwrite an input and then failed
  /// leaves the group's results poisoned, as an op does.
  [[nodiscard]] Fused run_fused(const FusedGroup& group,
                                const GroupKernels& kernels,
                                LaneState& lane);
  /// Ends what ops end whose results nobody needs; none of them runs.
  void pass_over(const FusedGroup& group, LaneState& lane);
  /// The last use of a tensor, by a record that ran before its turn.
  void end_use(const Operand& operand) noexcept { consume(operand, handles_.slot(operand.slot)); }
  [[nodiscard]] const Shape& shape_of(ShapeId id) const noexcept {
    return endpoint_.tables().shapes.shape(id);
  }
  /// What becomes of 16-bit values inside of groups.
  [[nodiscard]] Between between() const noexcept { return endpoint_.tables().between; }
  /// Fails an op without running it.
  void fail(const OpView& op, LaneState& lane, const ErrorRef& error);
  /// Fails an op that has not begun and that its stream's limits end; an input's error comes first.
  /// Returns what its outputs carry.
  [[nodiscard]] ErrorRef give_up(const OpView& view, LaneState& lane, const Error& why);
  /// Checks that an update group's inputs are there and its kernels too, and gets all its memory:
  /// then it can run. On failure it has taken nothing. is_short() of the status: memory was short,
  /// and it may be asked again when others have released some.
  [[nodiscard]] Result<GroupMemory> prepare_group(std::span<const GroupRecord> group,
                                                  LaneState& lane,
                                                  OnShortage rule);
  /// Runs a prepared group; on the device its results keep the old elements if one of `guards`
  /// fails. The status is the step's, as far as it is known. A group that fails although it was
  /// prepared leaves all its results poisoned, unless nothing of it has begun.
  [[nodiscard]] Status run_group(std::span<const GroupRecord> group,
                                 GroupMemory& memory,
                                 const LateFailures& guards,
                                 LaneState& lane);
  /// Drops a group that will not run: outputs keep their old values.
  void abandon_group(std::span<const GroupRecord> group, LaneState& lane, const ErrorRef& error);

  /// upload, lend, and the wait for the device.
  [[nodiscard]] Ran upload(const OpView& op, LaneState& lane, OnShortage rule);
  /// The bytes to lend: the input's own when this is its last use, else a copy. The input is still
  /// there. is_short() of the status: as in prepare_group.
  [[nodiscard]] Result<HeldStorage> storage_to_lend(const ResolvedOp& op,
                                                    LaneState& lane,
                                                    OnShortage rule);
  /// Why the op must not run, or null.
  [[nodiscard]] ErrorRef first_poison(const ResolvedOp& op) const {
    return lost_ ? lost_ : op.poison();
  }
  /// Whether a loan lends a copy in host memory, as the host cannot touch the device's.
  [[nodiscard]] bool lends_copies() const noexcept { return !backend_->info().has_host_memory; }
  /// Begins to bring a storage's first bytes into `copy`, or goes on; that is over when the lane
  /// has no copy any more, and the bytes are there once the storage's last use has ended.
  [[nodiscard]] Status copy_out(Storage& storage, const HostBytes& copy, LaneState& lane);
  /// Brings them back; the storage's last use is their end. Blocks where the device takes them in
  /// parts: memory of host_bytes() it takes whole, unless the system gave no such memory.
  [[nodiscard]] Status copy_back(Storage& storage, const HostBytes& copy);
  /// The lane's copy in parts is over, or given up: what the device has taken goes on, without the
  /// host bytes of a reader.
  void end_copy(LaneState& lane) noexcept;
  /// Host memory for the two.
  [[nodiscard]] HostBytes host_bytes(std::size_t size) { return backend_->host_bytes(size); }
  /// The lend is done; its output is made when the loan ends, so that nobody reads it before.
  void consume_lent(const ResolvedOp& op) noexcept { consume_inputs(op); }
  /// A loan ends now: an event, where there is a trace.
  void trace_loan(const Loan& loan, LaneId lane);
  /// When what is done now begins, where there is a trace.
  [[nodiscard]] detail::TimePoint traced_now() const noexcept;
  /// The end of a loan: the tensor is there, or carries the error.
  void finish_loan(const Operand& out, LaneId lane, HeldStorage storage, const Status& status);
  [[nodiscard]] HeldStorage hold(Storage* storage) noexcept {
    return HeldStorage(storage, GiveBack{&handles_});
  }

  /// Whether that is the status of work that is put off, which found no memory and may be tried
  /// again.
  [[nodiscard]] bool is_short(const Status& status) const noexcept {
    return !status.has_value() && status.shared_error() == short_;
  }
  /// The tensor's lane counts on being the only user, but these are not done.
  void add_guests(DeferredDrop entry);
  /// Frees a slot and gives its number back.
  void release_slot(SlotId id) noexcept;
  /// From a failure of this op to an error that says where it came from.
  [[nodiscard]] ErrorRef with_provenance(const Error& error, const OpView& op, LaneId lane) const;
  /// The same, entered in the book of failures: the read of a result throws it, or the log reports
  /// it.
  [[nodiscard]] ErrorRef failure_of(const Error& error, const OpView& op, LaneId lane) const;
  /// This lane's next sync() reports the failure if nobody has read it by then.
  void note_failure(const ErrorRef& error, LaneState& lane);
  /// The same for an op that has failed, which is counted.
  void account(const ErrorRef& error, LaneState& lane);
  /// The same for an op that was found to have failed after its lane, which may have ended, went
  /// on.
  void account_late(const ErrorRef& error, LaneState* lane);
  /// The exception being handled, as the failure of this op.
  [[nodiscard]] ErrorRef thrown_by(const OpView& op, LaneId lane) const noexcept;

  /// The exception being handled is our own mistake, or a want of host memory, in what no op needs:
  /// the log reports it.
  void note_mistake(const char* what) const noexcept;

  /// The device is lost: everything fails with this from now on.
  void lose(ErrorRef error) noexcept { lost_ = std::move(error); }
  [[nodiscard]] const ErrorRef& lost() const noexcept { return lost_; }
  /// Whether a strategy looks behind each op whether it wrote where it should not.
  [[nodiscard]] bool checks_blocks() const noexcept { return handles_.is_checked(); }
  /// Whether a record left something behind for the actor: lanes to wake, late drops, a failure, a
  /// loss. One branch for each record, which nearly always finds nothing.
  [[nodiscard]] bool has_aftermath() const noexcept { return has_aftermath_; }
  void end_aftermath() noexcept { has_aftermath_ = false; }
  /// Whether a failure was noted since the last call.
  [[nodiscard]] bool take_noted() noexcept { return std::exchange(has_noted_, false); }
  /// What the device has taken begins to run; where it is lost, its next answer says so.
  void flush() noexcept;
  /// Why an inline device does not end its work; success on all other devices, whose work is in
  /// flight.
  [[nodiscard]] Status inline_hang();
  /// How far the device is with its ops now.
  [[nodiscard]] std::uint64_t ended_ops() const noexcept { return backend_->completed(kOpStream); }
  /// It runs again, on a fresh backend.
  void restart(Backend& backend, DeviceScratch& scratch) noexcept {
    backend_ = &backend;
    scratch_ = &scratch;
    runs_inline_ = backend.info().runs_inline;
    lost_ = nullptr;
    journal_.reset();
  }
  /// Keeps which kernels run from now on.
  void start_journal() { journal_ = std::make_unique<KernelJournal>(); }
  [[nodiscard]] Explanation take_journal();
  /// What errors and explanations call an op.
  [[nodiscard]] std::string_view name_of(const OpRecord& record) const noexcept {
    return endpoint_.tables().op_name(record);
  }
  /// Null: nobody asks.
  [[nodiscard]] KernelJournal* journal() const noexcept { return journal_.get(); }
  [[nodiscard]] std::uint64_t kernel_count() const noexcept { return statistics_.kernels; }
  /// Whether the last launch was refused because its kernel is being compiled.
  [[nodiscard]] bool is_compiling() const noexcept { return is_compiling_; }
  /// Why the last group that could not run did not; empty: for want of memory.
  [[nodiscard]] std::string_view refusal() const noexcept {
    return refusal_ ? std::string_view(refusal_->text) : std::string_view();
  }
  [[nodiscard]] DeviceStatistics& statistics() noexcept { return statistics_; }
  /// Waits and refusals for want of memory; the strategy counts the other rungs.
  [[nodiscard]] const MemoryRungs& rungs() const noexcept { return rungs_; }

 private:
  static constexpr std::size_t kMostOutputs = 4;
  /// The memory of an op's results, until slots take it over.
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
  /// False: strides cannot express it.
  [[nodiscard]] bool show(const ResolvedOp& op, LaneState& lane);
  [[nodiscard]] Ran run_reshaped(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  [[nodiscard]] Ran readback(const ResolvedOp& op, LaneState& lane, OnShortage rule);
  /// The op has no result: its outputs carry the status, unless the op is put off.
  [[nodiscard]] Ran fail_or_put_off(const ResolvedOp& op, LaneState& lane, const Status& status);
  void fail(const ResolvedOp& op, LaneState& lane, const ErrorRef& error);
  /// The op's operands, outputs in these storages; valid as long as `views`, which has room for as
  /// many.
  [[nodiscard]] KernelCall call_of(const ResolvedOp& op,
                                   std::span<const HeldStorage> storages,
                                   std::span<TensorView> views) const;
  /// Room for an op's views, until the next call: a warm device overwrites those of the op before.
  [[nodiscard]] std::span<TensorView> room_for_views(const OpView& op) {
    const auto count = static_cast<std::size_t>(op.record().operand_count());
    if (views_.size() < count) [[unlikely]] {
      views_.resize(count);
    }
    return {views_.data(), count};
  }
  /// Runs the kernel. Where it found no scratch memory, the status is a shortage's.
  [[nodiscard]] Status run_call(const char* what, Launch& launch, OnShortage rule);
  /// Gives the launch to an asynchronous device, behind all that it must wait for.
  [[nodiscard]] Issue issue(Launch& launch);
  /// On an asynchronous device: which storages the next launch reads and writes, for which op, and
  /// on which kernels its results depend.
  void touch(const ResolvedOp& op, std::span<const HeldStorage> written);
  void touch(const FusedGroup& group, LaneId lane);
  /// A group did not run because its kernel is not there.
  void note_unmade(const FusedGroup& group, const GroupKernels& kernels, const Error& why);
  /// The layer of a group: of the first of its ops that has one.
  void note_layer(const FusedGroup& group) noexcept;
  /// An op's own points of what was touched, by stream.
  [[nodiscard]] std::span<const TimelinePoint> points_before();
  void note_launched(TimelinePoint point, const Launch& launch);
  /// A copy into or out of the storage that was issued up to this point.
  static void note_copy(Storage& storage, TimelinePoint point, bool writes) noexcept;
  /// A copy of this storage has failed, of which the device may have a part.
  void note_begun_copy(Storage& storage, std::uint8_t stream);
  /// The device takes the next part of the copy into or out of these host bytes.
  [[nodiscard]] Status upload_part(PartialCopy& copy,
                                   std::span<const std::byte> bytes,
                                   const std::shared_ptr<const void>& owner);
  [[nodiscard]] Status download_part(PartialCopy& copy,
                                     std::span<std::byte> bytes,
                                     const std::shared_ptr<const void>& owner);
  /// The device has taken this part, up to `size_bytes` in all. It touches bytes of `owner` until
  /// then.
  void note_part(PartialCopy& copy,
                 const CopyPart& part,
                 std::size_t size_bytes,
                 std::uint8_t stream,
                 const std::shared_ptr<const void>& owner);
  /// Waits until the device has ended its ops, for a strategy that looks at the bytes. Blocks.
  [[nodiscard]] Status wait_for_ops();
  /// What a kernel that failed with this status failed of.
  [[nodiscard]] Status why_failed(Status status, OnShortage rule);
  /// Runs the kernel with outputs in these storages.
  [[nodiscard]] Status submit(const ResolvedOp& op,
                              std::span<const HeldStorage> storages,
                              OnShortage rule,
                              bool may_come_later = false);
  /// A kernel has to be compiled now: of the records behind the lane's front, those are asked for
  /// that can be told before their turn, to be made meanwhile.
  void foresee(LaneState& lane) noexcept;
  void foresee_all(LaneState& lane);
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
  /// `op_count`: how many ops the kernel stands for.
  [[nodiscard]] Status submit_launch(Launch& launch,
                                     std::size_t op_count,
                                     OnShortage rule,
                                     LaneId lane);
  [[nodiscard]] Status submit_watched(Launch& launch,
                                      std::size_t op_count,
                                      OnShortage rule,
                                      LaneId lane);
  /// A kernel of this op as an event that begins now, in a trace.
  [[nodiscard]] std::string_view traced_name(const KernelCall& call) const;
  [[nodiscard]] detail::TraceEvent event_of(const OpView& op,
                                            std::string_view name,
                                            std::size_t op_count,
                                            LaneId lane) const;
  /// The event ends now.
  void trace_until_now(detail::TraceEvent event) noexcept;
  /// Bytes that come in or go out from `begin` to `point`: an event, where there is a trace.
  void trace_copy(const OpView& op,
                  LaneId lane,
                  detail::TraceTrack track,
                  std::size_t size_bytes,
                  detail::TimePoint begin,
                  TimelinePoint point);
  /// For the journal, where there is one: these kernels run, by one call of the backend.
  void note_launch(std::span<const Launch> launches, std::size_t op_count) noexcept;
  /// The kernel that is noted next is one call for so many streams; 0: it did not run.
  void expect_end_of_join(std::size_t streams) noexcept;
  /// The launch was a copy for the op.
  void note_copy(const Launch& launch, const OpView& op) noexcept;
  /// The kernel that was noted last is the group's.
  void note_members(const FusedGroup& group) noexcept;
  void note_view(const Operand& from, const Operand& view) noexcept;
  /// Memory for the results that a group leaves, in their order; false: there was none.
  [[nodiscard]] bool get_memory(const FusedGroup& group);
  [[nodiscard]] Storage* reusable_storage(const FusedGroup& group,
                                          const FusedGroup::Made& made) const;
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
                                   bool may_come_later);
  /// Whether each op of the group could run alone at once, with no kernel to be compiled.
  [[nodiscard]] bool could_run_singly(const FusedGroup& group) const;
  /// The results of a group that has run are there; what it ends goes.
  void prepare_finish(const FusedGroup& group);
  /// What groups make and nobody else reads is over.
  void pass_over_values(const FusedGroup& group) noexcept;
  void consume_last(const FusedGroup& group) noexcept;
  /// `error`: null, or why the group's kernel has spoilt what it works on.
  void finish_fused(const FusedGroup& group, LaneState& lane, const ErrorRef& error) noexcept;
  /// The program's own code of an op of kind `custom`; null for the other kinds.
  [[nodiscard]] const CustomCode* custom_of(const OpView& op) const noexcept;
  /// The input whose bytes output `index` of an update replaces: parameter for 0, state after
  /// the gradient for the rest.
  [[nodiscard]] static constexpr int updated_input(int output_index) noexcept {
    return output_index == 0 ? 0 : output_index + 1;
  }
  /// The storage of output `index` if it may take an input's bytes.
  [[nodiscard]] Storage* reusable_storage(const ResolvedOp& op, int output_index);
  /// Bytes for a result, or the shortage, or what the memory strategy threw.
  [[nodiscard]] Result<HeldStorage> allocate(std::int64_t size_bytes,
                                             PoolKind kind,
                                             const BlockOrigin& origin,
                                             OnShortage rule);
  [[nodiscard]] Result<HeldStorage> storage_for(const ResolvedOp& op,
                                                int output_index,
                                                OnShortage rule);
  /// What the bytes of output `index` are made for.
  [[nodiscard]] BlockOrigin origin_of_result(const OpView& op, int output_index);
  /// The same where no input can be reused.
  [[nodiscard]] Result<HeldStorage> new_storage_for(const OpView& op,
                                                    int output_index,
                                                    OnShortage rule);
  void make_outputs(const OpView& op, LaneState& lane, std::span<HeldStorage> storages);
  void poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error);
  void consume_inputs(const ResolvedOp& op) noexcept;
  void consume_inputs(const OpView& op) noexcept;
  /// The last use of this operand is over.
  void consume(const Operand& operand, Slot& slot) noexcept;
  /// Whether the storage may be written to for this slot's last user.
  [[nodiscard]] bool is_free_to_write(SlotId id, const Slot& slot) const noexcept {
    return slot.storage != nullptr && slot.storage->uses == 1 && slot.layout->contiguous &&
           slot.data == slot.storage->block.data && (guests.empty() || !guests.has(id));
  }
  void fill(Slot& slot, const Operand& operand, LaneId home, HeldStorage&& storage);
  /// The slot's tensor is there for those who wait for it.
  void wake_waiting(Slot& slot) {
    if (!slot.waiting.empty()) [[unlikely]] {
      note_woken(slot);
    }
  }
  void note_woken(Slot& slot);
  /// consume() of a tensor with guests.
  void consume_later(SlotId slot) noexcept;
  /// Undoes the figures of work that is put off; `releases`: how many there were before it.
  void note_put_off(std::uint64_t releases, OnShortage rule) noexcept;
  [[nodiscard]] Result<GroupMemory> memory_of_group(std::span<const GroupRecord> group,
                                                    LaneState& lane,
                                                    OnShortage rule);
  /// What the backend has said of calls of a group: equal ones it is asked once.
  class AskedCalls;
  struct PreparedRecord {
    std::int64_t scratch_bytes = 0;  ///< of its kernel
    bool is_overwriter = false;      ///< of what an earlier record of the group reads
  };
  /// Memory for the results of one record of a group, behind that of those before, and its views,
  /// in `views`.
  [[nodiscard]] Result<PreparedRecord> prepare_record(const OpView& view,
                                                      LaneState& lane,
                                                      OnShortage rule,
                                                      std::vector<HeldStorage>& outputs,
                                                      std::span<TensorView> views,
                                                      AskedCalls& asked);
  /// Whether the record, with results in these storages, overwrites what an earlier one of its
  /// group reads; later ones learn what it reads itself.
  [[nodiscard]] bool note_reads(const ResolvedOp& op,
                                std::span<const HeldStorage> results) const noexcept;
  /// How many records, from the first on, may go to the backend as one batch, as far as their kind
  /// matters.
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
  /// Submits the whole group. `has_begun`: whether it may have written something.
  [[nodiscard]] Status issue_guarded(std::span<const GroupRecord> group,
                                     const GroupMemory& memory,
                                     const LateFailures& guards,
                                     LaneState& lane,
                                     bool& has_begun);
  /// Submits a record with outputs in these storages.
  [[nodiscard]] Issue submit_alone(const GroupRecord& entry,
                                   std::span<const HeldStorage> outputs,
                                   LaneId lane);
  /// An asynchronous device learns too late that a kernel of a group fails: such have no place
  /// there.
  [[nodiscard]] Status check_surely_runs(const KernelCall& call) const;
  /// The results of a record of a group that ran, or has failed with this status in its middle.
  void finish_record(const GroupRecord& entry,
                     std::span<HeldStorage> outputs,
                     const Status& status,
                     LaneState& lane);
  /// On an asynchronous device: results of an update carry the failures of the tensors that they
  /// replace, and no others. If a guard fails they are as these were.
  void inherit_from_old(const ResolvedOp& op);
  /// The status, with where it came from unless the work is put off.
  [[nodiscard]] Status short_or_named(const Status& status, const OpView& op, LaneId lane) const;
  /// The new tensor of an update that does not happen.
  void keep_old_value(const ResolvedOp& op, int output, LaneState& lane, const ErrorRef& error);
  /// Where the machine has no more memory: drops staging memory that nobody holds, and says
  /// whether there was any.
  [[nodiscard]] bool unstage(Acquire outcome) noexcept;
  /// What the rule says, as a failure.
  [[nodiscard]] Status shortage(std::int64_t size_bytes, Acquire outcome, OnShortage rule);
  /// Whether the kernel wrote where it should not; for a strategy that knows.
  [[nodiscard]] Status check_blocks(const ResolvedOp& op, std::span<const HeldStorage> storages);
  /// For this op, which needs them so.
  [[nodiscard]] Status copy_to_contiguous(const OpView& op,
                                          const Slot& from,
                                          Storage& to,
                                          OnShortage rule);
  /// The elements of `operand`, whose slot is `from`, anew and without gaps.
  [[nodiscard]] Result<HeldStorage> packed(const OpView& op,
                                           const Operand& operand,
                                           const Slot& from,
                                           OnShortage rule);
  /// Begins to bring the input's bytes, or goes on, as the lane's copy.
  [[nodiscard]] Status download(const ResolvedOp& op,
                                std::span<std::byte> target,
                                LaneState& lane,
                                OnShortage rule);
  [[nodiscard]] Result<HeldStorage> lendable(const ResolvedOp& op,
                                             LaneState& lane,
                                             OnShortage rule);
  /// From what the backend said of this op to an error that says where it came from. A lost device
  /// is remembered.
  [[nodiscard]] ErrorRef error_of(const Status& status, const OpView& op, LaneId lane);

  DeviceEndpoint& endpoint_;
  Backend* backend_;
  DeviceScratch* scratch_;
  HandleTable& handles_;
  InFlight& in_flight_;
  bool runs_inline_;
  DeviceStatistics statistics_;
  std::unique_ptr<KernelJournal> journal_;
  std::optional<detail::TraceEvent> traced_;  // the launch that an asynchronous device is given now
  PathId group_layer_;                        // of the group that runs now, in a trace
  ErrorRef lost_;
  bool may_have_begun_ = false;             // the launch that failed last
  bool is_compiling_ = false;               // the same
  ErrorRef refusal_;                        // of the last group that was refused
  std::set<std::uint64_t> failed_kernels_;  // of groups, that cannot be made
  bool has_aftermath_ = false;
  bool has_noted_ = false;
  MemoryRungs rungs_;
  /// The failure of all work that is put off: told apart by being this one, and read by nobody.
  const ErrorRef short_ = std::make_shared<const Error>(
      Error{.code = ErrorCode::out_of_memory, .text = "others may release memory yet"});
  std::vector<TensorView> views_;  // scratch, reused: inputs then outputs
  /// What the next launch of an asynchronous device touches.
  struct Touched {
    std::vector<Storage*> reads;
    std::vector<Storage*> writes;
    LateFailures late;  ///< what its results depend on
    OpRecord record;
    LaneId lane;
  };
  Touched touched_;
  std::vector<ErrorCell> guards_;      // of the last update group
  std::uint64_t group_number_ = 0;     // of the update group that is being prepared
  std::vector<TimelinePoint> points_;  // scratch, reused
  std::vector<Launch> batch_;
  bool fused_in_place_ = false;             // an output of the group lies in an input's bytes
  std::vector<HeldStorage> fused_outputs_;  // scratch, reused, like the next
  std::vector<LateFailures> fused_late_;    // of each op's result
  GroupCall fused_call_;
  GroupCall call_before_;  // of the group before that

 public:
  std::vector<LaneState*> woken;  ///< lanes whose slot was made; the actor makes them ready
  Guests guests;
  std::vector<DeferredDrop> late_drops;  ///< of tensors with guests; the actor waits for those
};

}  // namespace hearth
