#include "host_op.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/host_kernel_scope.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/tensor_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace hearth::detail {
namespace {

/// GLSL and CUDA C++: element i of the result is element i of the value.
constexpr std::string_view kAttachText = "void kernel() { set_y(ID, value(ID)); }";

// The op's inputs, then its value, which becomes the result.
CustomKernelConfig attaching(const CustomKernelConfig& op) {
  CustomKernelConfig config{.name = op.name, .inputs = op.inputs, .numbers = op.numbers};
  config.inputs.push_back({"value"});
  config.rule = [](std::span<const TensorForm> inputs) -> std::vector<TensorForm> {
    return {inputs.back()};
  };
  config.glsl.text = kAttachText;
  config.cuda.text = kAttachText;
  config.vjp = [vjp = op.vjp](const CustomGradient& call) {
    CustomGradient inner = call;
    inner.inputs.pop_back();
    inner.is_needed.pop_back();
    std::vector<Tensor> gradients = vjp(inner);
    gradients.emplace_back();
    return gradients;
  };
  return config;
}

DeviceEndpoint& endpoint_of(const Tensor& tensor) {
  return *TensorAccess::impl(tensor)->endpoint;
}

// A capture refuses kernels with a sentence of its own.
bool is_of_gpu(const Tensor& tensor) {
  const DeviceEndpoint& endpoint = endpoint_of(tensor);
  return !endpoint.is_capture() &&
         (endpoint.name().starts_with("vulkan") || endpoint.name().starts_with("cuda"));
}

// Elements on the host, which outlive an upload.
struct HostElements {
  TensorForm form;
  std::shared_ptr<std::vector<std::byte>> bytes;

  [[nodiscard]] HostKernelCall::Operand operand() const {
    return {bytes->data(), form.dtype, &form.shape};
  }
};

void run_serially(void* /*object*/,
                  std::int64_t count,
                  std::int64_t grain,
                  HostKernelCall::RangeFn range,
                  const void* body) {
  for (std::int64_t begin = 0; begin < count; begin += grain) {
    range(body, begin, std::min(begin + grain, count));
  }
}

}  // namespace

void throw_kernel_failure(std::string_view op, std::string_view what) {
  throw_error(Error{.code = ErrorCode::kernel_failed,
                    .text = fmt::format("{}: {}", op, what),
                    .op = std::string(op)});
}

std::string matrix_name(const Shape& shape, std::int64_t number) {
  if (shape.rank() == 2) {
    return "the matrix";
  }
  std::string place;
  for (int axis = shape.rank() - 3; axis >= 0; --axis) {
    place = fmt::format("{}{}{}", number % shape[axis], place.empty() ? "" : ", ", place);
    number /= shape[axis];
  }
  return fmt::format("matrix [{}]", place);
}

HostOp::HostOp(const CustomKernelConfig& config)
    : kernel_(config), rule_(config.rule), has_vjp_(static_cast<bool>(config.vjp)) {
  code_.name = config.name;
  code_.inputs = config.inputs;
  code_.outputs = config.outputs;
  code_.numbers = config.numbers;
  code_.host = config.host;
  if (has_vjp_) {
    attach_.emplace(attaching(config));
  }
}

std::vector<Tensor> HostOp::all(std::span<const Tensor> inputs,
                                std::span<const double> numbers,
                                const At& at) const {
  std::vector<Tensor> detached;
  for (const Tensor& input : inputs) {
    detached.push_back(input.detach());
  }
  if (!is_of_gpu(inputs[0])) {
    return kernel_.all(has_vjp_ ? inputs : detached, numbers, at.location());
  }
  std::vector<Tensor> results = through_host(detached, numbers, at);
  const auto is_tracked = [](const Tensor& each) { return each.is_tracked(); };
  if (has_vjp_ && std::ranges::any_of(inputs, is_tracked)) {
    std::vector<Tensor> with_value(inputs.begin(), inputs.end());
    with_value.push_back(results[0]);
    return attach_->all(with_value, numbers, at.location());
  }
  return results;
}

Tensor HostOp::operator()(std::initializer_list<Tensor> inputs,
                          std::initializer_list<double> numbers,
                          const At& at) const {
  return all({inputs.begin(), inputs.size()}, {numbers.begin(), numbers.size()}, at)[0];
}

// Phases: queue the reads of all inputs; wait for them; run the function; upload the results.
std::vector<Tensor> HostOp::through_host(std::span<const Tensor> inputs,
                                         std::span<const double> numbers,
                                         const At& at) const {
  const SourceLoc loc = at.location();
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    throw_error(Error{.code = code,
                      .text = fmt::format("{}: {}", code_.name, what),
                      .op = code_.name,
                      .location = loc});
  };
  if (endpoint_of(inputs[0]).tables().recorder.is_on()) {
    refuse(ErrorCode::invalid_argument,
           "its code can be no part of a recording, which is under way: stop it first");
  }
  std::vector<Pending<std::vector<std::byte>>> reads;
  std::vector<TensorForm> forms;
  for (const Tensor& input : inputs) {
    if (&endpoint_of(input) != &endpoint_of(inputs[0])) {
      refuse(
          ErrorCode::device_mismatch,
          fmt::format(
              "inputs are on {} and {}", endpoint_of(inputs[0]).name(), endpoint_of(input).name()));
    }
    forms.push_back({input.dtype(), input.shape()});
    reads.push_back(input.read_bytes(loc));
  }
  std::vector<HostElements> elements;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    elements.push_back(
        {forms[i], std::make_shared<std::vector<std::byte>>(std::move(reads[i]).get())});
  }
  for (const TensorForm& form : rule_(forms)) {
    const auto size = static_cast<std::size_t>(form.element_count() * size_bytes(form.dtype));
    elements.push_back({form, std::make_shared<std::vector<std::byte>>(size)});
  }
  std::vector<HostKernelCall::Operand> operands;
  operands.reserve(elements.size());
  for (const HostElements& each : elements) {
    operands.push_back(each.operand());
  }
  try {
    const FloatEnvironment environment;
    const HostKernelScope scope(code_.name);
    code_.host(HostKernelCall(code_, operands, numbers, {.run = run_serially}));
  } catch (const Exception& thrown) {
    Error error = thrown.error();
    error.location = loc;
    error.device = endpoint_of(inputs[0]).name();
    throw_error(std::move(error));
  }
  std::vector<Tensor> results;
  for (std::size_t i = inputs.size(); i < elements.size(); ++i) {
    const HostElements& made = elements[i];
    results.push_back(Tensor::from_owned_bytes(
        inputs[0].device(), *made.bytes, made.bytes, made.form.dtype, made.form.shape, loc));
  }
  return results;
}

}  // namespace hearth::detail
