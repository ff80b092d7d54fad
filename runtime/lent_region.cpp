#include <hearth/runtime/lent_region.hpp>

#include <utility>

#include <fmt/format.h>

#include "runtime/client/ask.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/client/tickets.hpp"

#include <hearth/runtime/tensor_access.hpp>

namespace hearth {

LentRegion::LentRegion() noexcept = default;

LentRegion::LentRegion(IntrusivePtr<DeviceEndpoint> endpoint,
                       std::shared_ptr<const void> memory,
                       LaneId lane,
                       std::uint64_t loan,
                       std::span<std::byte> bytes,
                       DType dtype) noexcept
    : endpoint_(std::move(endpoint)),
      memory_(std::move(memory)),
      lane_(lane),
      loan_(loan),
      bytes_(bytes),
      dtype_(dtype) {}

LentRegion::LentRegion(LentRegion&& other) noexcept
    : endpoint_(std::exchange(other.endpoint_, nullptr)),
      memory_(std::move(other.memory_)),
      lane_(other.lane_),
      loan_(other.loan_),
      bytes_(other.bytes_),
      dtype_(other.dtype_) {}

LentRegion& LentRegion::operator=(LentRegion&& other) noexcept {
  LentRegion taken(std::move(other));
  std::swap(endpoint_, taken.endpoint_);
  std::swap(memory_, taken.memory_);
  std::swap(lane_, taken.lane_);
  std::swap(loan_, taken.loan_);
  std::swap(bytes_, taken.bytes_);
  std::swap(dtype_, taken.dtype_);
  return *this;
}

LentRegion::~LentRegion() {
  if (endpoint_) {
    done(Error{.code = ErrorCode::cancelled,
               .text = "lent bytes were dropped without done()",
               .op = "lend",
               .device = endpoint_->name()});
  }
}

void LentRegion::done(Status status) {
  if (const IntrusivePtr<DeviceEndpoint> endpoint = std::exchange(endpoint_, nullptr)) {
    endpoint->post(EndLoan{.lane = lane_, .loan = loan_, .status = std::move(status)});
    memory_.reset();
  }
}

void LentRegion::run_on_device(UniqueFunction<void()> work) const {
  endpoint_->post(RunOnLoan{.lane = lane_, .loan = loan_, .work = std::move(work)});
}

LoanRecall::LoanRecall(const LentRegion& region)
    : endpoint_(region.endpoint_), lane_(region.lane_), loan_(region.loan_) {}
LoanRecall::LoanRecall(const LoanRecall&) = default;
LoanRecall& LoanRecall::operator=(const LoanRecall&) = default;
LoanRecall::LoanRecall(LoanRecall&&) noexcept = default;
LoanRecall& LoanRecall::operator=(LoanRecall&&) noexcept = default;
LoanRecall::~LoanRecall() = default;

void LoanRecall::recall(ErrorRef error) const {
  endpoint_->post(RecallLoan{.lane = lane_, .loan = loan_, .error = std::move(error)});
}

namespace {

void require_lendable(const Tensor& tensor, SourceLoc loc) {
  if (!tensor.is_valid() || tensor.is_tracked()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = !tensor.is_valid() ? "lend: the tensor is empty"
                                                 : "lend: the tensor is tracked; detach() it first",
                      .op = "lend",
                      .location = loc});
  }
}

OpRecord lend_record(const TensorImpl& from, Use use, const TensorImpl& result, SourceId source) {
  OpRecord record;
  record.kind = OpKind::lend;
  record.input_count = 1;
  record.output_count = 1;
  record.source = source;
  record.path = from.path.load(std::memory_order_acquire);
  record.operands[0] = from.operand(use);
  record.operands[1] = result.operand(Use::out);
  return record;
}

}  // namespace

// Phases: determine whether this is the tensor's last use, so that its own bytes can be lent; make
// a result for the returned bytes; submit the record; only then release the tensor or note its use.
Tensor lend(Tensor tensor,
            UniqueFunction<void(Result<LentRegion>)> ready,
            Deadline deadline,
            SourceLoc loc) {
  require_lendable(tensor, loc);
  TensorImpl& impl = *detail::TensorAccess::impl(tensor);
  StreamState& stream = current_stream(*impl.endpoint, loc);
  stream.require_made(impl, "lend", loc);
  auto ticket = std::make_unique<LendTicket>(LendTicket{std::move(ready), deadline});
  const bool is_last = impl.references.load(std::memory_order_acquire) == 1 &&
                       impl.home == stream.id() && !impl.is_foreign.load(std::memory_order_acquire);
  Tensor result = detail::TensorAccess::adopt(stream.make_tensor(impl.dtype, impl.shape_id));
  detail::TensorAccess::impl(result)->path.store(impl.path.load(std::memory_order_acquire),
                                                 std::memory_order_release);
  OpRecord record = lend_record(impl,
                                is_last ? Use::read_last : Use::read,
                                *detail::TensorAccess::impl(result),
                                stream.source(loc));
  try {
    submit_ticket(stream, record, std::move(ticket));
  } catch (...) {
    stream.unmake_tensor(detail::TensorAccess::release_impl(result));
    throw;
  }
  detail::TensorAccess::impl(result)->record_use(stream.id(), record.sequence);
  if (is_last) {
    stream.recycle(detail::TensorAccess::release_impl(tensor));
  } else {
    impl.record_use(stream.id(), record.sequence);
  }
  if (stream.endpoint().tables().recorder.is_on()) {
    // A recording cannot follow what the borrower does: it reads the bytes once they are returned.
    static_cast<void>(result.read_bytes(loc));
  }
  stream.endpoint().wake_if_free();  // other devices wait for these bytes
  return result;
}

}  // namespace hearth
