#include <hearth/runtime/tensor.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/ask.hpp"
#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/client/tickets.hpp"
#include "runtime/ops/op_submit.hpp"

namespace hearth {
namespace {

const TensorImpl& impl_of(const Tensor& tensor, const char* what, SourceLoc loc = {}) {
  if (detail::TensorAccess::impl(tensor) == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: the tensor is empty", what),
                      .op = what,
                      .location = loc});
  }
  return *detail::TensorAccess::impl(tensor);
}

std::int64_t bytes_of(const TensorImpl& impl) noexcept {
  return impl.layout->shape.element_count() * size_bytes(impl.dtype);
}

std::vector<std::byte> host_bytes_of(const TensorImpl& impl, const char* op, SourceLoc loc) {
  return host_vector<std::byte>(static_cast<std::size_t>(bytes_of(impl)), op, loc).value();
}

/// Makes a record about one tensor, for the calling thread's stream.
OpRecord record_about(StreamState& stream, OpKind kind, const TensorImpl& impl, SourceLoc loc) {
  OpRecord record;
  record.kind = kind;
  record.input_count = 1;
  record.source = stream.source(loc);
  record.path = impl.path.load(std::memory_order_acquire);
  record.operands[0] = impl.operand(Use::read);
  return record;
}

void submit_read(const Tensor& tensor,
                 std::unique_ptr<ReadTicket> ticket,
                 const char* op,
                 SourceLoc loc) {
  TensorImpl& impl = *detail::TensorAccess::impl(tensor);
  StreamState& stream = current_stream(*impl.endpoint, loc);
  stream.require_made(impl, op, loc);
  OpRecord record = record_about(stream, OpKind::readback, impl, loc);
  submit_ticket(stream, record, std::move(ticket));
  impl.record_use(stream.id(), record.sequence);
}

// Kernels count on it: a byte of 2 would count as true in one kernel and as 2 in another.
void require_booleans(std::span<const std::byte> bytes, SourceLoc loc) {
  const auto other =
      std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
  if (other != bytes.end()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("from: byte {} of a bool tensor is {}, neither 0 nor 1",
                                          other - bytes.begin(),
                                          std::to_integer<int>(*other)),
                      .op = "from",
                      .location = loc});
  }
}

PendingOptions reading(const TensorImpl& impl, SourceLoc loc) {
  // First, because it may throw: a helper holds a count of its device, which only the state that
  // takes the helper releases.
  const Deadline work_ends = current_stream(*impl.endpoint, loc).limits().deadline;
  detail::PendingHelper helper = helper_of(*impl.endpoint);
  helper.work_ends = work_ends;
  return PendingOptions{.subject = "a readback", .helper = std::move(helper), .location = loc};
}

}  // namespace

namespace detail {

void retain_tensor(TensorImpl* impl) noexcept {
  impl->references.fetch_add(1, std::memory_order_relaxed);
}

void release_tensor(TensorImpl* impl) noexcept {
  // Release: our uses happen before the drop. Acquire: the last holder sees the last uses of all.
  if (impl->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (auto* client = current_context().find<DeviceClient>(impl->endpoint->key())) {
    client->current->drop(impl);
    return;
  }
  const std::unique_ptr<TensorImpl> owner(impl);
  impl->endpoint->post_drop(*impl);
}

}  // namespace detail

Tensor Tensor::from_bytes(const Device& device,
                          std::span<const std::byte> bytes,
                          DType dtype,
                          const Shape& shape,
                          SourceLoc loc) {
  auto copy = std::make_shared<std::vector<std::byte>>(host_copy(bytes, "from", loc).value());
  const std::span<const std::byte> view(*copy);
  return from_owned_bytes(device, view, std::move(copy), dtype, shape, loc);
}

Tensor Tensor::from(const Device& device,
                    std::initializer_list<double> values,
                    const Shape& shape,
                    DType dtype,
                    SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const std::span<const double> numbers(values.begin(), values.size());
  for (const double& number : numbers) {
    if (!fits(number, dtype)) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("from: value {} of {{...}} is {}, which {} cannot hold",
                                            &number - numbers.data(),
                                            number,
                                            name(dtype)),
                        .op = "from",
                        .location = loc});
    }
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(
      host_vector<std::byte>(
          numbers.size() * static_cast<std::size_t>(size_bytes(dtype)), "from", loc)
          .value());
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::byte* place = bytes->data();
    for (const double number : numbers) {
      const T element = [&] {
        if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<T>(number);
        } else {
          return T(static_cast<float>(number));
        }
      }();
      std::memcpy(place, &element, sizeof element);
      place += sizeof element;
    }
  });
  const std::span<const std::byte> view(*bytes);
  return from_owned_bytes(device, view, std::move(bytes), dtype, shape, loc);
}

