#include "trace_player.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/ops/op_submit.hpp"

namespace hearth {
namespace {

// Generates values for inputs whose bytes were not recorded: small, all different, and the same in
// every replay.
std::vector<std::byte> made_up(DType dtype, const Shape& shape, std::uint32_t number) {
  const auto size = static_cast<std::size_t>(shape.element_count() * size_bytes(dtype));
  std::vector<std::byte> bytes = host_vector<std::byte>(size, "replay").value();
  if (!is_float(dtype)) {
    return bytes;  // zeros: they may be labels or indices, and any other number may be out of range
  }
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::uint64_t state = number * 0x9e3779b97f4a7c15ULL + 1;
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto real = static_cast<float>(static_cast<double>(state >> 40U) * 0x1p-24 - 0.5);
      const auto value = static_cast<T>(real);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// Returns whether another component ended the group, not its own ops.
bool was_ended_from_outside(const TraceOp& end) {
  return end.outcome == TraceOutcome::discarded ||
         (end.outcome == TraceOutcome::failed &&
          (end.error == ErrorCode::cancelled || end.error == ErrorCode::worker_failed ||
           end.error == ErrorCode::collective_failed || end.error == ErrorCode::deadline_exceeded));
}

class Player {
 public:
  Player(const OpTrace& trace, std::span<const Device> devices, const PlayOptions& options)
      : trace_(trace),
        devices_(devices),
        options_(options),
        values_(1),
        producers_(1),
        is_known_{true} {}
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    end_groups();  // again, for a trace that threw midway; a group must not outlive its stream
    for (const auto& [lane, stream] : streams_) {
      stream.device().failures().expect_no_more(stream.device().name(), stream.id());
    }
  }

  // Phases: queue all ops, and answer early reads when many wait; end what is left open; wait for
  // every answer. The devices work meanwhile, in the order of the program's lanes.
  Result<PlayedTrace> play() {
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      play(i);
    }
    end_groups();
    if (options_.reads_all_at_end) {
      for (std::size_t value = 1; value < values_.size(); ++value) {
        if (values_[value].is_valid()) {
          read(trace_.ops.size(), static_cast<std::uint32_t>(value));
        }
      }
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      collect(i);
    }
    for (auto& [end, pending] : groups_waiting_) {
      if (const Status status = pending.wait({.deadline = Deadline::in(options_.limit)});
          !status.has_value()) {
        played_.failed_groups.emplace_back(end, status.shared_error());
      }
    }
    // Errors of ops belong to the trace: only a device that does not finish fails the replay.
    for (auto& [lane, stream] : streams_) {
      const StreamScope scope(stream);
      const Status status =
          stream.device().sync_later().wait({.deadline = Deadline::in(options_.limit)});
      if (!status.has_value() && status.error().code == ErrorCode::deadline_exceeded) {
        return status.shared_error();
      }
    }
    return std::move(played_);
  }

 private:
  using Lane = std::pair<std::uint32_t, std::uint64_t>;
  static constexpr std::size_t kMostWaiting = 256;
  static constexpr std::uint32_t kMostPlaces = 1U << 14U;  // of the runtime's 65,536

  // One device may play all devices of the trace; copies between them then stay on it.
  const Device& device_of(const TraceOp& op) const {
    return devices_.size() == 1 ? devices_[0] : devices_[op.device];
  }

  // Each lane of the trace has a stream, so that unordered ops stay unordered.
  Stream& stream_of(const TraceOp& op) {
    const Lane lane{op.device, op.lane};
    const auto found = streams_.find(lane);
    if (found != streams_.end()) {
      return found->second;
    }
    Stream& made = streams_.emplace(lane, Stream(device_of(op))).first->second;
    made.device().failures().expect_failures(made.device().name(),
                                             made.id());  // a replay expects failures
    return made;
  }

  // Ends groups that the trace leaves open, each on its own stream.
  void end_groups() {
    for (auto& [lane, group] : groups_) {
      if (group) {
        const StreamScope scope(streams_.at(lane));
        group.reset();
      }
    }
  }

  Tensor& value(const Operand& operand) { return values_[operand.slot.value]; }

  // A value's number in the trace is its index here: the checker has verified that the numbers
  // count up.
  void add_value(Tensor tensor, std::size_t producer, bool is_known) {
    values_.push_back(std::move(tensor));
    producers_.push_back(producer);
    is_known_.push_back(is_known);
  }

  void play(std::size_t index) {
    const TraceOp& op = trace_.ops[index];
    const StreamScope scope(stream_of(op));
    if (op_info(op.record.kind).op_class != OpClass::lifetime) {
      compute(index);
    } else {
      play_lifetime(index);
    }
    // Releases the tensors that the program released here, so that memory use is the same.
    const OpView view = op.view();
    for (int i = 0; i < op.record.input_count; ++i) {
      if (view.input(i).use == Use::read_last) {
        value(view.input(i)) = Tensor();
      }
    }
  }

