#include "capture.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/unique_number.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_facts.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_loop.hpp"
#include "runtime/client/stream_state.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth::detail {
namespace {

// True if each element of the result depends only on elements at its place and on numbers.
bool is_capturable(OpKind kind) noexcept {
  const bool is_random = kind == OpKind::dropout;
  const bool is_update = op_info(kind).op_class == OpClass::optimizer;
  return kind == OpKind::fill || (op_facts(kind).fusion == FusionClass::elementwise &&
                                  has_expression(kind) && !is_random && !is_update);
}

// Of rank 1, so that a reduction is an op, and refused.
Shape one_element() {
  return {1};
}
// With this shape views are ops, and numbers derived from a shape differ from those of [1]. No axis
// is short and no two are equal. A function that fills a vector of this many elements still works.
Shape many_elements() {
  return {1009, 61, 67};
}

// [1], or the [] of a number.
bool is_element(const Shape& shape) noexcept {
  return shape.rank() <= 1 && shape.element_count() == 1;
}

std::vector<AffineIndex> plain_map() {
  return {{.terms = {{.axis = 0}}}};
}

/// Turns records into nodes. The first op that cannot become one sets `error` and ends the capture.
class CaptureBuilder {
 public:
  CaptureBuilder(std::string name, const Shape& shape, RuntimeTables& tables)
      : name_(std::move(name)), shape_(shape), tables_(tables), builder_({0}) {}

  void add_input(const TensorImpl& tensor) {
    const KernelValue input = builder_.input(tensor.dtype, plain_map());
    values_.emplace(name_of(tensor), builder_.convert(input, compute_type(tensor.dtype)));
    if (is_float(tensor.dtype)) {
      followers_.insert(name_of(tensor));
    }
  }
  void add_parameter(const TensorImpl& tensor) {
    values_.emplace(name_of(tensor), builder_.parameter(compute_type(tensor.dtype)));
  }

  void consume(const OpView& op) {
    const OpKind kind = op.kind();
    if (kind == OpKind::drop || error_) {
      return;
    }
    if (kind == OpKind::readback) {
      fail(op, "finds no value to read: the function is called to see which ops it is made of");
    } else if (!is_capturable(kind)) {
      fail(op,
           op_facts(kind).fusion == FusionClass::fill || kind == OpKind::dropout
               ? "gives other numbers at each place"
               : "is not elementwise: an expression makes each element of its results from the "
                 "elements at its place");
    } else if (const Shape& made = tables_.shapes.shape(op.output(0).shape);
               !is_element(made) && made != shape_) {
      fail(op,
           fmt::format("makes {}: an elementwise function makes tensors of the shape of its "
                       "operands, which is {} while it is captured",
                       describe(op.output(0).dtype, made),
                       shape_.to_string()));
    } else {
      add(op);
    }
  }

  /// Sets the name of the ops from here on; empty: each op has its kind's name.
  void set_called(std::string_view called) { called_ = called; }

  /// Why there is no kernel, or null.
  [[nodiscard]] const ErrorRef& error() const noexcept { return error_; }

