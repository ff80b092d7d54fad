#include "graph_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

namespace hearth::onnx {
namespace {

// AttributeProto.AttributeType
constexpr std::int64_t kFloatAttribute = 1;
constexpr std::int64_t kIntegerAttribute = 2;
constexpr std::int64_t kTextAttribute = 3;
constexpr std::int64_t kIntegersAttribute = 7;

std::int64_t number_of(DType dtype) {
  return static_cast<std::int64_t>(onnx_type_of(dtype));
}

template <class T>
std::vector<std::byte> bytes_of_element(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

WireWriter attribute_message(const DraftAttribute& attribute) {
  WireWriter out;
  out.text(1, attribute.first);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.second)) {
    out.integer(3, *integer);
    out.integer(20, kIntegerAttribute);
  } else if (const auto* real = std::get_if<float>(&attribute.second)) {
    out.real(2, *real);
    out.integer(20, kFloatAttribute);
  } else if (const auto* text = std::get_if<std::string>(&attribute.second)) {
    out.text(4, *text);
    out.integer(20, kTextAttribute);
  } else {
    out.integers(8, std::get<std::vector<std::int64_t>>(attribute.second));
    out.integer(20, kIntegersAttribute);
  }
  return out;
}

WireWriter node_message(const DraftNode& node) {
  WireWriter out;
  for (const std::string& input : node.inputs) {
    out.text(1, input);
  }
  for (const std::string& output : node.outputs) {
    out.text(2, output);
  }
  out.text(3, node.outputs.front());
  out.text(4, node.op);
  for (const DraftAttribute& attribute : node.attributes) {
    out.message(5, attribute_message(attribute));
  }
  return out;
}

WireWriter port_message(const DraftPort& port) {
  WireWriter shape;
  for (const auto& dim : port.dims) {
    WireWriter size;
    if (const auto* number = std::get_if<std::int64_t>(&dim)) {
      size.integer(1, *number);
    } else if (const auto& name = std::get<std::string>(dim); !name.empty()) {
      size.text(2, name);
    }
    shape.message(1, size);
  }
  WireWriter tensor;
  tensor.integer(1, number_of(port.dtype));
  tensor.message(2, shape);
  WireWriter type;
  type.message(1, tensor);
  WireWriter out;
  out.text(1, port.name);
  out.message(2, type);
  return out;
}

}  // namespace

std::string GraphDraft::unique(std::string_view wanted) {
  int& number = last_numbers_[std::string(wanted)];
  for (;;) {
    std::string name = fmt::format("{}_{}", wanted, ++number);
    if (reserve(name)) {
      return name;
    }
  }
}

std::string GraphDraft::add(std::string op,
                            std::vector<std::string> inputs,
                            std::vector<DraftAttribute> attributes) {
  return add_many(std::move(op), std::move(inputs), std::move(attributes), 1).front();
}

std::vector<std::string> GraphDraft::add_many(std::string op,
                                              std::vector<std::string> inputs,
                                              std::vector<DraftAttribute> attributes,
                                              std::size_t outputs) {
  const std::string wanted = layer_.empty() ? op : fmt::format("{}/{}", layer_, op);
  std::vector<std::string> names;
  std::generate_n(std::back_inserter(names), outputs, [&] { return unique(wanted); });
  nodes_.push_back({std::move(op), std::move(inputs), names, std::move(attributes)});
  return names;
}

void GraphDraft::add_weight(const std::string& name,
                            DType dtype,
                            const Shape& shape,
                            std::span<const std::byte> bytes) {
  initialisers_.push_back({.name = name, .dtype = dtype, .shape = shape, .borrowed = bytes});
}

std::string GraphDraft::constant(DType dtype, const Shape& shape, std::vector<std::byte> bytes) {
  const std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  const auto [known, is_new] = constants_.try_emplace({dtype, dims, bytes});
  if (is_new) {
    known->second = unique("constant");
    initialisers_.push_back(
        {.name = known->second, .dtype = dtype, .shape = shape, .own = std::move(bytes)});
  }
  return known->second;
}

