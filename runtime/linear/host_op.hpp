// HostOp: an op whose values come from a function on the host. Devices that run on the host queue
// it as a custom kernel. For GPUs the calling thread waits for the inputs, runs the function and
// uploads the results. Both have the gradient of the configuration. Private to runtime.
// Threads: any; immutable once made.
#pragma once

#include <hearth/runtime/custom_kernel.hpp>

#include "runtime/ops/op_parts.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

class HostOp final {
 public:
  /// Takes a name, inputs, outputs, numbers, a rule and a host function. With a vjp there is one
  /// output. Callers check the operands, so the rule accepts whatever they pass.
  explicit HostOp(const CustomKernelConfig& config);

  /// Runs the op. Without a vjp, the results are constants for all open grad calls.
  ///
  /// Errors: DeviceMismatch; ArgumentError during a recording. What the function throws poisons the
  /// results; for GPUs the call throws it.
  [[nodiscard]] std::vector<Tensor> all(std::span<const Tensor> inputs,
                                        std::span<const double> numbers,
                                        const At& at) const;
  /// Runs an op of one result.
  [[nodiscard]] Tensor operator()(std::initializer_list<Tensor> inputs,
                                  std::initializer_list<double> numbers,
                                  const At& at) const;

 private:
  [[nodiscard]] std::vector<Tensor> through_host(std::span<const Tensor> inputs,
                                                 std::span<const double> numbers,
                                                 const At& at) const;

  CustomKernel kernel_;
  CustomCode code_;
  std::function<std::vector<TensorForm>(std::span<const TensorForm>)> rule_;
  bool has_vjp_;
  /// Returns its last input, with the gradient of the op of the others. Only with a vjp.
  std::optional<CustomKernel> attach_;
};

/// Throws what a kernel of the library reports: a DeviceError of this op, with this text.
[[noreturn]] void throw_kernel_failure(std::string_view op, std::string_view what);

/// The name of one matrix of a batch in errors: "matrix [1, 0]"; "the matrix" without batch axes.
[[nodiscard]] std::string matrix_name(const Shape& shape, std::int64_t number);

}  // namespace hearth::detail
