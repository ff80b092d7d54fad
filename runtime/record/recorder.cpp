#include "recorder.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

template <class Ticket>
Ticket* ticket_of(const OpView& op) noexcept {
  return static_cast<Ticket*>(op.attributes<TicketAttributes>().ticket);
}

bool is_step(OpKind kind) noexcept {
  return op_info(kind).op_class == OpClass::optimizer;
}

// What the environment says, but for folders, which are nobody else's business.
void note_settings(std::map<std::string, std::string>& notes) {
  const Settings settings = Settings::from_environment();
  for (const Setting setting : {Setting::log_level, Setting::cpu_devices}) {
    if (const auto& text = settings.text(setting)) {
      notes.emplace(known_settings()[static_cast<std::size_t>(setting)].variable, *text);
    }
  }
}

}  // namespace

struct Recorder::State {
  OpTrace trace;
  RecordOptions options;
  std::map<std::uint64_t, std::uint32_t> devices;  // by endpoint key
  std::map<Name, std::uint32_t> values;            // those that live
  std::uint32_t next_value = 1;
  std::unordered_map<std::uint32_t, std::uint32_t> shapes;
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  std::unordered_map<std::uint32_t, std::uint32_t> paths;
  std::map<const Transfer*, std::uint32_t> transfers;        // what reads for it, from 1
  std::map<std::uint32_t, std::size_t> loans;                // by value: what lent it
  std::set<std::pair<std::uint32_t, std::uint64_t>> groups;  // open ones, by device and lane
  std::set<std::size_t> cancelled;
  /// An op that failed by itself.
  struct FailedOp {
    std::size_t op = 0;
    ErrorCode code = ErrorCode::internal;
    std::shared_ptr<const Failure> failure;
  };
  std::vector<FailedOp> failed;
  std::int64_t size_bytes = 0;

  [[nodiscard]] std::uint32_t add_data(std::vector<std::byte> bytes) {
    size_bytes += static_cast<std::int64_t>(bytes.size());
    trace.data.push_back(std::move(bytes));
    return static_cast<std::uint32_t>(trace.data.size());
  }
};

Recorder::Recorder(const ShapeTable& shapes,
                   const SourceTable& sources,
                   const PathTable& paths) noexcept
    : shapes_(shapes), sources_(sources), paths_(paths) {}

Recorder::~Recorder() = default;

Status Recorder::start(std::span<const Device> devices, const RecordOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->trace.notes = options.notes;
  note_settings(state->trace.notes);
  for (const Device& device : devices) {
    state->devices.emplace(device.endpoint().key(),
                           static_cast<std::uint32_t>(state->trace.devices.size()));
    state->trace.devices.push_back(device.name());
  }
  const MutexLock lock(mutex_);
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

Result<OpTrace> Recorder::stop() {
  std::unique_ptr<State> state;
  {
    const MutexLock lock(mutex_);
    is_on_.store(false, std::memory_order_release);  // partner: is_on
    state = std::move(state_);
  }
  if (!state) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "record: the recording has ended already"};
  }
  return finished(*state);
}

namespace {

// After which op of the trace a failed op's first result can be read: an update group's results are
// there at its end.
std::size_t place_to_read(const OpTrace& trace, std::size_t failed) {
  const TraceOp& op = trace.ops[failed];
  bool is_in_group = false;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& other = trace.ops[i];
    if (other.device != op.device || other.lane != op.lane) {
      continue;
    }
    is_in_group = other.record.kind == OpKind::group_begin || is_in_group;
    if (i >= failed && (!is_in_group || other.record.kind == OpKind::group_end)) {
      return i;
    }
    is_in_group = other.record.kind != OpKind::group_end && is_in_group;
  }
  return failed;
}

TraceOp failed_read_of(const TraceOp& failed, ErrorCode code) {
  TraceOp read{.record = {}, .device = failed.device, .lane = failed.lane};
  read.record.kind = OpKind::readback;
  read.record.input_count = 1;
  read.record.sequence = failed.record.sequence;
  read.record.source = failed.record.source;
  read.record.path = failed.record.path;
  read.record.operands[0] = failed.view().output(0);
  read.record.operands[0].use = Use::read;
  read.outcome = TraceOutcome::failed;
  read.error = code;
  return read;
}

}  // namespace

