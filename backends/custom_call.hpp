// Runs an op of kind `custom`, the program's own function, on backends whose memory the host may
// access. Free functions. Threads: the thread that runs the kernel.
#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/custom_code.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/host_kernel_scope.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {

/// The numeric attributes of a call, as the program passed them.
class CustomNumbers final {
 public:
  explicit CustomNumbers(const OpView& op) noexcept
      : count_(op.attributes<CustomAttributes>().number_count) {
    const std::span<const std::byte> bytes = op.last_blob_bytes(count_ * sizeof(double));
    if (!bytes.empty()) {
      std::memcpy(values_.data(), bytes.data(), bytes.size());
    }
  }
  [[nodiscard]] std::span<const double> all() const noexcept { return {values_.data(), count_}; }

 private:
  std::array<double, kMostCustomNumbers> values_{};
  std::size_t count_;
};

/// Checks that the call can run: its code exists, and its inputs are contiguous.
[[nodiscard]] inline Status check_custom(const KernelCall& call,
                                         bool has_code,
                                         std::string_view what,
                                         std::string_view device) {
  const auto refuse = [&](std::string text) {
    const std::string& name = call.custom->name;
    return Error{.code = ErrorCode::unsupported,
                 .text = name + ": " + std::move(text),
                 .op = name,
                 .device = std::string(device)};
  };
  if (!has_code) {
    return refuse(std::string("the kernel has no ") + std::string(what) + "; " +
                  std::string(device) + " needs one");
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].layout->contiguous) {
      return refuse("input '" + call.custom->inputs[i].name +
                    "' is a view with gaps, in an update group: make it contiguous() before");
    }
  }
  return {};
}

/// Runs the program's function.
/// Errors: unsupported; kernel_failed with the message of what the function throws. A kernel of the
/// library throws kernel_failed itself, under the name of an op: that error stays as it is.
[[nodiscard]] inline Status run_custom(const KernelCall& call,
                                       HostKernelCall::Cores cores,
                                       std::string_view device) {
  const CustomCode& code = *call.custom;
  Status status = check_custom(call, static_cast<bool>(code.host), "host function", device);
  if (!status.has_value()) {
    return status;
  }
  std::array<HostKernelCall::Operand, kMostCustomInputs + kMostCustomOutputs> operands;
  std::size_t count = 0;
  for (const std::span<const TensorView> views : {call.inputs, call.outputs}) {
    for (const TensorView& view : views) {
      operands[count++] = {view.data, view.dtype, &view.shape()};
    }
  }
  const CustomNumbers numbers(call.op);
  std::string what;
  const detail::FloatEnvironment environment;  // restores the caller's settings at the end
  try {
    const detail::HostKernelScope scope(code.name);
    code.host(HostKernelCall(code, std::span(operands).first(count), numbers.all(), cores));
    return {};
  } catch (const Exception& thrown) {
    if (thrown.error().code == ErrorCode::kernel_failed && !thrown.error().op.empty()) {
      Error error = thrown.error();
      error.device = std::string(device);
      return error;
    }
    what = thrown.error().text;
  } catch (const std::exception& thrown) {
    what = thrown.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  return Error{.code = ErrorCode::kernel_failed,
               .text = code.name + ": its host function threw: " + what,
               .op = code.name,
               .device = std::string(device)};
}

}  // namespace hearth