  // Submits below the functions of ops.hpp, which may choose another op for the same call: the
  // record determines the op.
  void compute(std::size_t index) {
    const TraceOp& op = trace_.ops[index];
    const OpView view = op.view();
    std::vector<Arg> inputs;
    std::vector<TensorSpec> specs;
    bool is_known = true;
    for (int i = 0; i < op.record.input_count; ++i) {
      const Operand operand = view.input(i);
      Tensor& tensor = value(operand);
      is_known = is_known && is_known_[operand.slot.value];
      if (operand.use == Use::read_last) {
        inputs.emplace_back(std::move(tensor), SourceLoc{});
      } else {
        inputs.emplace_back(tensor, SourceLoc{});
      }
    }
    for (int i = 0; i < op.record.output_count; ++i) {
      specs.push_back({view.output(i).dtype, trace_.shape(view.output(i))});
    }
    const std::size_t size = op_info(op.record.kind).attribute_size_bytes;
    // Attributes too long for the record stand in its blob, behind the operands.
    const std::span<const std::byte> blob(op.blob);
    OpRecord record = op.record;
    std::span<const std::byte> parameters;
    std::string_view name;
    if (record.kind == OpKind::expression) {
      auto attributes = view.attributes<ExpressionAttributes>();
      const ExpressionRef& expression = trace_.expressions[attributes.expression];
      parameters = view.last_blob_bytes(attributes.parameter_count * sizeof(std::uint64_t));
      name = expression->name;
      attributes.expression =
          device_of(op).endpoint().tables().expressions.intern(expression).value().value;
      std::memcpy(record.immediate, &attributes, sizeof attributes);
    }
    const std::uint32_t place = op.record.source.value;  // 0: unknown, in the trace and here
    const detail::Submission submission{
        .kind = op.record.kind,
        .location = place < kMostPlaces ? SourceLoc{kRecordedPlace, place} : SourceLoc{},
        .inputs = inputs,
        .attributes = size <= sizeof record.immediate
                          ? std::span<const std::byte>(record.immediate).first(size)
                          : blob.last(size),
        .flags = op.record.flags,
        .parameters = parameters,
        .name = name};
    if (inputs.empty()) {
      add_value(detail::submit_on(device_of(op), submission, specs[0].dtype, specs[0].shape),
                index,
                true);
      return;
    }
    std::vector<Tensor> results(specs.size());
    detail::submit(submission, specs, results);
    for (Tensor& result : results) {
      add_value(std::move(result), index, is_known);
    }
  }

  void play_lifetime(std::size_t index) {
    const TraceOp& op = trace_.ops[index];
    const Operand operand = op.record.operands[0];
    const Lane lane{op.device, op.lane};
    switch (op.record.kind) {
      case OpKind::upload:
        upload(index);
        break;
      case OpKind::readback:
        if (is_user_read(index)) {
          read(index, operand.slot.value);
        }
        break;
      case OpKind::lend:
        lend_out(index);
        break;
      case OpKind::publish:
        value(operand).publish();
        break;
      case OpKind::adopt:
        value(operand).adopt();
        break;
      case OpKind::group_begin:
        groups_[lane] = std::make_unique<UpdateGroup>(device_of(op));
        break;
      case OpKind::group_end: {
        const std::unique_ptr<UpdateGroup> group = std::move(groups_[lane]);
        if (!was_ended_from_outside(op)) {
          groups_waiting_.emplace_back(index, group->commit());
        }
        break;
      }
      case OpKind::drop:  // play() releases it
      case OpKind::sync:  // waits that have no effect
      default:
        break;
    }
  }

  // Returns whether the program itself read; uploads play the other reads, the source halves of
  // copies.
  bool is_user_read(std::size_t index) {
    if (copies_.empty()) {  // lazily: most traces have no copies
      copies_.resize(trace_.ops.size() + 1);
      for (const TraceOp& op : trace_.ops) {
        copies_[op.copied_from] = true;
      }
    }
    if (!copies_[index + 1]) {
      return true;
    }
    // Keeps the value itself, which the program may drop before the other device takes it.
    const Operand operand = trace_.ops[index].record.operands[0];
    copied_.emplace(static_cast<std::uint32_t>(index + 1),
                    std::pair(value(operand), bool{is_known_[operand.slot.value]}));
    return false;
  }

  void upload(std::size_t index) {
    const TraceOp& op = trace_.ops[index];
    const Operand out = op.record.operands[0];
    const Shape& shape = trace_.shape(out);
    if (op.copied_from != 0) {
      const auto from = copied_.find(op.copied_from);
      if (from != copied_.end()) {
        // Both streams are current now: to() reads on one and uploads on the other.
        const StreamScope scope(stream_of(trace_.ops[op.copied_from - 1]));
        add_value(from->second.first.to(device_of(op)), index, from->second.second);
        copied_.erase(from);
        return;
      }
    }
    const bool is_known = op.data != 0;
    const std::vector<std::byte> bytes =
        is_known ? trace_.data[op.data - 1] : made_up(out.dtype, shape, out.slot.value);
    add_value(Tensor::from_bytes(device_of(op), bytes, out.dtype, shape), index, is_known);
  }

