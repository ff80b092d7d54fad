#include "recorder.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/streams/op_table.hpp>

#include "recorder_state.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

using detail::ticket_of;

namespace {

// Notes settings of the environment, except for folders, which are private.
void record_settings(std::map<std::string, std::string>& notes) {
  const detail::Settings settings = detail::Settings::from_environment();
  for (const detail::Setting setting : {detail::Setting::log_level, detail::Setting::cpu_devices}) {
    if (const auto& text = settings.text(setting)) {
      notes.emplace(detail::known_settings()[static_cast<std::size_t>(setting)].variable, *text);
    }
  }
}

TraceOp upload_of(const Operand& operand, std::uint32_t device, LaneId lane) {
  TraceOp upload{.record = {}, .device = device, .lane = lane.value};
  upload.record.kind = OpKind::upload;
  upload.record.output_count = 1;
  upload.record.operands[0] = operand;
  upload.record.operands[0].use = Use::out;
  return upload;
}

}  // namespace

Recorder::Recorder(const ShapeTable& shapes,
                   const SourceTable& sources,
                   const PathTable& paths,
                   const ExpressionTable& expressions) noexcept
    : shapes_(shapes), sources_(sources), paths_(paths), expressions_(expressions) {}

Recorder::~Recorder() = default;

// Makes the state before the lock, since it queries the devices' names. A refused second recording
// does not affect the first.
Status Recorder::start(std::span<const Device> devices, const RecordOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->trace.notes = options.notes;
  record_settings(state->trace.notes);
  for (const Device& device : devices) {
    state->devices.emplace(device.endpoint().key(),
                           static_cast<std::uint32_t>(state->trace.devices.size()));
    state->trace.devices.push_back(device.name());
  }
  const detail::MutexLock lock(mutex_);
  if (state_) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .text = "record: this runtime is being recorded already; stop the other recording first"};
  }
  state_ = std::move(state);
  ++recording_;
  is_on_.store(true, std::memory_order_release);  // partner: is_on
  return {};
}

// Tickets answered later find no state, or that of a later recording with another number (Mark),
// and add nothing. The trace is assembled outside of the lock, since every op of the program would
// wait for it.
Result<OpTrace> Recorder::stop() {
  std::unique_ptr<State> state;
  {
    const detail::MutexLock lock(mutex_);
    is_on_.store(false, std::memory_order_release);  // partner: is_on
    state = std::move(state_);
  }
  if (!state) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "record: the recording has ended already"};
  }
  return finished(*state);
}

Result<std::uint32_t> Recorder::value_of(const DeviceEndpoint& endpoint,
                                         LaneId lane,
                                         const Operand& operand) {
  const detail::MutexLock lock(mutex_);
  const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
  if (!device) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "record: the tensor's device is not being recorded"};
  }
  const Name name{*device, operand.slot, operand.generation};
  const auto [value, is_new] = state_->values.emplace(name, state_->next_value);
  if (is_new) {
    ++state_->next_value;
    add(*state_, upload_of(translate(*state_, operand, value->second), *device, lane));
  }
  return value->second;
}

RecordedBytes Recorder::wanted_bytes() const {
  const detail::MutexLock lock(mutex_);
  return state_ ? state_->options.bytes : RecordedBytes::none;
}

std::optional<std::uint32_t> Recorder::device_of(const State& state,
                                                 const DeviceEndpoint& endpoint) {
  const auto found = state.devices.find(endpoint.key());
  return found == state.devices.end() ? std::nullopt : std::optional(found->second);
}

// Omits what began before the recording: the rest of an update group, and lifetimes of tensors that
// the trace does not name.
bool Recorder::is_left_out(const State& state,
                           std::uint32_t device,
                           LaneId lane,
                           const OpView& op) {
  const OpKind kind = op.kind();
  if (kind == OpKind::group_end || is_update(op.record())) {
    return !state.groups.contains({device, lane.value});
  }
  if (kind == OpKind::publish || kind == OpKind::adopt || kind == OpKind::drop) {
    return !state.values.contains(Name{device, op.input(0).slot, op.input(0).generation});
  }
  return false;
}

