// Turns a parsed file into a Program. Reads no weights and needs no device.
// Stateless. Threads: any.
#pragma once

#include "modules/onnx/file/model_file.hpp"
#include "modules/onnx/graph/plan.hpp"
#include "modules/onnx/graph/problem_list.hpp"
#include "modules/onnx/handlers/op_table.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hearth::onnx {

/// A constant before its elements are read.
struct ConstantSource {
  std::string name;
  const TensorProto* proto = nullptr;  ///< In the file; null: `host` has the elements.
  std::shared_ptr<const HostArray> host = {};
  OnnxType type = OnnxType::undefined;
  Shape shape = {};
  bool is_initialiser = false;  ///< Floats of initialisers are parameters.
  bool is_statistic = false;    ///< Updated in training, as a running mean.
  bool is_on_host = false;      ///< A node needs its elements on the host.
  bool is_on_device = false;    ///< A node needs it as a tensor.
};

struct BuiltProgram {
  std::shared_ptr<Program> program;  ///< Without constants; incomplete if there are problems.
  std::vector<ConstantSource> constants = {};
  std::vector<OnnxSyncPoint> sync_points = {};
  std::int64_t node_count = 0;
  std::map<std::string, std::int64_t> ops = {};
};

/// Builds the program, and adds all problems of the file to `problems`.
[[nodiscard]] BuiltProgram build_program(const ModelFile& file,
                                         const OpTable& table,
                                         ProblemList& problems);

}  // namespace hearth::onnx
