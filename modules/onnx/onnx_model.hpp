// OnnxModel: a module made from an ONNX file at run time. Its forward pass calls the library's ops
// node by node. Shapes are those of each call, gradients flow, and ops fuse as in any program.
// A value, like every module: copies share the weights until one is trained. Threads: as a module;
// a frozen model (freeze()) runs on any number of threads.
// Invariants: (1) a weight's path is its name in the file; (2) a run never changes the model;
// (3) constants that decide shapes are part of the structure, not weights.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/onnx_report.hpp>
#include <hearth/modules/onnx_value.hpp>
#include <hearth/modules/tensor_visitor.hpp>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

namespace onnx {
struct LoadedModel;
}  // namespace onnx

/// Values by the names of a graph's inputs or results.
using OnnxValues = std::map<std::string, OnnxValue>;

struct OnnxRunOptions {
  Mode mode = Mode::eval;  ///< train: Dropout is active; BatchNormalization uses the batch.
  WaitOptions wait = {};   ///< Limit of each wait at a sync point.
};

class OnnxModel final {
 public:
  static constexpr std::string_view module_name() noexcept { return "OnnxModel"; }
  OnnxModel() = default;  ///< Empty: it has no weights, and a run is an error.
  explicit OnnxModel(std::shared_ptr<const onnx::LoadedModel> model,
                     std::vector<Tensor> parameters,
                     std::vector<Buffer> buffers,
                     Device device);

  /// Runs a graph with one input and one result.
  ///
  /// Errors: as run(); ArgumentError if the graph has other inputs or results, or if the result is
  /// no tensor.
  [[nodiscard]] Tensor forward(const Tensor& x,
                               Mode mode = Mode::eval,
                               SourceLoc loc = SourceLoc::current()) const;
  /// Runs a graph with its inputs and results in the order of report(). A ModelServer calls it.
  ///
  /// Errors: as run(); ArgumentError for another number of inputs, or a result that is no tensor.
  [[nodiscard]] std::vector<Tensor> forward(std::span<const Tensor> inputs,
                                            Mode mode = Mode::eval,
                                            SourceLoc loc = SourceLoc::current()) const;
  /// Runs the graph and returns its results by name, on the device unless they are strings. Waits
  /// only at the sync points of report().
  ///
  /// Dtypes: tensors as the graph declares them; u16 and i16 are given in i32, u32 and u64 in i64.
  /// Numbers on the host are converted to the declared type.
  /// Errors: ArgumentError for a missing or unknown input, another type or rank; ArgumentError that
  /// names node, op, opset, the broken rule and values; DeviceError and DeadlineExceeded from a
  /// sync point.
  [[nodiscard]] OnnxValues run(const OnnxValues& inputs,
                               const OnnxRunOptions& options = {},
                               SourceLoc loc = SourceLoc::current()) const;

  /// Returns the contents of the file, and where a run waits.
  ///
  /// Errors: ArgumentError for an empty model.
  [[nodiscard]] const OnnxReport& report(SourceLoc loc = SourceLoc::current()) const;

  /// Calls fn(path, tensor) for each weight: as HEARTH_MODULE.
  void visit(const std::string& prefix, TensorVisitor fn);
  void visit(const std::string& prefix, ConstTensorVisitor fn) const;

 private:
  [[nodiscard]] std::vector<OnnxValue> run_in_order(std::vector<OnnxValue> ordered,
                                                    const OnnxRunOptions& options,
                                                    SourceLoc loc) const;
  [[nodiscard]] Device device(SourceLoc loc) const;

  std::shared_ptr<const onnx::LoadedModel> model_;
  std::vector<Tensor> parameters_;
  std::vector<Buffer> buffers_;
  Device device_;  // of a model without weights
};

/// Loads an ONNX file of opset 1 to 23. Float initialisers become parameters; integers, running
/// statistics and results of Constant nodes become Buffers. The file's external data must lie in
/// its folder.
///
/// Errors: OnnxError with a table of all problems; FileError not_found, io_error, bad_format;
/// OutOfMemory.
/// Cost: host memory for the file until its weights are uploaded.
[[nodiscard]] OnnxModel load_onnx(const std::filesystem::path& path,
                                  const Device& device,
                                  SourceLoc loc = SourceLoc::current());

/// Returns what a file holds and every problem that load_onnx() would report. Needs no device and
/// reads no weights.
///
/// Errors: FileError if the file cannot be read or is no ONNX file.
[[nodiscard]] OnnxReport check_onnx(const std::filesystem::path& path,
                                    SourceLoc loc = SourceLoc::current());

/// Reads a file with one value, as those beside ONNX's test cases: a tensor, a sequence or an
/// optional, by the port's kind. Elements stay on the host.
///
/// Errors: FileError.
[[nodiscard]] OnnxValue read_onnx_value(const std::filesystem::path& path,
                                        const OnnxPort& port = {},
                                        SourceLoc loc = SourceLoc::current());

}  // namespace hearth