// A failure that was read is in the trace by its failed read. Where there is no such read the
// program learned of it by sync() or step(), which no trace repeats: then each failure gets a read.
OpTrace Recorder::finished(State& state) {
  OpTrace& trace = state.trace;
  const bool was_read = std::ranges::any_of(trace.ops, [](const TraceOp& op) {
    return op.record.kind == OpKind::readback && op.outcome == TraceOutcome::failed;
  });
  std::multimap<std::size_t, TraceOp> reads;  // by the op that they come behind
  for (const State::FailedOp& each : state.failed) {
    if (!was_read || !each.failure->is_read()) {
      reads.emplace(place_to_read(trace, each.op), failed_read_of(trace.ops[each.op], each.code));
    }
  }
  if (reads.empty() && state.cancelled.empty()) {
    return std::move(trace);
  }
  std::vector<bool> keep;
  std::vector<TraceOp> ops;
  std::vector<std::uint32_t> places(1, 0);  // from 1, as copied_from counts
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    ops.push_back(std::move(trace.ops[i]));
    ops.back().copied_from = places[ops.back().copied_from];
    places.push_back(static_cast<std::uint32_t>(ops.size()));
    keep.push_back(!state.cancelled.contains(i));
    const auto [begin, end] = reads.equal_range(i);
    for (auto read = begin; read != end; ++read) {
      ops.push_back(std::move(read->second));
      keep.push_back(true);
    }
  }
  trace.ops = std::move(ops);
  return select_ops(trace, keep);
}

RecordedBytes Recorder::wanted_bytes() const {
  const MutexLock lock(mutex_);
  return state_ ? state_->options.bytes : RecordedBytes::none;
}

std::optional<std::uint32_t> Recorder::device_of(const State& state,
                                                 const DeviceEndpoint& endpoint) {
  const auto found = state.devices.find(endpoint.key());
  return found == state.devices.end() ? std::nullopt : std::optional(found->second);
}

// What began before the recording is left out: the rest of an update group, and lifetimes of
// tensors that nobody names.
bool Recorder::is_left_out(const State& state,
                           std::uint32_t device,
                           LaneId lane,
                           const OpView& op) {
  const OpKind kind = op.kind();
  if (kind == OpKind::group_end || is_step(kind)) {
    return !state.groups.contains({device, lane.value});
  }
  if (kind == OpKind::publish || kind == OpKind::adopt || kind == OpKind::drop) {
    return !state.values.contains(Name{device, op.input(0).slot, op.input(0).generation});
  }
  return false;
}

// Its operands may end all the same.
void Recorder::leave_out(State& state, std::uint32_t device, LaneId lane, const OpView& op) const {
  for (int i = 0; i < op.record().input_count; ++i) {
    if (op.input(i).use == Use::read_last) {
      add_drop(state, device, lane, op.input(i));
    }
  }
}

// The value's number ends with it: the next tensor in that slot is another value.
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

// ---- numbers of the runtime to those of the trace ----

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

// What is recorded so far stays, for stop().
void Recorder::end_early(State& state, std::string_view why) {
  state.trace.notes.emplace("ended early",
                            fmt::format("after op {}: {}", state.trace.ops.size(), why));
  is_on_.store(false, std::memory_order_release);  // partner: is_on
}

void Recorder::end_early(const Error& error) {
  const MutexLock lock(mutex_);
  if (state_) {
    end_early(*state_, error.text);
  }
}

// ---- for streams ----

