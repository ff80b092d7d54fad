// Order of a graph's nodes. Files may list nodes in any order. Stateless. Threads: any.
#pragma once

#include "modules/onnx/file/onnx_proto.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace hearth::onnx {

struct NodeOrder {
  std::vector<std::size_t> nodes = {};     ///< Nodes that have an effect, producers first.
  std::vector<std::size_t> cyclic = {};    ///< Nodes that depend on themselves.
  std::vector<std::string> repeated = {};  ///< Results of more than one node.
  std::set<std::string> used = {};  ///< Names that a node of the order, a body or a result uses.
};

/// Orders the nodes that contribute to the wanted values. Keeps the file's order where it can.
[[nodiscard]] NodeOrder order_nodes(const std::vector<NodeProto>& nodes,
                                    const std::vector<std::string>& wanted);

/// Returns the names that a node uses: its inputs, and what its bodies use of the graphs around
/// them.
[[nodiscard]] std::vector<std::string> used_names(const NodeProto& node);

}  // namespace hearth::onnx