// Phases: check that the bytes fit shape and type; make a result; submit the record, whose ticket
// keeps the bytes.
Tensor Tensor::from_owned_bytes(const Device& device,
                                std::span<const std::byte> bytes,
                                std::shared_ptr<const void> owner,
                                DType dtype,
                                const Shape& shape,
                                SourceLoc loc) {
  if (static_cast<std::int64_t>(bytes.size()) != shape.element_count() * size_bytes(dtype)) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format("from: {} needs {} values, got {}",
                                  describe(dtype, shape),
                                  shape.element_count(),
                                  static_cast<std::int64_t>(bytes.size()) / size_bytes(dtype)),
              .op = "from",
              .location = loc});
  }
  if (dtype == DType::boolean) {
    require_booleans(bytes, loc);
  }
  DeviceEndpoint& endpoint = device.endpoint();
  StreamState& stream = current_stream(endpoint, loc);
  auto ticket = std::make_unique<UploadTicket>(UploadTicket{bytes, std::move(owner)});
  Tensor result = detail::TensorAccess::adopt(
      stream.make_tensor(dtype, endpoint.tables().shapes.intern(shape).value()));
  OpRecord record;
  record.kind = OpKind::upload;
  record.flags = stream.record_flags();
  record.output_count = 1;
  record.source = stream.source(loc);
  record.operands[0] = detail::TensorAccess::impl(result)->operand(Use::out);
  try {
    submit_ticket(stream, record, std::move(ticket));
  } catch (...) {
    stream.unmake_tensor(detail::TensorAccess::release_impl(result));
    throw;
  }
  detail::TensorAccess::impl(result)->record_use(stream.id(), record.sequence);
  return result;
}

const Shape& Tensor::shape(SourceLoc loc) const {
  return impl_of(*this, "shape", loc).layout->shape;
}
DType Tensor::dtype(SourceLoc loc) const {
  return impl_of(*this, "dtype", loc).dtype;
}
Device Tensor::device(SourceLoc loc) const {
  return Device(impl_of(*this, "device", loc).endpoint);
}

std::int64_t Tensor::size(int axis, SourceLoc loc) const {
  const TensorImpl& impl = impl_of(*this, "size", loc);
  const Result<int> place = normalize_axis("size", axis, impl.layout->shape.rank());
  if (!place.has_value()) {
    Error located = place.error();
    located.op = "size";
    located.module_path =
        impl.endpoint->tables().paths.path(impl.path.load(std::memory_order_acquire));
    located.location = loc;
    throw_error(std::move(located));
  }
  return impl.layout->shape[place.value()];
}

Tensor Tensor::detach() const {
  Tensor same(*this);
  detail::TensorAccess::set_node(same, nullptr, 0);
  return same;
}

bool detail::TensorAccess::is_unnamed_weight(const Tensor& tensor) noexcept {
  return tensor.impl_->unnamed_weight.load(std::memory_order_acquire) != 0;
}

void Tensor::set_path(std::string_view path, SourceLoc loc) const {
  set_path(path, true, loc);
}

void Tensor::set_path(std::string_view path, bool is_of_model, SourceLoc loc) const {
  TensorImpl& impl = const_cast<TensorImpl&>(
      impl_of(*this, "set_path", loc));  // NOLINT: facts for error texts only
  const PathId id = impl.endpoint->tables().paths.intern(path);
  if (impl.path.load(std::memory_order_acquire) != id) {
    impl.path.store(id, std::memory_order_release);  // partner: loads for error texts
    impl.endpoint->record_path(impl, id);
  }
  const std::uint64_t unnamed = is_of_model ? 0 : kUnseenWeight;
  if (impl.unnamed_weight.load(std::memory_order_acquire) != unnamed) {
    impl.unnamed_weight.store(unnamed, std::memory_order_release);  // partner: WeightWatch
  }
}

void Tensor::require_dtype(DType wanted, SourceLoc loc) const {
  const TensorImpl& impl = impl_of(*this, "to_vector", loc);
  const bool fits = impl.dtype == wanted || (impl.dtype == DType::boolean && wanted == DType::u8);
  if (!fits) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("to_vector: the tensor is {}, requested {}",
                                          describe(impl.dtype, impl.layout->shape),
                                          name(wanted)),
                      .op = "to_vector",
                      .location = loc});
  }
}

Pending<std::vector<std::byte>> Tensor::read_bytes(SourceLoc loc) const {
  const TensorImpl& impl = impl_of(*this, "read_bytes", loc);
  auto ticket = std::make_unique<ReadTicket>();
  ticket->bytes = host_bytes_of(impl, "read_bytes", loc);
  ticket->target = ticket->bytes;
  Promise<std::vector<std::byte>> promise(reading(impl, loc));
  Pending<std::vector<std::byte>> pending = promise.pending();
  ticket->finish = [promise = std::move(promise)](ReadTicket& done, ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value(std::move(done.bytes));
    }
  };
  submit_read(*this, std::move(ticket), "read_bytes", loc);
  return pending;
}