  void add_result(const Tensor& result, SourceLoc location) {
    const auto value = !result.is_valid()
                           ? values_.end()
                           : values_.find(name_of(*detail::TensorAccess::impl(result)));
    if (value == values_.end() ||
        &detail::TensorAccess::impl(result)->endpoint->tables() != &tables_) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = name_ + ": the function returned a tensor that it has not made of "
                                        "its arguments",
                        .op = name_,
                        .location = location});
    }
    builder_.output(builder_.convert(value->second, detail::TensorAccess::impl(result)->dtype));
  }
  [[nodiscard]] KernelIR take() { return builder_.take(); }
  /// The first op without a gradient, with its line; empty if all have one.
  [[nodiscard]] const std::string& without_gradient() const noexcept { return without_gradient_; }

 private:
  static std::uint64_t name_of(const Operand& operand) noexcept {
    return (std::uint64_t{operand.slot.value} << 32U) | operand.generation;
  }
  static std::uint64_t name_of(const TensorImpl& tensor) noexcept {
    return hearth::name_of(tensor);
  }

  [[nodiscard]] std::string_view name_of_call(const OpView& op) const noexcept {
    return called_.empty() ? name(op.kind()) : std::string_view(called_);
  }

  void fail(const OpView& op, std::string_view why) {
    error_ = std::make_shared<const Error>(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("{}: {} {}", name_, name_of_call(op), why),
              .op = name_,
              .location = tables_.sources.location(op.record().source)});
  }

  // A builder's constants are doubles, so an integer that a double does not hold is refused.
  [[nodiscard]] bool add_constant(const OpView& op,
                                  const KernelParameter& number,
                                  std::vector<KernelValue>& constants) {
    double value = number.value.real;
    if (!is_float(number.type)) {
      constexpr std::int64_t kExact = std::int64_t{1} << 53U;
      const std::int64_t integer = number.value.integer;
      if (integer > kExact || integer < -kExact) {
        fail(op,
             fmt::format("has the number {}, and integers of an expression end at 2^53", integer));
        return false;
      }
      value = static_cast<double>(integer);
    }
    constants.push_back(builder_.constant(value, number.type));
    return true;
  }

  // A builder shares equal nodes.
  [[nodiscard]] bool is_one(KernelValue value) {
    return value.node == builder_.constant(1.0, value.type).node;
  }

  // Values keep the compute type; only a cast rounds to 16 bits.
  void add(const OpView& op) {
    std::vector<KernelValue> inputs;
    for (int i = 0; i < op.record().input_count; ++i) {
      inputs.push_back(values_.at(name_of(op.input(i))));
    }
    const Operand out = op.output(0);
    std::vector<KernelValue> constants;
    const DType dtype = inputs.empty() ? out.dtype : op.input(0).dtype;
    for (const KernelParameter& number : op_parameters(op, dtype)) {
      if (!add_constant(op, number, constants)) {
        return;
      }
    }
    const DType type = op.kind() == OpKind::cast ? out.dtype : compute_type(out.dtype);
    const bool is_product = op.kind() == OpKind::mul && inputs.size() == 2;
    KernelValue result{};
    if (is_product && (is_one(inputs[0]) || is_one(inputs[1]))) {
      result = inputs[is_one(inputs[0]) ? 1 : 0];  // the seed of a gradient
    } else {
      result = op_expression(builder_, op, inputs, constants, {&type, 1})[0];
    }
    values_.emplace(name_of(out), builder_.convert(result, compute_type(out.dtype)));
    record_gradient(op, out);
  }

  // Notes the first op that ends the gradients of everything before it.
  void record_gradient(const OpView& op, const Operand& out) {
    bool follows = false;
    for (int i = 0; i < op.record().input_count; ++i) {
      follows = follows || followers_.contains(name_of(op.input(i)));
    }
    if (follows && (!is_float(out.dtype) || !op_info(op.kind()).differentiable)) {
      const SourceLoc location = tables_.sources.location(op.record().source);
      without_gradient_ =
          without_gradient_.empty()
              ? fmt::format("{} ({}:{})", name_of_call(op), location.file, location.line)
              : without_gradient_;
    } else if (follows) {
      followers_.insert(name_of(out));
    }
  }

  const std::string name_;
  const Shape shape_;  ///< of the arguments
  std::string called_;
  RuntimeTables& tables_;
  KernelBuilder builder_;
  std::map<std::uint64_t, KernelValue> values_;  ///< by tensor name
  std::set<std::uint64_t> followers_;  ///< values that follow from float inputs through gradients
  std::string without_gradient_;
  ErrorRef error_;
};

/// A device that computes nothing. Its loop runs on the capturing thread: when a lane is full, at a
/// read, and at the end.
class CaptureDevice final : public DeviceLoop {
 public:
  CaptureDevice(const std::string& name, const Shape& shape)
      : tables_(std::make_shared<RuntimeTables>(RuntimeId{unique_number()})),
        endpoint_(make_intrusive<DeviceEndpoint>("the capture of " + name,
                                                 std::string(),
                                                 tables_,
                                                 unique_number(),
                                                 true,
                                                 std::vector<int>())),
        shape_(shape),
        builder(name, shape, *tables_) {
    endpoint_->attach_loop(*this, make_intrusive<Parker>());
    static_cast<void>(endpoint_->stop_inbox());  // answers no questions
    endpoint_->make_capture(name);
  }
  CaptureDevice(const CaptureDevice&) = delete;
  CaptureDevice& operator=(const CaptureDevice&) = delete;
  /// Closes the device: later ops on tensors that left the function are refused.
  ~CaptureDevice() {
    endpoint_->close();
    finish();
  }

  [[nodiscard]] Tensor make_tensor(DType dtype) {
    return detail::TensorAccess::adopt(
        current_stream(*endpoint_)
            .make_tensor(dtype, endpoint_->tables().shapes.intern(shape_).value()));
  }

  /// Consumes the remaining records; no thread pushes any more. Throws the error that prevented a
  /// kernel.
  void require_captured() {
    finish();
    if (const ErrorRef why = error()) {
      throw_error(*why);
    }
  }

