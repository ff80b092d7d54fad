#include <memory>
#include <utility>

#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "ask.hpp"
#include "runtime/ops/op_submit.hpp"
#include "runtime/tape/tape.hpp"
#include "tensor_impl.hpp"
#include "tickets.hpp"

namespace hearth {
namespace {

// Submits the export record: a readback in the source's lane, whose bytes reach the destination's
// actor in a message.
void submit_export(const Tensor& from,
                   DeviceEndpoint& destination,
                   const std::shared_ptr<Transfer>& transfer,
                   SourceLoc loc) {
  TensorImpl& impl = *detail::TensorAccess::impl(from);
  StreamState& stream = current_stream(*impl.endpoint, loc);
  stream.require_made(impl, "to", loc);
  auto ticket = std::make_unique<ReadTicket>();
  const auto size =
      static_cast<std::size_t>(impl.layout->shape.element_count() * size_bytes(impl.dtype));
  ticket->bytes = host_vector<std::byte>(size, "to", loc).value();
  ticket->target = ticket->bytes;
  ticket->transfer = transfer.get();
  ticket->finish = [transfer, endpoint = IntrusivePtr<DeviceEndpoint>(&destination)](
                       ReadTicket& done, ErrorRef error) {
    endpoint->post(TransferArrived{
        .transfer = transfer, .bytes = std::move(done.bytes), .error = std::move(error)});
  };
  OpRecord record;
  record.kind = OpKind::readback;
  record.input_count = 1;
  record.source = stream.source(loc);
  record.path = impl.path.load(std::memory_order_acquire);
  record.operands[0] = impl.operand(Use::read);
  submit_ticket(stream, record, std::move(ticket));
  impl.record_use(stream.id(), record.sequence);
  impl.endpoint->wake_if_free();  // no reader runs this device's loop, so its actor must
}

// Makes the import record for a lane of the destination, where it waits for the bytes. Carries the
// module path if both devices belong to one runtime, whose table has its number.
OpRecord import_record(const TensorImpl& from,
                       const TensorImpl& result,
                       DeviceEndpoint& destination,
                       StreamState& stream,
                       SourceLoc loc) {
  OpRecord record;
  record.kind = OpKind::upload;
  record.flags = stream.record_flags();
  record.output_count = 1;
  record.source = stream.source(loc);
  record.operands[0] = result.operand(Use::out);
  if (&from.endpoint->tables() == &destination.tables()) {
    record.path = from.path.load(std::memory_order_acquire);
  }
  return record;
}

}  // namespace

// Phases: the tape saves what the gradient needs; make a result on the destination; submit the
// export record to the source's lane and the import record to the destination's, which share the
// transfer; the tape notes the result.

Tensor Tensor::to(const Device& device, SourceLoc loc) const {
  const Arg arg(*this, loc);
  const TensorSpec spec =
      detail::mistakes_named("to", [&] { return detail::spec_of(OpKind::upload, arg); });
  DeviceEndpoint& destination = device.endpoint();
  if (impl_->endpoint.get() == &destination) {
    return *this;
  }
  const detail::Submission submission{.kind = OpKind::upload, .location = loc, .inputs = {&arg, 1}};
  StreamState& stream = current_stream(destination, loc);
  auto transfer = std::make_shared<Transfer>();
  transfer->source = impl_->endpoint;
  auto ticket = std::make_unique<UploadTicket>();
  ticket->transfer = transfer;
  detail::Tape* tape = detail::tape_of(submission);
  if (tape != nullptr) {
    tape->will_record(submission);
  }
  Tensor result;
  OpRecord record;
  try {
    result = detail::TensorAccess::adopt(
        stream.make_tensor(spec.dtype, destination.tables().shapes.intern(spec.shape).value()));
    record = import_record(*impl_, *detail::TensorAccess::impl(result), destination, stream, loc);
    detail::TensorAccess::impl(result)->path.store(record.path, std::memory_order_release);
    submit_export(*this, destination, transfer, loc);
    submit_ticket(stream, record, std::move(ticket));
  } catch (...) {
    if (result.is_valid()) {
      stream.unmake_tensor(detail::TensorAccess::release_impl(result));
    }
    if (tape != nullptr) {
      tape->did_not_record();
    }
    throw;
  }
  detail::TensorAccess::impl(result)->record_use(stream.id(), record.sequence);
  if (tape != nullptr) {
    tape->did_record({&result, 1});
  }
  return result;
}

Tensor Tensor::to(DType dtype, SourceLoc loc) const {
  return cast(Arg(*this, loc), dtype);
}

}  // namespace hearth