// Ends the operands of an omitted op.
void Recorder::leave_out(State& state, std::uint32_t device, LaneId lane, const OpView& op) const {
  for (int i = 0; i < op.record().input_count; ++i) {
    if (op.input(i).use == Use::read_last) {
      add_drop(state, device, lane, op.input(i));
    }
  }
}

// The value's number ends with the tensor: the next tensor in that slot is another value.
void Recorder::add_drop(State& state,
                        std::uint32_t device,
                        LaneId lane,
                        const Operand& operand) const {
  const auto value = state.values.find(Name{device, operand.slot, operand.generation});
  if (value == state.values.end()) {
    return;
  }
  TraceOp drop{.record = {}, .device = device, .lane = lane.value};
  drop.record.kind = OpKind::drop;
  drop.record.input_count = 1;
  drop.record.operands[0] = translate(state, operand, value->second);
  drop.record.operands[0].use = Use::read_last;
  state.values.erase(value);
  state.trace.ops.push_back(std::move(drop));
}

// ---- from the runtime's numbers to the trace's ----

// Slots are reused, so (device, slot, generation) identifies a value only while it lives. In the
// trace each value has its own number, and each shape a number that is valid in every process.
Operand Recorder::translate(State& state, const Operand& operand, std::uint32_t value) const {
  const auto [shape, is_new] = state.shapes.emplace(
      operand.shape.value, static_cast<std::uint32_t>(state.trace.shapes.size()));
  if (is_new) {
    state.trace.shapes.push_back(shapes_.shape(operand.shape));
  }
  return Operand{
      .slot = {value}, .shape = {shape->second}, .dtype = operand.dtype, .use = operand.use};
}

std::uint32_t Recorder::place_of(State& state, SourceId source) const {
  if (source.value == 0) {
    return 0;
  }
  const auto [place, is_new] =
      state.places.emplace(source.value, static_cast<std::uint32_t>(state.trace.places.size()));
  if (is_new) {
    const SourceLoc location = sources_.location(source);
    state.trace.places.push_back({location.file, location.line});
  }
  return place->second;
}

std::uint32_t Recorder::path_of(State& state, PathId path) const {
  if (path.value == 0) {
    return 0;
  }
  const auto [place, is_new] =
      state.paths.emplace(path.value, static_cast<std::uint32_t>(state.trace.paths.size()));
  if (is_new) {
    state.trace.paths.push_back(paths_.path(path));
  }
  return place->second;
}

void Recorder::record_expression(State& state, TraceOp& op) const {
  if (op.record.kind != OpKind::expression) {
    return;
  }
  auto attributes = op.view().attributes<ExpressionAttributes>();
  const auto [place, is_new] = state.expressions.emplace(
      attributes.expression, static_cast<std::uint32_t>(state.trace.expressions.size()));
  if (is_new) {
    state.trace.expressions.push_back(expressions_.ref(ExprId{attributes.expression}));
  }
  attributes.expression = place->second;
  std::memcpy(op.record.immediate, &attributes, sizeof attributes);
}

// Inputs first: an op may release a slot and make its result in the same one. Operands beyond the
// inline ones stand at the head of the blob, and are replaced there.
void Recorder::add_operands(State& state, TraceOp& op, const OpView& from) const {
  for (int i = 0; i < op.record.operand_count(); ++i) {
    const Operand operand = from.operand(i);
    const Name name{op.device, operand.slot, operand.generation};
    std::uint32_t value = 0;
    if (i < op.record.input_count) {
      value = state.values.at(name);
    } else {
      value = state.next_value++;
      state.values.insert_or_assign(name, value);
    }
    const Operand translated = translate(state, operand, value);
    if (i < kInlineOperands) {
      op.record.operands[i] = translated;
    } else {
      std::memcpy(op.blob.data() + static_cast<std::size_t>(i - kInlineOperands) * sizeof(Operand),
                  &translated,
                  sizeof translated);
    }
  }
  for (int i = 0; i < op.record.input_count; ++i) {
    if (from.input(i).use == Use::read_last) {
      state.values.erase(Name{op.device, from.input(i).slot, from.input(i).generation});
    }
  }
}