std::vector<Recorder::Stranger> Recorder::admit_strangers(const DeviceEndpoint& endpoint,
                                                          LaneId lane,
                                                          const OpView& op) {
  std::vector<std::pair<Operand, Mark>> admitted;
  {
    const MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    if (!device || is_left_out(*state_, *device, lane, op)) {
      return {};
    }
    for (int i = 0; i < op.record().input_count; ++i) {
      const Operand operand = op.input(i);
      const Name name{*device, operand.slot, operand.generation};
      if (state_->values.contains(name)) {
        continue;
      }
      const std::uint32_t value = state_->next_value++;
      state_->values.emplace(name, value);
      TraceOp upload{.record = {}, .device = *device, .lane = lane.value};
      upload.record.kind = OpKind::upload;
      upload.record.output_count = 1;
      upload.record.operands[0] = translate(*state_, operand, value);
      upload.record.operands[0].use = Use::out;
      admitted.emplace_back(operand, Mark{recording_, add(*state_, std::move(upload))});
    }
    if (state_->options.bytes == RecordedBytes::none) {
      return {};
    }
  }
  std::vector<Stranger> strangers;
  for (const auto& [operand, mark] : admitted) {
    const std::int64_t size =
        shapes_.shape(operand.shape).element_count() * size_bytes(operand.dtype);
    Result<std::vector<std::byte>> bytes =
        host_vector<std::byte>(static_cast<std::size_t>(size), "record");
    if (!bytes.has_value()) {
      end_early(bytes.error());
      break;
    }
    strangers.push_back({operand, read_for(mark, std::move(bytes).value())});
  }
  return strangers;
}

std::unique_ptr<ReadTicket> Recorder::read_for(const Mark& mark, std::vector<std::byte> bytes) {
  auto ticket = std::make_unique<ReadTicket>();
  ticket->bytes = std::move(bytes);
  ticket->target = ticket->bytes;
  ticket->finish = [this, mark](ReadTicket& done, const ErrorRef& error) {
    finish(mark, done.target, error);
  };
  return ticket;
}

std::optional<Recorder::Mark> Recorder::note(const DeviceEndpoint& endpoint,
                                             LaneId lane,
                                             std::uint64_t sequence,
                                             const OpView& op) {
  const OpKind kind = op.kind();
  const UploadTicket* upload = kind == OpKind::upload ? ticket_of<UploadTicket>(op) : nullptr;
  const bool has_bytes =
      upload != nullptr && !upload->transfer && wanted_bytes() != RecordedBytes::none;
  std::vector<std::byte> bytes;
  if (has_bytes) {
    Result<std::vector<std::byte>> copy = host_copy(upload->bytes, "record");
    if (!copy.has_value()) {
      end_early(copy.error());
      return std::nullopt;
    }
    bytes = std::move(copy).value();
  }
  Mark mark;
  {
    const MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    if (!device || !is_on()) {
      return std::nullopt;
    }
    State& state = *state_;
    if (is_left_out(state, *device, lane, op)) {
      leave_out(state, *device, lane, op);
      return std::nullopt;
    }
    TraceOp noted{.record = op.record(), .device = *device, .lane = lane.value};
    noted.record.sequence = sequence;
    noted.record.source.value = place_of(state, op.record().source);
    noted.record.path.value = path_of(state, op.record().path);
    noted.record.blob_offset = 0;
    if (op_info(kind).op_class == OpClass::lifetime) {
      noted.record.blob_size_bytes = 0;
      std::fill(std::begin(noted.record.immediate), std::end(noted.record.immediate), std::byte{0});
    } else {
      noted.blob.assign(op.blob(), op.blob() + op.record().blob_size_bytes);
    }
    for (int i = op.record().operand_count(); i < kInlineOperands; ++i) {
      noted.record.operands[i] = Operand{};
    }
    add_operands(state, noted, op);
    if (has_bytes) {
      noted.data = state.add_data(std::move(bytes));
    }
    note_kind(state, noted, op);
    mark = Mark{recording_, add(state, std::move(noted))};
  }
  listen(op, mark);
  return mark;
}

