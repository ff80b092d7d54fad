#include "node_order.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace hearth::onnx {
namespace {

// Adds the names that a graph uses but does not define.
void add_free_names(const GraphProto& graph, std::vector<std::string>& to) {
  std::set<std::string_view> defined;
  for (const ValueInfo& input : graph.inputs) {
    defined.insert(input.name);
  }
  for (const TensorProto& tensor : graph.initialisers) {
    defined.insert(tensor.name);
  }
  for (const NodeProto& node : graph.nodes) {
    defined.insert(node.outputs.begin(), node.outputs.end());
  }
  const auto add = [&](const std::string& name) {
    if (!name.empty() && !defined.contains(name)) {
      to.push_back(name);
    }
  };
  for (const NodeProto& node : graph.nodes) {
    std::ranges::for_each(used_names(node), add);
  }
  for (const ValueInfo& output : graph.outputs) {
    add(output.name);
  }
}

using Producers = std::map<std::string_view, std::size_t>;

// Depth-first, without recursion: a file may have a chain of a million nodes.
class Walk final {
 public:
  Walk(const std::vector<NodeProto>& nodes, const Producers& producers, NodeOrder& order)
      : nodes_(nodes), producers_(producers), order_(order), states_(nodes.size(), State::unseen) {}

  void visit(const std::string& name) {
    const auto producer = producers_.find(name);
    if (producer == producers_.end() || states_[producer->second] != State::unseen) {
      return;
    }
    enter(producer->second);
    while (!open_.empty()) {
      Open& top = open_.back();
      if (top.next == top.needs.size()) {
        states_[top.node] = State::done;
        order_.nodes.push_back(top.node);
        open_.pop_back();
        continue;
      }
      const auto needed = producers_.find(top.needs[top.next++]);
      if (needed == producers_.end()) {
        continue;
      }
      if (states_[needed->second] == State::open) {
        order_.cyclic.push_back(needed->second);
      } else if (states_[needed->second] == State::unseen) {
        enter(needed->second);
      }
    }
  }

 private:
  enum class State : std::uint8_t { unseen, open, done };
  struct Open {
    std::size_t node;
    std::vector<std::string> needs;
    std::size_t next = 0;
  };

  void enter(std::size_t node) {
    states_[node] = State::open;
    open_.push_back({.node = node, .needs = used_names(nodes_[node])});
    order_.used.insert(open_.back().needs.begin(), open_.back().needs.end());
  }

  const std::vector<NodeProto>& nodes_;
  const Producers& producers_;
  NodeOrder& order_;
  std::vector<State> states_;
  std::vector<Open> open_;
};

}  // namespace

std::vector<std::string> used_names(const NodeProto& node) {
  std::vector<std::string> names;
  for (const std::string& input : node.inputs) {
    if (!input.empty()) {
      names.push_back(input);
    }
  }
  for (const AttributeProto& attribute : node.attributes) {
    if (attribute.graph != nullptr) {
      add_free_names(*attribute.graph, names);
    }
  }
  return names;
}

NodeOrder order_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string>& wanted) {
  NodeOrder order;
  Producers producers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].outputs) {
      if (!output.empty() && !producers.emplace(output, i).second) {
        order.repeated.push_back(output);
      }
    }
  }
  order.used.insert(wanted.begin(), wanted.end());
  Walk walk(nodes, producers, order);
  for (const std::string& name : wanted) {
    walk.visit(name);
  }
  std::ranges::sort(order.cyclic);
  order.cyclic.erase(std::unique(order.cyclic.begin(), order.cyclic.end()), order.cyclic.end());
  return order;
}

}  // namespace hearth::onnx
