// CustomKernel: an op with a kernel of your own. Its code is a function for host devices, GLSL for
// Vulkan devices, and CUDA C++ for CUDA devices. Its other parts are a rule for shapes, a gradient,
// and a reference for checks. For an elementwise
// function, custom_op.hpp builds the op from plain ops. Copies share their definition.
// Threads: any.
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

/// Arguments of a CustomKernel's gradient function.
struct CustomGradient {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  Tensor gradient;              ///< Gradient of the first result.
  std::vector<bool> is_needed;  ///< For each input: true if its gradient is needed.
  std::vector<double> numbers;
};

struct CustomKernelConfig {
  std::string name;                 ///< Name of the kernel in errors, traces and explanations.
  std::vector<CustomInput> inputs;  ///< Inputs, 1 to 8.
  std::vector<std::string> outputs = {"y"};  ///< Names of the outputs, 1 to 4.
  std::vector<CustomNumber> numbers = {};    ///< Numbers passed with each call, up to 16.
  /// Computes the types and shapes of the results. An exception from it is a mistake of the call,
  /// reported with the kernel's name and the inputs' shapes: throw std::invalid_argument("x needs 2
  /// axes").
  std::function<std::vector<TensorForm>(std::span<const TensorForm> inputs)> rule = {};
  HostKernel host = {};  ///< Kernel for cpu devices, and for the reference and sim devices.
  GpuKernel glsl = {};   ///< Kernel for Vulkan devices, in GLSL.
  GpuKernel cuda = {};   ///< Kernel for CUDA devices, in CUDA C++.
  /// Computes the gradients of the inputs from plain ops and custom kernels; an empty tensor for an
  /// input that needs none. Without it, calls with a tracked input fail.
  std::function<std::vector<Tensor>(const CustomGradient&)> vjp = {};
  /// Computes the same results from plain ops, for check().
  std::function<std::vector<Tensor>(std::span<const Tensor> inputs,
                                    std::span<const double> numbers)>
      reference = {};
};

class CustomKernel final {
 public:
  /// Errors: ArgumentError for a kernel without a name, a rule or any code; for names that are no
  /// identifiers of GLSL, and of C++ if there is CUDA C++; and for names that clash with another
  /// name, with a derived name (x_size for x), or with a word of the generated text.
  explicit CustomKernel(CustomKernelConfig config, SourceLoc loc = SourceLoc::current());

  /// Runs the kernel on its inputs' device; views are made contiguous first. Recordings refuse
  /// custom kernels.
  ///
  /// Errors: ShapeError, DtypeError, ArgumentError if inputs or numbers do not fit; ArgumentError
  /// without code for this device, and for tracked inputs without a vjp. Failures in the kernel,
  /// and compile errors of the text with their lines, are a DeviceError when the result is
  /// read.
  [[nodiscard]] Tensor operator()(std::initializer_list<Tensor> inputs,
                                  std::initializer_list<double> numbers = {},
                                  SourceLoc loc = SourceLoc::current()) const;
  /// Runs the kernel and returns all results. Only the first one has a gradient.
  [[nodiscard]] std::vector<Tensor> all(std::span<const Tensor> inputs,
                                        std::span<const double> numbers = {},
                                        SourceLoc loc = SourceLoc::current()) const;
  /// Runs the kernel and the reference on these inputs and compares the results; with a vjp also
  /// the gradients of a weighted sum. Passes if |got - want| <= tolerance · (1 + |want|) for each
  /// element. Waits.
  ///
  /// Errors: ArgumentError that names the result, its position and both values; ArgumentError
  /// without a reference.
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

/// Makes a CustomKernel.
[[nodiscard]] inline CustomKernel custom_op(CustomKernelConfig config,
                                            SourceLoc loc = SourceLoc::current()) {
  return CustomKernel(std::move(config), loc);
}

}  // namespace hearth