Pending<void> Tensor::read_into(std::span<std::byte> out,
                                std::shared_ptr<void> owner,
                                SourceLoc loc) const {
  const TensorImpl& impl = impl_of(*this, "read_into", loc);
  if (owner == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "read_into: the target has no owner: `owner` is null",
                      .op = "read_into",
                      .location = loc});
  }
  if (static_cast<std::int64_t>(out.size()) != bytes_of(impl)) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("read_into: {} has {} bytes, the target {}",
                                          describe(impl.dtype, impl.layout->shape),
                                          bytes_of(impl),
                                          out.size()),
                      .op = "read_into",
                      .location = loc});
  }
  auto ticket = std::make_unique<ReadTicket>();
  ticket->target = out;
  ticket->owner = std::move(owner);
  Promise<void> promise(reading(impl, loc));
  Pending<void> pending = promise.pending();
  ticket->finish = [promise = std::move(promise)](ReadTicket&, ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value();
    }
  };
  submit_read(*this, std::move(ticket), "read_into", loc);
  return pending;
}

namespace {

ItemValue item_value_of(std::span<const std::byte> bytes, DType dtype) {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    if constexpr (std::is_integral_v<T>) {
      return ItemValue{.is_integer = true, .integer = static_cast<std::int64_t>(value)};
    } else if constexpr (sizeof(T) < sizeof(float)) {
      return ItemValue{.real = static_cast<double>(static_cast<float>(value))};
    } else {
      return ItemValue{.real = static_cast<double>(value)};
    }
  });
}

/// Queues a read of one element; the result is `convert` of its value.
template <class T, class Convert>
Pending<T> read_item(const Tensor& tensor, SourceLoc loc, Convert convert) {
  const TensorImpl& impl = impl_of(tensor, "item", loc);
  if (impl.layout->shape.element_count() != 1) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("item: the tensor has {} elements, not 1: {}",
                                          impl.layout->shape.element_count(),
                                          describe(impl.dtype, impl.layout->shape)),
                      .op = "item",
                      .location = loc});
  }
  auto ticket = std::make_unique<ReadTicket>();
  ticket->bytes.resize(static_cast<std::size_t>(bytes_of(impl)));
  ticket->target = ticket->bytes;
  Promise<T> promise(reading(impl, loc));
  Pending<T> pending = promise.pending();
  ticket->finish = [promise = std::move(promise), dtype = impl.dtype, convert](
                       ReadTicket& done, ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value(convert(item_value_of(done.target, dtype)));
    }
  };
  submit_read(tensor, std::move(ticket), "item", loc);
  return pending;
}

}  // namespace

Pending<double> Tensor::item_later(SourceLoc loc) const {
  return read_item<double>(*this, loc, [](const ItemValue& value) {
    return value.is_integer ? static_cast<double>(value.integer) : value.real;
  });
}

ItemValue Tensor::item_value(SourceLoc loc) const {
  return read_item<ItemValue>(*this, loc, [](const ItemValue& value) { return value; }).get();
}

ItemValue Tensor::item_value(const WaitOptions& options, SourceLoc loc) const {
  return read_item<ItemValue>(*this, loc, [](const ItemValue& value) { return value; })
      .get(options);
}

void Tensor::publish(SourceLoc loc) const {
  publish(false, loc);
}

void Tensor::publish(bool is_frozen, SourceLoc loc) const {
  TensorImpl& impl = const_cast<TensorImpl&>(
      impl_of(*this, "publish", loc));  // NOLINT: the tensor's values do not change
  StreamState& stream = current_stream(*impl.endpoint, loc);
  stream.require_made(impl, "publish", loc);
  OpRecord record = record_about(stream, OpKind::publish, impl, SourceLoc{});
  if (is_frozen) {
    record.set(RecordFlag::frozen);
  }
  stream.submit(record, {});
  impl.record_use(stream.id(), record.sequence);
}

void Tensor::adopt(SourceLoc loc) {
  TensorImpl& impl =
      const_cast<TensorImpl&>(impl_of(*this, "adopt", loc));  // NOLINT: we hold the only reference
  StreamState& stream = current_stream(*impl.endpoint);
  const bool is_at_home =
      impl.home == stream.id() && !impl.is_foreign.load(std::memory_order_acquire);
  if (is_at_home || impl.references.load(std::memory_order_acquire) != 1) {
    return;
  }
  require_open(*impl.endpoint, loc);
  stream.require_made(impl, "adopt", loc);
  OpRecord record = record_about(stream, OpKind::adopt, impl, SourceLoc{});
  LastUsesBlob uses = impl.last_uses(stream.id());
  uses.all_lanes = 0;  // a lane that waited for all others could wait for one that waits for it
  stream.submit(record, std::as_bytes(std::span(&uses, 1)));
  impl.home = stream.id();
  impl.home_sequence.store(record.sequence, std::memory_order_release);  // a number of that stream
  for (LaneUse& use : impl.foreign_uses) {
    use.lane.store(0, std::memory_order_release);
    use.sequence.store(0, std::memory_order_release);
  }
  // More uses than the four noted ones cannot be waited for here: the tensor stays foreign then,
  // which only prevents in-place reuse.
  if (!impl.has_many_users.load(std::memory_order_acquire)) {
    impl.is_foreign.store(false, std::memory_order_release);
  }
}

}  // namespace hearth
