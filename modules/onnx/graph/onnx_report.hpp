// OnnxReport: what an ONNX file holds, what this library cannot run of it, and where a run waits
// for the device. load_onnx() throws OnnxError with the report of a file with problems.
// A value. Threads: any.
#pragma once

#include <hearth/modules/onnx_type.hpp>
#include <hearth/runtime/base/error.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// A reason why nodes or tensors of a file cannot run. Alike ones are one problem.
struct OnnxProblem {
  std::string op = {};  ///< Empty: it concerns a tensor, an input or the file.
  std::string domain = {};
  std::int64_t opset = 0;
  std::string reason = {};              ///< The broken rule, with its values.
  std::string help = {};                ///< Remedy.
  std::int64_t count = 0;               ///< Number of nodes or tensors.
  std::vector<std::string> names = {};  ///< The first of their names, at most three.
};

/// A place where a run waits for elements from the device.
struct OnnxSyncPoint {
  std::string node;
  std::string op;
  std::string value;      ///< Name of the value that is read.
  bool is_input = false;  ///< True for an input of the graph: given on the host, nothing waits.
};

/// An input or a result of a graph.
struct OnnxPort {
  std::string name;
  std::string kind = "tensor";  ///< "tensor", "sequence", "optional" or "other".
  OnnxType type = OnnxType::undefined;
  /// Each size as the file states it: "3", "batch", or "?".
  std::vector<std::string> dims = {};
  bool has_rank = false;  ///< Whether the file states the number of axes.
};

struct OnnxReport {
  std::string file;
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  ///< Version by domain; "" is ONNX itself.
  std::int64_t size_bytes = 0;                 ///< Size of the file, without external data.
  std::int64_t external_bytes = 0;
  std::vector<std::string> external_files = {};
  std::int64_t node_count = 0;  ///< Counts nodes in bodies of control flow too.
  std::map<std::string, std::int64_t> ops = {};
  std::int64_t parameter_count = 0;  ///< Elements of trainable tensors.
  std::int64_t parameter_bytes = 0;
  std::vector<OnnxPort> inputs = {};
  std::vector<OnnxPort> outputs = {};
  std::vector<OnnxProblem> problems = {};
  std::vector<OnnxSyncPoint> sync_points = {};

  /// Returns why axis 0 of the inputs and results does not count rows of independent requests;
  /// empty if it may, which the values of a model alone can refute.
  [[nodiscard]] std::string why_no_rows() const;
  /// Returns why requests over a network cannot have these inputs and results; empty if they can.
  [[nodiscard]] std::string why_not_served() const;
  /// Returns tables for a terminal.
  [[nodiscard]] std::string to_string() const;
  /// Returns the table of problems alone; empty without problems.
  [[nodiscard]] std::string problem_table() const;
  /// Returns one JSON object.
  [[nodiscard]] std::string to_json() const;
};

/// A file that this library cannot run. what() has the table of its problems.
class OnnxError final : public Exception {
 public:
  OnnxError(Error error, OnnxReport report)
      : Exception(std::move(error)),
        report_(std::make_shared<const OnnxReport>(std::move(report))) {}

  [[nodiscard]] const OnnxReport& report() const noexcept { return *report_; }

 private:
  std::shared_ptr<const OnnxReport> report_;
};

}  // namespace hearth