  void run_borrowed(UntilFn until, const void* context, Deadline /*deadline*/) noexcept override {
    do {
      drain(endpoint_->doorbell.take().lanes);
    } while (!until(context) && endpoint_->doorbell.has_rung());
    while (!endpoint_->doorbell.try_release()) {
      drain(endpoint_->doorbell.take().lanes);
    }
  }
  /// Notes that a composed op begins, or ends if `called` is empty. Ops in between get its name.
  void record_call(std::string_view called) {
    call_depth_ += called.empty() ? -1 : 1;
    if (call_depth_ == (called.empty() ? 0 : 1)) {
      take_all();
      builder.set_called(called);
    }
  }
  /// Consumes the remaining records. Requires that no thread pushes any more.
  void finish() noexcept {
    if (!has_ended_ && endpoint_->doorbell.try_claim()) {
      has_ended_ = true;
      drain(endpoint_->doorbell.stop().lanes);
    }
  }

 private:
  void take_all() noexcept {
    if (endpoint_->doorbell.try_claim()) {
      run_borrowed([](const void*) noexcept { return true; }, nullptr, Deadline::never());
    }
  }
  void drain(Lane* lane) noexcept {
    while (lane != nullptr) {
      Lane* const next = lane->doorbell_next;
      do {
        while (const OpRecord* const record = lane->front()) {
          consume(OpView(*record, lane->front_blob()));
          lane->pop();
        }
      } while (lane->finish_turn() == Lane::Turn::more);
      lane = next;
    }
  }

  void consume(const OpView& op) noexcept {
    try {
      builder.consume(op);
    } catch (...) {
      failure_ = log_thrown(*endpoint_, "a capture");
    }
    if (const ErrorRef why = error()) {
      reject_ticket(*endpoint_, op, why);
    }
  }

  const std::shared_ptr<RuntimeTables> tables_;
  const IntrusivePtr<DeviceEndpoint> endpoint_;
  const Shape shape_;
  int call_depth_ = 0;
  bool has_ended_ = false;
  ErrorRef failure_;

 public:
  CaptureBuilder builder;
  [[nodiscard]] ErrorRef error() const { return builder.error() ? builder.error() : failure_; }
};

/// Reports the names of the ops that the function calls to the device, while it lives.
class CallNames final {
 public:
  explicit CallNames(CaptureDevice& device)
      : listener_([&device](std::string_view called) { device.record_call(called); }),
        outer_(std::exchange(current_context().call_listener(), &listener_)) {}
  CallNames(const CallNames&) = delete;
  CallNames& operator=(const CallNames&) = delete;
  ~CallNames() { current_context().call_listener() = outer_; }

 private:
  ThreadContext::CallListener listener_;
  ThreadContext::CallListener* const outer_;
};

/// Calls the function. If it throws after the capture refused an op, the refusal is thrown instead.
/// Errors: the first op that cannot be captured; exceptions of the function.
template <class Fn>
std::vector<Tensor> run_on(CaptureDevice& device, const Fn& function) {
  std::vector<Tensor> results;
  try {
    const CallNames names(device);
    results = function();
  } catch (const ArgumentError&) {
    device.require_captured();
    throw;
  }
  device.require_captured();
  return results;
}

/// Removes entries that no node reads; returns the indices of the others.
template <class Entry>
std::vector<std::uint8_t> keep_read(KernelIR& kernel, Primitive leaf, std::vector<Entry>& entries) {
  std::vector<std::uint8_t> kept;
  std::vector<Entry> all = std::exchange(entries, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto is_it = [&](const KernelNode& node) {
      return node.primitive == leaf && node.number == static_cast<std::int32_t>(i);
    };
    const auto node = std::ranges::find_if(kernel.body, is_it);
    if (node != kernel.body.end()) {
      // lower than all numbers still to come
      node->number = static_cast<std::int32_t>(kept.size());
      kept.push_back(static_cast<std::uint8_t>(i));
      entries.push_back(std::move(all[i]));
    }
  }
  return kept;
}

void require_form(const CaptureForm& form) {
  if (form.tensors.size() > kMostExpressionInputs ||
      form.scalars.size() > kMostExpressionParameters) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: it has {} tensors and {} scalars, at most {} and {} "
                                          "are possible",
                                          form.name,
                                          form.tensors.size(),
                                          form.scalars.size(),
                                          kMostExpressionInputs,
                                          kMostExpressionParameters),
                      .op = form.name,
                      .location = form.location});
  }
}

