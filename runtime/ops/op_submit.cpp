// Turns checked operands into a record in the lane. Every op of every program passes through
// submit_on_stream(), so its cost is the library's floor: 110 ns for each op on the user's thread
// (bench: BM_Submit_Add). The cost lies in atomics and lookups. Each input costs one load of the
// reference count, the source line one intern lookup. A shape that an input has needs no lookup.
#include "op_submit.hpp"

#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "op_operand.hpp"
#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/tape/tape.hpp"
#include "runtime/tape/weight_watch.hpp"

#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {
namespace {

std::string_view op_name(const Submission& submission) noexcept {
  return submission.name.empty() ? op_info(submission.kind).name : submission.name;
}

[[noreturn]] void throw_empty(std::string_view op, SourceLoc location) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: an operand is an empty tensor", op),
                    .op = std::string(op),
                    .location = location});
}

[[noreturn]] void throw_outside(const Submission& submission,
                                const std::string& function,
                                const TensorImpl& outside) {
  throw_error(Error{
      .code = ErrorCode::invalid_argument,
      .text = fmt::format("{}: {} uses {} of {}, which is no operand of the function: pass it as "
                          "one",
                          function,
                          op_name(submission),
                          describe(outside.dtype, outside.layout->shape),
                          outside.endpoint->name()),
      .op = function,
      .location = submission.location});
}

// Advice for operands on two devices. A tensor that a model does not name stays behind when the
// model moves: then that is the mistake, and not a forgotten to().
std::string advice_on_devices(const Submission& submission) {
  std::string unnamed;
  for (const Arg& input : submission.inputs) {
    const TensorImpl* const impl = TensorAccess::impl(input.tensor());
    if (impl == nullptr || impl->endpoint->is_closed()) {
      continue;
    }
    const WeightWatch* const watch = current_stream(*impl->endpoint).weight_watch();
    for (const Arg& operand : submission.inputs) {
      if (std::string why = watch == nullptr ? "" : watch->explain(operand.tensor());
          !why.empty()) {
        return why;
      }
    }
    if (unnamed.empty() && impl->unnamed_weight.load(std::memory_order_acquire) != 0) {
      unnamed = fmt::format(
          "; {} is the weight of a layer that no model has named: where a model "
          "leaves it out of HEARTH_MODULE, it does not move with the model",
          describe(impl->dtype, impl->layout->shape));
    }
  }
  return "move one with to(device)" + unnamed;
}

[[noreturn]] void throw_two_devices(const Submission& submission,
                                    const TensorImpl& a,
                                    const TensorImpl& b) {
  if (a.endpoint->is_capture()) {
    throw_outside(submission, a.endpoint->captured(), b);
  }
  if (b.endpoint->is_capture()) {
    throw_outside(submission, b.endpoint->captured(), a);
  }
  const std::string_view op = op_name(submission);
  const bool is_one_runtime = &a.endpoint->tables() == &b.endpoint->tables();
  const std::string advice =
      is_one_runtime ? advice_on_devices(submission)
                     : "tensors of two Runtimes do not mix: a program makes one, and uses it "
                       "throughout";
  throw_error(
      Error{.code = ErrorCode::device_mismatch,
            .text = fmt::format("{}: operands live on different devices{}: {} on {}, {} on {}; {}",
                                op,
                                is_one_runtime ? "" : ", of two Runtimes",
                                describe(a.dtype, a.layout->shape),
                                a.endpoint->name(),
                                describe(b.dtype, b.layout->shape),
                                b.endpoint->name(),
                                advice),
            .op = std::string(op),
            .module_path = module_path_of(submission.inputs),
            .location = submission.location});
}

// Gives a view, cast or copy of a weight the weight's path, and a view its unnamed mark too.
void carry_name(PathId path, const Submission& submission, TensorImpl& result) noexcept {
  result.path.store(path, std::memory_order_release);
  if (op_info(submission.kind).op_class == OpClass::view) {
    const TensorImpl& weight = *TensorAccess::impl(submission.inputs[0].tensor());
    result.unnamed_weight.store(weight.unnamed_weight.load(std::memory_order_acquire),
                                std::memory_order_release);  // partner: WeightWatch
  }
}

// Returns whether the record may take over the tensor: its one reference was moved in, and no other
// stream ever used it.
bool is_last_use(const Submission& submission,
                 std::size_t index,
                 const TensorImpl& impl,
                 const StreamState& stream) {
  const Arg& arg = submission.inputs[index];
  // The count needs no lock: no other thread can copy the only reference, which was moved in here.
  if (arg.movable() == nullptr || impl.references.load(std::memory_order_acquire) != 1 ||
      impl.home != stream.id() || impl.is_foreign.load(std::memory_order_acquire)) {
    return false;
  }
  for (std::size_t other = 0; other < submission.inputs.size(); ++other) {
    if (other != index && detail::TensorAccess::impl(submission.inputs[other].tensor()) == &impl) {
      return false;  // op(std::move(a), a): the other operand still reads it
    }
  }
  return true;
}

