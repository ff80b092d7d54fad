// Plan: a graph in the order in which it runs, with every name resolved to a place. Program: the
// plan of a whole file, and its constants.
// Made once at load, then const and shared by all copies of a model. Threads: any, const.
// Invariants: (1) nodes stand behind the producers of their inputs; (2) nodes without effect are
// absent; (3) a place is written once in a run.
#pragma once

#include "modules/onnx/values/node_info.hpp"
#include "modules/onnx/values/op_row.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hearth::onnx {

/// Place of a value.
struct ValueRef {
  enum class Kind : std::uint8_t {
    none,      ///< An omitted input.
    local,     ///< In the frame of this plan.
    outer,     ///< In the frame `depth` graphs further out.
    constant,  ///< Among the constants of the program.
  };
  Kind kind = Kind::none;
  bool is_last_use = false;  ///< True for a local value without a later use here or in a body.
  std::uint16_t depth = 0;
  std::uint32_t index = 0;
};

struct PlanNode {
  NodeInfo info;
  const OpRow* row = nullptr;
  std::vector<ValueRef> inputs = {};
  std::vector<std::int64_t> outputs = {};  ///< Local places; -1: unused.
  /// Statically known on the host: nothing that a device computes reaches it.
  bool is_known = false;
};

struct PlanInput {
  std::string name;
  TypeProto type = {};
};

struct Plan {
  std::vector<PlanInput> inputs = {};  ///< Graph inputs, which have the first places.
  std::vector<PlanNode> nodes = {};
  std::vector<ValueRef> outputs = {};
  std::vector<std::string> output_names = {};
  std::vector<TypeProto> output_types = {};
  std::uint32_t place_count = 0;
};

/// An initialiser, or the result of a Constant node.
struct Constant {
  std::string name;
  OnnxType type = OnnxType::undefined;
  std::shared_ptr<const HostArray> host = {};  ///< Its elements, where they are needed on the host.
  /// Where the module holds it; -1: on the host only.
  std::int64_t parameter = -1;
  std::int64_t buffer = -1;
};

struct Program {
  Plan plan;
  std::vector<Constant> constants = {};
};

}  // namespace hearth::onnx
