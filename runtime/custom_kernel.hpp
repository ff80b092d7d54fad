// CustomKernel: an op with a kernel of your own, a function on devices of the host and GLSL on
// Vulkan devices, with your rule for shapes, your gradient and a reference to be checked against.
// An elementwise function needs none of it: custom_op.hpp makes one of plain ops. Copies share what
// it is made of. Threads: any.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/custom_code.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct CustomDefinition;

/// What a CustomKernel's gradient is made of.
struct CustomGradient {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  Tensor gradient;              ///< Of the first result.
  std::vector<bool> is_needed;  ///< By input: whether somebody asks for its gradient.
  std::vector<double> numbers;
};

struct CustomKernelConfig {
  std::string name;                          ///< What errors, traces and explanations call it.
  std::vector<CustomInput> inputs;           ///< 1 to 8.
  std::vector<std::string> outputs = {"y"};  ///< 1 to 4.
  std::vector<CustomNumber> numbers = {};    ///< Up to 16, which each call gives.
  /// Types and shapes of the results. What it throws is a mistake of the call, named after the
  /// kernel with the inputs' shapes: throw std::invalid_argument("x needs 2 axes").
  std::function<std::vector<TensorForm>(std::span<const TensorForm> inputs)> rule = {};
  HostKernel host = {};  ///< For cpu devices, and those that stand in for one.
  GlslKernel glsl = {};  ///< For Vulkan devices.
  /// The gradients of the inputs, made of plain ops and custom kernels; an empty tensor for one
  /// that is not needed. Without it a tracked input is a mistake.
  std::function<std::vector<Tensor>(const CustomGradient&)> vjp = {};
  /// The same results from plain ops, for check().
  std::function<std::vector<Tensor>(std::span<const Tensor> inputs,
                                    std::span<const double> numbers)>
      reference = {};
};

class CustomKernel final {
 public:
  /// Errors: ArgumentError for a kernel without a name, a rule or any code, and for names that are
  /// no identifiers of GLSL, or meet another, one that the text has for another (x_size for x), or
  /// a word of the text around it.
  explicit CustomKernel(CustomKernelConfig config, SourceLoc loc = SourceLoc::current());

  /// Runs the kernel on its inputs' device, where views are made contiguous first. Kernels are no
  /// part of recordings.
  ///
  /// Errors: ShapeError, DtypeError, ArgumentError when inputs or numbers do not fit;
  /// ArgumentError without code for this device, and for tracked inputs without a vjp. What happens
  /// in the kernel, and a GLSL text that does not compile, with the lines that are wrong, is a
  /// DeviceError when the result is read.
  [[nodiscard]] Tensor operator()(std::initializer_list<Tensor> inputs,
                                  std::initializer_list<double> numbers = {},
                                  SourceLoc loc = SourceLoc::current()) const;
  /// The same with all results. The first one alone has a gradient.
  [[nodiscard]] std::vector<Tensor> all(std::span<const Tensor> inputs,
                                        std::span<const double> numbers = {},
                                        SourceLoc loc = SourceLoc::current()) const;
  /// Runs kernel and reference on these inputs and compares them, and with a vjp their gradients of
  /// a sum with varied weights: |got - want| <= tolerance · (1 + |want|) for each element. Waits.
  ///
  /// Errors: ArgumentError that names result, place and both values; without a reference.
  void check(std::initializer_list<Tensor> inputs,
             std::initializer_list<double> numbers = {},
             double tolerance = 1e-5,
             SourceLoc loc = SourceLoc::current()) const;

  [[nodiscard]] const std::string& name() const noexcept;

 private:
  struct State;
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        std::span<const double> numbers,
                                        SourceLoc loc) const;

  std::shared_ptr<const State> state_;
};

/// A CustomKernel.
[[nodiscard]] inline CustomKernel custom_op(CustomKernelConfig config,
                                            SourceLoc loc = SourceLoc::current()) {
  return CustomKernel(std::move(config), loc);
}

}  // namespace hearth