  // The trace holds the bytes that the borrower wrote. If it does not, the bytes stay unchanged,
  // and values computed from them are not compared.
  void lend_out(std::size_t index) {
    const TraceOp& op = trace_.ops[index];
    const Operand in = op.record.operands[0];
    Tensor lent = in.use == Use::read_last ? std::move(value(in)) : value(in);
    const bool is_known = op.data != 0;
    auto bytes = is_known ? trace_.data[op.data - 1] : std::vector<std::byte>();
    Tensor back = lend(
        std::move(lent),
        [bytes = std::move(bytes)](Result<LentRegion> region) {
          if (region.has_value()) {  // else the tensor has the reason
            LentRegion taken = std::move(region).value();
            std::copy(bytes.begin(), bytes.end(), taken.bytes().begin());
            taken.done();
          }
        },
        Deadline::in(options_.limit));
    add_value(std::move(back), index, is_known);
  }

  // The first element, as a view.
  static Tensor corner_of(Tensor tensor) {
    for (int axis = 0; tensor.element_count() > 1 && axis < tensor.rank(); ++axis) {
      tensor = slice(tensor, axis, {.start = 0, .stop = 1});
    }
    return tensor;
  }

  void read(std::size_t index, std::uint32_t number) {
    const TraceOp& producer = trace_.ops[producers_[number]];
    Operand operand;
    for (int i = 0; i < producer.record.output_count; ++i) {
      if (producer.view().output(i).slot.value == number) {
        operand = producer.view().output(i);
      }
    }
    played_.reads.push_back({.op = index,
                             .producer = producers_[number],
                             .operand = operand,
                             .is_known = is_known_[number]});
    // A failed read returns no bytes: one element shows whether it fails again, without the memory
    // of the whole value.
    const bool has_failed =
        index < trace_.ops.size() && trace_.ops[index].outcome == TraceOutcome::failed;
    waiting_.push_back(has_failed ? corner_of(values_[number]).read_bytes(SourceLoc{})
                                  : values_[number].read_bytes(SourceLoc{}));
    // The bytes of all reads of a long program could exhaust the machine's memory.
    if (waiting_.size() >= kMostWaiting) {
      collect(waiting_.size() - kMostWaiting);
    }
  }

  void collect(std::size_t index) {
    if (!waiting_[index]) {
      return;
    }
    const Status status = waiting_[index]->wait({.deadline = Deadline::in(options_.limit)});
    if (status.has_value()) {
      played_.reads[index].bytes = std::move(*waiting_[index]).get();
    } else {
      played_.reads[index].error = status.shared_error();
    }
    waiting_[index].reset();
  }

  const OpTrace& trace_;
  const std::span<const Device> devices_;
  const PlayOptions& options_;
  std::map<Lane, Stream> streams_;
  std::map<Lane, std::unique_ptr<UpdateGroup>> groups_;
  std::vector<Tensor> values_;
  std::vector<std::size_t> producers_;
  std::vector<bool> is_known_;
  std::vector<bool> copies_;  // by op from 1: its bytes go to another device
  std::map<std::uint32_t, std::pair<Tensor, bool>> copied_;
  std::vector<std::optional<Pending<std::vector<std::byte>>>> waiting_;  // one for each read
  std::vector<std::pair<std::size_t, Pending<void>>> groups_waiting_;
  PlayedTrace played_;
};

}  // namespace

Result<PlayedTrace> play_trace(const OpTrace& trace,
                               std::span<const Device> devices,
                               const PlayOptions& options) {
  HEARTH_TRY_STATUS(check_trace(trace, options.limits));
  if (devices.empty() || (devices.size() != 1 && devices.size() != trace.devices.size())) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("replay: the trace has {} devices, {} were given: it takes "
                                     "one for each, or one for all",
                                     trace.devices.size(),
                                     devices.size())};
  }
  try {
    return Player(trace, devices, options).play();
  } catch (const Exception& error) {
    return error.shared_error();
  }
}

Difference difference(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  Difference found;
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto real = [](std::span<const std::byte> bytes, std::size_t i) {
      T value{};
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
        return static_cast<double>(static_cast<float>(value));
      } else {
        return static_cast<double>(value);
      }
    };
    for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
      const double x = real(a, i);
      const double y = real(b, i);
      if (x == y || (std::isnan(x) && std::isnan(y))) {
        continue;
      }
      // Relative for large values, absolute for small ones; infinite if only one side is NaN or
      // infinite.
      const double apart = std::abs(x - y) / (1 + std::abs(y));
      const double far = std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity();
      if (far > found.largest) {
        found = {.largest = far, .at = i, .a = x, .b = y};
      }
    }
  });
  return found;
}

// For devices other than the recorded one, which may sum in another order. Integers are equal.
double replay_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 1e-10;
    case DType::f32:
      return 1e-4;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 1e-1;
    default:
      return 0;
  }
}

}  // namespace hearth