void Recorder::note_kind(State& state, TraceOp& op, const OpView& from) {
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

// Before the push, which gives the ticket away: from then on only the token holder may touch it.
void Recorder::listen(const OpView& op, const Mark& mark) {
  if (op.kind() == OpKind::readback) {
    auto* ticket = ticket_of<ReadTicket>(op);
    ticket->finish = [this, mark, original = std::move(ticket->finish)](ReadTicket& done,
                                                                        ErrorRef error) mutable {
      finish(mark, done.transfer == nullptr ? done.target : std::span<std::byte>(), error);
      original(done, std::move(error));
    };
  } else if (op.kind() == OpKind::group_end) {
    auto* ticket = ticket_of<GroupTicket>(op);
    if (ticket != nullptr) {
      ticket->finish = [this, mark, original = std::move(ticket->finish)](ErrorRef error) mutable {
        finish(mark, {}, error);
        original(std::move(error));
      };
    }
  }
}

namespace {

// What a stream's limits end has not run, and the end of the device is no op's failure either: such
// an error says nothing of the op whose result was to be read.
bool is_given_up(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::cancelled:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::device_closed:
      return find_failure(error) == nullptr;
    default:
      return false;
  }
}

}  // namespace

void Recorder::finish(const Mark& mark,
                      std::span<const std::byte> bytes,
                      const ErrorRef& error) noexcept {
  try {
    const RecordedBytes wanted = wanted_bytes();
    std::vector<std::byte> copy;  // before the lock, which streams take for each op
    if (!error && wanted != RecordedBytes::none) {
      copy.assign(bytes.begin(), bytes.end());
    }
    const MutexLock lock(mutex_);
    if (!state_ || recording_ != mark.recording) {
      return;
    }
    State& state = *state_;
    TraceOp& op = state.trace.ops[mark.op];
    if (error && op.record.kind == OpKind::readback && is_given_up(*error)) {
      return;  // its outcome stays unknown
    }
    op.outcome = error ? TraceOutcome::failed : TraceOutcome::ok;
    op.error = error ? error->code : ErrorCode::internal;
    const bool is_input = op.record.kind == OpKind::upload;
    const auto loan =
        is_input ? state.loans.end() : state.loans.find(op.record.operands[0].slot.value);
    const bool is_wanted = is_input || loan != state.loans.end() || wanted == RecordedBytes::all;
    if (error || op.record.kind == OpKind::group_end || !is_wanted ||
        wanted == RecordedBytes::none ||
        static_cast<std::int64_t>(copy.size()) !=
            value_size_bytes(state.trace, op.record.operands[0])) {
      return;
    }
    op.data = state.add_data(std::move(copy));
    if (loan != state.loans.end()) {
      state.trace.ops[loan->second].data = op.data;  // what the borrower made of the bytes
      state.loans.erase(loan);
    }
  } catch (const std::bad_alloc&) {
    // The outcome stays unknown: the trace says so.
  }
}

void Recorder::cancel(const Mark& mark) {
  const MutexLock lock(mutex_);
  if (state_ && recording_ == mark.recording) {
    state_->cancelled.insert(mark.op);
  }
}

void Recorder::note_failure(const DeviceEndpoint& endpoint,
                            LaneId lane,
                            std::uint64_t sequence,
                            const Error& error) noexcept {
  constexpr std::size_t kMostFailures = 16;
  try {
    const MutexLock lock(mutex_);
    const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt;
    Failure* const failure = find_failure(error);
    if (!device || failure == nullptr || state_->failed.size() == kMostFailures) {
      return;
    }
    const std::vector<TraceOp>& ops = state_->trace.ops;
    for (std::size_t i = ops.size(); i-- > 0;) {  // it was noted a moment ago
      const TraceOp& op = ops[i];
      if (op.device == *device && op.lane == lane.value && op.record.sequence == sequence) {
        if (op.record.output_count > 0) {
          state_->failed.push_back({i, error.code, failure->shared_from_this()});
        }
        return;
      }
    }
  } catch (const std::bad_alloc&) {
    // As the contract says.
  }
}

void Recorder::note_drop(const DeviceEndpoint& endpoint,
                         LaneId lane,
                         const Operand& operand) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (const auto device = state_ ? device_of(*state_, endpoint) : std::nullopt) {
      add_drop(*state_, *device, lane, operand);
    }
  } catch (const std::bad_alloc&) {
    // As the contract says.
  }
}

}  // namespace hearth