std::size_t Recorder::add(State& state, TraceOp op) {
  const std::size_t place = state.trace.ops.size();
  state.size_bytes += static_cast<std::int64_t>(sizeof(TraceOp) + op.blob.size());
  state.trace.ops.push_back(std::move(op));
  if (state.size_bytes > state.options.limit_bytes) {
    end_early(
        state,
        fmt::format(
            "{} bytes are more than the limit of {}", state.size_bytes, state.options.limit_bytes));
  }
  return place;
}

// Keeps what was recorded so far, for stop().
void Recorder::end_early(State& state, std::string_view why) {
  state.trace.notes.emplace("ended early",
                            fmt::format("after op {}: {}", state.trace.ops.size(), why));
  is_on_.store(false, std::memory_order_release);  // partner: is_on
}

void Recorder::end_early(const Error& error) {
  const detail::MutexLock lock(mutex_);
  if (state_) {
    end_early(*state_, error.text);
  }
}

// ---- for streams ----

namespace {

// Copies the op for a trace, without translating its numbers. A lifetime record holds a ticket, an
// address of this process; it is cleared. Unused operands are cleared too, so that equal programs
// leave equal traces.
TraceOp copy_of(const OpView& op, std::uint32_t device, LaneId lane, std::uint64_t sequence) {
  TraceOp copy{.record = op.record(), .device = device, .lane = lane.value};
  copy.record.sequence = sequence;
  copy.record.blob_offset = 0;
  if (op_info(op.kind()).op_class == OpClass::lifetime) {
    copy.record.blob_size_bytes = 0;
    std::fill(std::begin(copy.record.immediate), std::end(copy.record.immediate), std::byte{0});
  } else {
    copy.blob.assign(op.blob(), op.blob() + op.record().blob_size_bytes);
  }
  for (int i = op.record().operand_count(); i < kInlineOperands; ++i) {
    copy.record.operands[i] = Operand{};
  }
  return copy;
}

using UploadedBytes = std::optional<std::vector<std::byte>>;

// The bytes of an upload; none if they are not recorded, or if another device sends them.
Result<UploadedBytes> uploaded_bytes(const OpView& op, RecordedBytes wanted) {
  if (wanted == RecordedBytes::none || ticket_of<UploadTicket>(op)->transfer) {
    return UploadedBytes();
  }
  HEARTH_TRY(std::vector<std::byte> copy, host_copy(ticket_of<UploadTicket>(op)->bytes, "record"));
  return UploadedBytes(std::move(copy));
}

}  // namespace

// Phases: under the lock, number the strangers and add an upload for each; outside of it, allocate
// memory for their bytes.
std::vector<Recorder::UnrecordedInput> Recorder::admit_unrecorded_inputs(
    const DeviceEndpoint& endpoint, LaneId lane, const OpView& op) {
  std::vector<std::pair<Operand, Mark>> admitted;
  {
    const detail::MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    if (!device || is_left_out(*state_, *device, lane, op)) {
      return {};
    }
    for (int i = 0; i < op.record().input_count; ++i) {
      const Operand operand = op.input(i);
      const Name name{*device, operand.slot, operand.generation};
      if (state_->values.contains(name)) {
        continue;  // made since the recording began
      }
      const std::uint32_t value = state_->next_value++;
      state_->values.emplace(name, value);
      TraceOp upload = upload_of(translate(*state_, operand, value), *device, lane);
      admitted.emplace_back(operand, Mark{recording_, add(*state_, std::move(upload))});
    }
    if (state_->options.bytes == RecordedBytes::none ||
        state_->options.bytes == RecordedBytes::uploads) {
      return {};  // a replay generates their values
    }
  }
  std::vector<UnrecordedInput> unrecorded;
  for (const auto& [operand, mark] : admitted) {
    const std::int64_t size =
        shapes_.shape(operand.shape).element_count() * size_bytes(operand.dtype);
    Result<std::vector<std::byte>> bytes =
        host_vector<std::byte>(static_cast<std::size_t>(size), "record");
    if (!bytes.has_value()) {
      end_early(bytes.error());
      break;
    }
    unrecorded.push_back({operand, read_for(mark, std::move(bytes).value())});
  }
  return unrecorded;
}

