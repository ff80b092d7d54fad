// save_onnx: writes a model as an ONNX file, for other runtimes. The file has the ops of the
// model's forward pass, which runs a few times and is recorded.
// Stateless. Threads: as the module. Invariants: (1) what cannot be written is refused before the
// file is touched, with every reason in one table; (2) the file is complete or not changed.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/named_tensor.hpp>
#include <hearth/modules/onnx_report.hpp>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

/// An input of a graph that save_onnx() writes.
struct OnnxInput {
  std::string name = "input";  ///< Name in the file.
  Tensor example;              ///< Values that the forward pass accepts.
  /// Names of the axes whose sizes may differ from the example's, one for each axis. An axis with
  /// an empty name, or none, has the example's size. Axes of one name have one size.
  std::vector<std::string> dims = {"batch"};
};

namespace detail {
using OnnxForward = std::function<std::vector<NamedTensor>(std::span<const Tensor> inputs)>;
void write_onnx(const std::filesystem::path& path,
                const std::vector<NamedTensor>& weights,
                const std::vector<OnnxInput>& inputs,
                const OnnxForward& forward,
                SourceLoc loc);
}  // namespace detail

/// Writes a model as an ONNX file of opset 18. `forward(model, inputs)` runs the forward pass and
/// returns its result, or a std::vector<NamedTensor> of results. A result without a name is
/// "output". Initialisers have the names and types of the model's tensors; tied ones are one.
///
/// The forward pass runs once, and twice more for each named axis, with a few other sizes of these
/// axes. Each pass repeats or omits rows of the examples. Attributes and sizes that are equal in
/// all passes are fixed in the file. A size that differs is computed when the file runs.
///
/// Errors: OnnxError with a table of all problems. These are ops without a node in ONNX, random
/// numbers, values that the host reads, and sizes that ONNX cannot compute. ArgumentError for
/// no input, an empty example, or a name that is used twice. ArgumentError for an axis without
/// elements or with two sizes under one name. ArgumentError for a file above 2 GiB, and in a
/// runtime that is being recorded. Errors of the forward pass, with the sizes. DeviceError if a
/// weight cannot be read; FileError io_error. On any error an old file is kept.
/// Cost: forward passes with the memory of the examples; host memory for the weights.
/// Source: the ONNX standard, opset 18, IR version 8.
template <Module Model, class Forward>
void save_onnx(const Model& model,
               const std::filesystem::path& path,
               const std::vector<OnnxInput>& inputs,
               const Forward& forward,
               SourceLoc loc = SourceLoc::current()) {
  detail::write_onnx(
      path,
      named_tensors(model),
      inputs,
      [&](std::span<const Tensor> tensors) {
        auto results = forward(model, tensors);
        if constexpr (std::is_convertible_v<decltype(results), Tensor>) {
          return std::vector<NamedTensor>{{"output", Tensor(std::move(results))}};
        } else {
          return std::vector<NamedTensor>(std::move(results));
        }
      },
      loc);
}

/// Writes a model with one input and one result, named "input" and "output". The first axis may
/// have any size. The model evaluates: forward(x, Mode::eval), or forward(x).
///
/// Errors: as above.
template <Module Model>
void save_onnx(const Model& model,
               const std::filesystem::path& path,
               const Tensor& example,
               SourceLoc loc = SourceLoc::current()) {
  const auto forward = [](const Model& net, std::span<const Tensor> inputs) {
    if constexpr (requires { net.forward(inputs[0], Mode::eval); }) {
      return net.forward(inputs[0], Mode::eval);
    } else {
      return net.forward(inputs[0]);
    }
  };
  save_onnx(model, path, std::vector<OnnxInput>{{.example = example}}, forward, loc);
}

// Overload for types that are no modules: fails with a readable static_assert.
template <class Model, class... Rest>
requires(!Module<Model>) void save_onnx(const Model& /*model*/, const Rest&... /*rest*/) {
  static_assert(detail::refuse_no_module<Model>());
}

}  // namespace hearth