// Builds a record with its blob: up to five operands inline; further operands and long attributes
// in the blob.
class RecordBuilder {
 public:
  RecordBuilder(const Submission& submission, std::size_t outputs) {
    record.kind = submission.kind;
    record.flags = submission.flags;
    record.input_count = static_cast<std::uint16_t>(submission.inputs.size());
    record.output_count = static_cast<std::uint16_t>(outputs);
  }
  void add(const Operand& operand) {
    if (count_ < kInlineOperands) {
      record.operands[count_] = operand;
    } else {
      append(std::as_bytes(std::span(&operand, 1)));
    }
    ++count_;
  }
  void add_attributes(std::span<const std::byte> bytes) {
    if (bytes.size() <= sizeof record.immediate) {
      if (!bytes.empty()) {
        std::memcpy(record.immediate, bytes.data(), bytes.size());
      }
    } else {
      append(bytes);
    }
  }
  void add_parameters(std::span<const std::byte> bytes) {
    if (!bytes.empty()) [[unlikely]] {
      append(bytes);
    }
  }
  [[nodiscard]] std::span<const std::byte> blob() const {
    return heap_.empty() ? std::span<const std::byte>(inline_).first(size_)
                         : std::span<const std::byte>(heap_);
  }

  OpRecord record;

 private:
  void append(std::span<const std::byte> bytes) {
    if (heap_.empty() && size_ + bytes.size() <= sizeof inline_) {
      std::memcpy(inline_.data() + size_, bytes.data(), bytes.size());
      size_ += bytes.size();
      return;
    }
    if (heap_.empty()) {
      heap_.assign(inline_.begin(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
    }
    heap_.insert(heap_.end(), bytes.begin(), bytes.end());
  }

  int count_ = 0;
  std::size_t size_ = 0;
  // Large enough for all kinds except a concat of more than 20 tensors, so other ops allocate
  // nothing. Left uninitialized: most ops put nothing in it.
  std::array<std::byte, 256> inline_;
  std::vector<std::byte> heap_;
};

/// Returns whether the result keeps the layer of its input. A view of a weight, or the weight cast
/// or copied, still belongs to the weight's layer.
bool shows_its_input(OpKind kind) noexcept {
  return op_info(kind).op_class == OpClass::view || kind == OpKind::cast || kind == OpKind::copy;
}

struct Output {
  DType dtype;
  ShapeId shape;
};

// Most results have the shape of an input, whose id is known. This saves the intern table's hash
// and probe.
ShapeId shape_id(DeviceEndpoint& endpoint, const Submission& submission, const Shape& shape) {
  for (const Arg& input : submission.inputs) {
    const TensorImpl& impl = *detail::TensorAccess::impl(input.tensor());
    if (impl.layout->shape == shape) {
      return impl.shape_id;
    }
  }
  return endpoint.tables().shapes.intern(shape).value();
}

/// Bit i: input i is released. Inputs beyond 64 never are.
using LastUses = std::uint64_t;

[[gnu::noinline]] void require_made(StreamState& stream, const Submission& submission) {
  for (const Arg& input : submission.inputs) {
    stream.require_made(
        *detail::TensorAccess::impl(input.tensor()), op_name(submission), submission.location);
  }
}

[[gnu::always_inline]] inline LastUses add_inputs(RecordBuilder& builder,
                                                  const Submission& submission,
                                                  const StreamState& stream) {
  LastUses last_uses = 0;
  for (std::size_t i = 0; i < submission.inputs.size(); ++i) {
    const TensorImpl& impl = *detail::TensorAccess::impl(submission.inputs[i].tensor());
    const bool is_last = i < 64 && is_last_use(submission, i, impl, stream);
    last_uses |= is_last ? LastUses{1} << i : 0;
    builder.add(impl.operand(is_last ? Use::read_last : Use::read));
    if (builder.record.path.value == 0) {  // the first input with a path determines the module
      builder.record.path = impl.path.load(std::memory_order_acquire);
    }
  }
  return last_uses;
}

// Releases the inputs or notes their uses.
void record_uses(const Submission& submission,
                 LastUses last_uses,
                 StreamState& stream,
                 std::uint64_t sequence) {
  for (std::size_t i = 0; i < submission.inputs.size(); ++i) {
    if (i < 64 && ((last_uses >> i) & 1U) != 0) {
      stream.recycle(detail::TensorAccess::release_impl(
          *submission.inputs[i].movable()));  // the record is its drop
    } else {
      detail::TensorAccess::impl(submission.inputs[i].tensor())->record_use(stream.id(), sequence);
    }
  }
}

// Phases: inside value_and_grad, report weights that no model names; let the tape save what the
// gradient needs; add operands to the record and decide last uses; allocate slots for the results;
// submit the record; only then release inputs or note their uses. A submit that throws has changed
// nothing.
void submit_on_stream(DeviceEndpoint& endpoint,
                      const Submission& submission,
                      std::span<const Output> outputs,
                      std::span<Tensor> results) {
  StreamState& stream = current_stream(endpoint, submission.location);
  if (stream.has_open_group() && !is_update(submission.kind, submission.flags)) [[unlikely]] {
    require_made(stream, submission);
  }
  if (const WeightWatch* const watch = stream.weight_watch(); watch != nullptr) [[unlikely]] {
    watch->inspect(submission);
  }
  Tape* tape = tape_of(submission);
  if (tape != nullptr) {
    // First: a saved operand has one more reference, so it is no last use.
    tape->will_record(submission, stream.path());
  }
  RecordBuilder builder(submission, outputs.size());
  OpRecord& record = builder.record;
  LastUses last_uses = 0;
  try {
    record.flags = static_cast<std::uint16_t>(record.flags | stream.record_flags());
    record.source = stream.source(submission.location);
    last_uses = add_inputs(builder, submission, stream);
    const PathId own_path = record.path;
    if (own_path.value == 0) {
      record.path = stream.path();
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      results[i] =
          detail::TensorAccess::adopt(stream.make_tensor(outputs[i].dtype, outputs[i].shape));
      if (own_path.value != 0 && shows_its_input(submission.kind)) {
        carry_name(own_path, submission, *detail::TensorAccess::impl(results[i]));
      }
      builder.add(detail::TensorAccess::impl(results[i])->operand(Use::out));
    }
    builder.add_attributes(submission.attributes);
    builder.add_parameters(submission.parameters);
    stream.submit(record, builder.blob());
  } catch (...) {
    for (Tensor& result : results) {
      if (result.is_valid()) {
        stream.unmake_tensor(detail::TensorAccess::release_impl(
            result));  // no drop: the device has never seen the slot
      }
    }
    if (tape != nullptr) {
      tape->did_not_record();
    }
    throw;
  }
  record_uses(submission, last_uses, stream, record.sequence);
  for (const Tensor& result : results) {
    detail::TensorAccess::impl(result)->record_use(stream.id(), record.sequence);
  }
  if (tape != nullptr) {
    tape->did_record(results);
  }
}

constexpr std::size_t kMostOutputs = 8;

DeviceEndpoint& endpoint_of(const Submission& submission) {
  const TensorImpl* first = detail::TensorAccess::impl(submission.inputs[0].tensor());
  for (const Arg& input : submission.inputs) {
    const TensorImpl* impl = detail::TensorAccess::impl(input.tensor());
    if (impl == nullptr) {
      throw_empty(op_name(submission), submission.location);
    }
    if (impl->endpoint != first->endpoint) {
      throw_two_devices(submission, *first, *impl);
    }
  }
  return *first->endpoint;
}

}  // namespace

TensorSpec spec_of(OpKind kind, const Arg& arg) {
  const TensorImpl* impl = detail::TensorAccess::impl(arg.tensor());
  if (impl == nullptr) {
    throw_empty(op_info(kind).name, arg.location());
  }
  return TensorSpec{impl->dtype, impl->layout->shape};
}

Tensor submit(const Submission& submission, DType dtype, const Shape& shape) {
  DeviceEndpoint& endpoint = endpoint_of(submission);
  const Output output{dtype, shape_id(endpoint, submission, shape)};
  Tensor result;
  submit_on_stream(endpoint, submission, {&output, 1}, {&result, 1});
  return result;
}

void submit(const Submission& submission,
            std::span<const TensorSpec> specs,
            std::span<Tensor> results) {
  DeviceEndpoint& endpoint = endpoint_of(submission);
  std::array<Output, kMostOutputs> outputs{};
  HEARTH_ASSERT(specs.size() <= kMostOutputs, "no kind has more outputs");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    outputs[i] = Output{specs[i].dtype, shape_id(endpoint, submission, specs[i].shape)};
  }
  submit_on_stream(
      endpoint, submission, std::span<const Output>(outputs).first(specs.size()), results);
}

void submit_like(const Submission& submission,
                 std::span<const DType> dtypes,
                 std::span<Tensor> results) {
  DeviceEndpoint& endpoint = endpoint_of(submission);
  const ShapeId shape = detail::TensorAccess::impl(submission.inputs[0].tensor())->shape_id;
  std::array<Output, kMostOutputs> outputs{};
  HEARTH_ASSERT(dtypes.size() <= kMostOutputs, "no kind has more outputs");
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    outputs[i] = Output{dtypes[i], shape};
  }
  submit_on_stream(
      endpoint, submission, std::span<const Output>(outputs).first(dtypes.size()), results);
}

Tensor submit_on(const Device& device,
                 const Submission& submission,
                 DType dtype,
                 const Shape& shape) {
  DeviceEndpoint& endpoint = device.endpoint();
  const Output output{dtype, endpoint.tables().shapes.intern(shape).value()};
  Tensor result;
  submit_on_stream(endpoint, submission, {&output, 1}, {&result, 1});
  return result;
}

}  // namespace hearth::detail