// Phases: make tensors for the arguments; call the function; turn its ops into nodes; make the
// kernel without unused entries.
Captured capture_over(const Shape& shape,
                      const CaptureForm& form,
                      const CapturedFunction& function) {
  CaptureDevice device(form.name, shape);
  std::vector<Tensor> tensors;
  std::vector<Tensor> scalars;
  for (const DType dtype : form.tensors) {
    tensors.push_back(device.make_tensor(dtype));
    device.builder.add_input(*detail::TensorAccess::impl(tensors.back()));
  }
  for (const DType dtype : form.scalars) {
    scalars.push_back(device.make_tensor(dtype));
    device.builder.add_parameter(*detail::TensorAccess::impl(scalars.back()));
  }
  const std::vector<Tensor> results = run_on(device, [&] { return function(tensors, scalars); });
  for (const Tensor& result : results) {
    device.builder.add_result(result, form.location);
  }
  KernelIR kernel = device.builder.take();
  Captured captured{.without_gradient = device.builder.without_gradient()};
  captured.tensors = keep_read(kernel, Primitive::input, kernel.inputs);
  captured.scalars = keep_read(kernel, Primitive::parameter, kernel.parameters);
  if (!captured.tensors.empty()) {
    captured.kernel = std::move(kernel);
  }
  return captured;
}

// Returns whether a mistake of the function may come from the captured shapes. A refusal by the
// capture carries the capture's name.
bool may_be_of_shapes(const CaptureForm& form, const Error& mistake) {
  return mistake.op != form.name &&
         (mistake.code == ErrorCode::shape_mismatch || mistake.code == ErrorCode::invalid_argument);
}

[[noreturn]] void throw_no_shape(const CaptureForm& form, Error mistake) {
  mistake.text = fmt::format(
      "{}: {}; an elementwise function takes tensors of each shape, and is captured with {} and {}",
      form.name,
      mistake.text,
      one_element().to_string(),
      many_elements().to_string());
  mistake.op = form.name;
  throw_error(std::move(mistake));
}

bool are_equal(const Captured& a, const Captured& b) {
  return a.kernel == b.kernel && a.tensors == b.tensors && a.scalars == b.scalars;
}

}  // namespace

Captured capture(const CaptureForm& form, const CapturedFunction& function) {
  require_form(form);
  return capture_over(one_element(), form, function);
}

// Phases: call the function with one element; call it with many, even if the first call failed,
// since a refused op there is the better error; compare the kernels.
Captured capture_checked(const CaptureForm& form, const CapturedFunction& function) {
  require_form(form);
  Captured captured;
  std::optional<Error> mistake;
  try {
    captured = capture_over(one_element(), form, function);
  } catch (const ArgumentError& thrown) {
    if (!may_be_of_shapes(form, thrown.error())) {
      throw;
    }
    mistake = thrown.error();
  }
  Captured many;
  try {
    many = capture_over(many_elements(), form, function);
  } catch (const ArgumentError& thrown) {
    const bool is_of_each = mistake && mistake->text == thrown.error().text;
    if (is_of_each || !may_be_of_shapes(form, thrown.error())) {
      throw;
    }
    throw_no_shape(form, mistake.value_or(thrown.error()));
  }
  if (mistake) {
    throw_no_shape(form, *mistake);
  }
  if (!are_equal(captured, many)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: what the function computes depends on the shape of "
                                          "its operands, or is not the same in each call; an "
                                          "elementwise one makes each element of its results from "
                                          "the elements at its place and from numbers",
                                          form.name),
                      .op = form.name,
                      .location = form.location});
  }
  return captured;
}

ExpressionRef expression_of(const CaptureForm& form,
                            const Captured& captured,
                            std::vector<ExpressionGradient> gradients) {
  Result<ExpressionRef> made = make_expression(form.name, captured.kernel, std::move(gradients));
  if (!made.has_value()) {
    Error error = made.error();
    error.op = form.name;
    error.location = form.location;
    throw_error(std::move(error));
  }
  return std::move(made).value();
}

namespace {

void require_used(const CaptureForm& form,
                  std::string_view what,
                  std::size_t given,
                  std::size_t used) {
  if (used < given) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("{}: the function uses {} of its {} {}", form.name, used, given, what),
        .op = form.name,
        .location = form.location});
  }
}

}  // namespace

void require_all_tensors(const CaptureForm& form, const Captured& captured) {
  require_used(form, "tensors", form.tensors.size(), captured.tensors.size());
}

void require_all(const CaptureForm& form, const Captured& captured) {
  require_all_tensors(form, captured);
  require_used(form, "scalars", form.scalars.size(), captured.scalars.size());
}

bool is_captured(const Tensor& tensor) noexcept {
  return tensor.is_valid() && detail::TensorAccess::impl(tensor)->endpoint->is_capture();
}

}  // namespace hearth::detail