std::string GraphDraft::integers(const std::vector<std::int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return constant(DType::i64,
                  Shape{static_cast<std::int64_t>(values.size())},
                  std::vector<std::byte>(bytes.begin(), bytes.end()));
}

std::string GraphDraft::integer(std::int64_t value) {
  return constant(DType::i64, Shape{}, bytes_of_element(value));
}

std::string GraphDraft::scalar(DType dtype, const ScalarAttributes& value) {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      return constant(dtype, Shape{}, bytes_of_element(T(static_cast<float>(value.real))));
    } else if constexpr (std::is_floating_point_v<T>) {
      return constant(dtype, Shape{}, bytes_of_element(static_cast<T>(value.real)));
    } else {
      return constant(dtype, Shape{}, bytes_of_element(static_cast<T>(value.integer)));
    }
  });
}

std::string GraphDraft::scalar(DType dtype, double value) {
  return scalar(dtype,
                {.real = value, .integer = is_float(dtype) ? 0 : static_cast<std::int64_t>(value)});
}

void GraphDraft::rename(const std::string& from, const std::string& to) {
  for (DraftNode& node : nodes_) {
    std::ranges::replace(node.inputs, from, to);
    std::ranges::replace(node.outputs, from, to);
  }
}

// A node's output takes the result's name. Inputs, weights and results of other names are copied.
void GraphDraft::add_result(const std::string& value, DraftPort port) {
  const auto has_name = [&](const auto& one) { return one.name == value; };
  const bool is_made_here = std::ranges::any_of(nodes_, [&](const DraftNode& node) {
    return std::ranges::find(node.outputs, value) != node.outputs.end();
  });
  if (is_made_here && std::ranges::none_of(results_, has_name)) {
    rename(value, port.name);
  } else {
    nodes_.push_back({"Identity", {value}, {port.name}});
  }
  results_.push_back(std::move(port));
}

void GraphDraft::prune() {
  std::set<std::string> needed;
  for (const DraftPort& result : results_) {
    needed.insert(result.name);
  }
  std::vector<DraftNode> kept;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (std::ranges::any_of(node->outputs,
                            [&](const std::string& name) { return needed.contains(name); })) {
      needed.insert(node->inputs.begin(), node->inputs.end());
      kept.push_back(std::move(*node));
    }
  }
  std::ranges::reverse(kept);
  nodes_ = std::move(kept);
  std::erase_if(initialisers_,
                [&](const Initialiser& initialiser) { return !needed.contains(initialiser.name); });
}

WireWriter GraphDraft::graph() const {
  WireWriter out;
  for (const DraftNode& node : nodes_) {
    out.message(1, node_message(node));
  }
  out.text(2, "hearth");
  for (const Initialiser& initialiser : initialisers_) {
    WireWriter tensor;
    const auto& dims = initialiser.shape.dims();
    tensor.integers(1, std::vector<std::int64_t>(dims.begin(), dims.end()));
    tensor.integer(2, number_of(initialiser.dtype));
    tensor.text(8, initialiser.name);
    tensor.borrowed(9,
                    initialiser.own.empty() ? initialiser.borrowed
                                            : std::span<const std::byte>(initialiser.own));
    out.message(5, tensor);
  }
  for (const DraftPort& input : inputs_) {
    out.message(11, port_message(input));
  }
  for (const DraftPort& result : results_) {
    out.message(12, port_message(result));
  }
  return out;
}

WireWriter GraphDraft::model() const {
  WireWriter opset;
  opset.text(1, "");
  opset.integer(2, kSavedOpset);
  WireWriter out;
  out.integer(1, kSavedIrVersion);
  out.text(2, "hearth");
  out.message(7, graph());
  out.message(8, opset);
  return out;
}

}  // namespace hearth::onnx