// The stream pushes this read before the op that uses the stranger. The op may overwrite the bytes
// in place; the read returns those before it.
std::unique_ptr<ReadTicket> Recorder::read_for(const Mark& mark, std::vector<std::byte> bytes) {
  auto ticket = std::make_unique<ReadTicket>();
  ticket->bytes = std::move(bytes);
  ticket->target = ticket->bytes;
  ticket->finish = [this, mark](ReadTicket& done, const ErrorRef& error) {
    finish(mark, done.target, error);
  };
  return ticket;
}

// Phases: copy uploaded bytes outside of the lock; add the op in the trace's numbers; hook its
// ticket before the push passes it on.
std::optional<Recorder::Mark> Recorder::note(const DeviceEndpoint& endpoint,
                                             LaneId lane,
                                             std::uint64_t sequence,
                                             const OpView& op) {
  Result<UploadedBytes> bytes =
      uploaded_bytes(op, op.kind() == OpKind::upload ? wanted_bytes() : RecordedBytes::none);
  if (!bytes.has_value()) {
    end_early(bytes.error());
    return std::nullopt;
  }
  Mark mark;
  {
    const detail::MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    if (!device || !is_on()) {
      return std::nullopt;  // the recording ended while the bytes were copied
    }
    State& state = *state_;
    if (is_left_out(state, *device, lane, op)) {
      leave_out(state, *device, lane, op);
      return std::nullopt;
    }
    TraceOp recorded = copy_of(op, *device, lane, sequence);
    recorded.record.source.value = place_of(state, op.record().source);
    recorded.record.path.value = path_of(state, op.record().path);
    record_expression(state, recorded);
    add_operands(state, recorded, op);
    if (bytes.value()) {
      recorded.data = state.add_data(std::move(*bytes.value()));
    }
    record_kind(state, recorded, op);
    mark = Mark{recording_, add(state, std::move(recorded))};
  }
  listen(op, mark);
  return mark;
}

// Remembers what later ops refer to: the read of a copy's source half, the op that lent bytes, and
// open update groups. Called before the op is added, so its index is the number of earlier ops.
void Recorder::record_kind(State& state, TraceOp& op, const OpView& from) {
  const auto place = static_cast<std::uint32_t>(state.trace.ops.size());
  const std::pair lane(op.device, op.lane);
  switch (from.kind()) {
    case OpKind::upload:
      if (const auto read = state.transfers.find(ticket_of<UploadTicket>(from)->transfer.get());
          read != state.transfers.end()) {
        op.copied_from = read->second;
        state.transfers.erase(read);
      }
      break;
    case OpKind::readback:
      if (const Transfer* transfer = ticket_of<ReadTicket>(from)->transfer; transfer != nullptr) {
        state.transfers.insert_or_assign(transfer, place + 1);
      }
      break;
    case OpKind::lend:
      state.loans.emplace(op.record.operands[1].slot.value, place);
      break;
    case OpKind::group_begin:
      state.groups.insert(lane);
      break;
    case OpKind::group_end:
      state.groups.erase(lane);
      op.outcome =
          ticket_of<GroupTicket>(from) == nullptr ? TraceOutcome::discarded : TraceOutcome::unknown;
      break;
    default:
      break;
  }
}

// The lane did not accept the op (it stayed full, or the device closed); finished() omits it. It is
// not removed here: other threads may have noted later ops, and indices must not change.
void Recorder::cancel(const Mark& mark) {
  const detail::MutexLock lock(mutex_);
  if (state_ && recording_ == mark.recording) {
    state_->cancelled.insert(mark.op);
  }
}

void Recorder::record_drop(const DeviceEndpoint& endpoint,
                           LaneId lane,
                           const Operand& operand) noexcept {
  try {
    const detail::MutexLock lock(mutex_);
    if (const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt) {
      add_drop(*state_, *device, lane, operand);
    }
  } catch (const std::bad_alloc&) {
    // the tensor lives to the end of the trace
  }
}

}  // namespace hearth
