// Writes small ONNX files for tests: protobuf messages as strings. Stateless. Threads: any.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::testing {

/// Bytes of one protobuf message.
class ProtoBytes final {
 public:
  ProtoBytes& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3U);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoBytes& real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3U | 5U);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes_.push_back(static_cast<char>(bits >> shift & 255U));
    }
    return *this;
  }
  ProtoBytes& text(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3U | 2U);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  ProtoBytes& message(int field, const ProtoBytes& value) { return text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    while (value >= 128) {
      bytes_.push_back(static_cast<char>((value & 127U) | 128U));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

/// A TensorProto with values in the typed field of f32 (type 1) or i64 (type 7).
inline ProtoBytes onnx_tensor(std::string_view name,
                              const std::vector<std::int64_t>& dims,
                              const std::vector<float>& values) {
  ProtoBytes tensor;
  for (const std::int64_t size : dims) {
    tensor.integer(1, size);
  }
  tensor.integer(2, 1).text(8, name);
  for (const float value : values) {
    tensor.real(4, value);
  }
  return tensor;
}
inline ProtoBytes onnx_integers(std::string_view name,
                                const std::vector<std::int64_t>& dims,
                                const std::vector<std::int64_t>& values) {
  ProtoBytes tensor;
  for (const std::int64_t size : dims) {
    tensor.integer(1, size);
  }
  tensor.integer(2, 7).text(8, name);
  for (const std::int64_t value : values) {
    tensor.integer(7, value);
  }
  return tensor;
}

/// Attributes of a node.
inline ProtoBytes onnx_attribute(std::string_view name, std::int64_t value) {
  return ProtoBytes().text(1, name).integer(3, value).integer(20, 2);
}
inline ProtoBytes onnx_attribute(std::string_view name, float value) {
  return ProtoBytes().text(1, name).real(2, value).integer(20, 1);
}
inline ProtoBytes onnx_attribute(std::string_view name, std::string_view value) {
  return ProtoBytes().text(1, name).text(4, value).integer(20, 3);
}
inline ProtoBytes onnx_attribute(std::string_view name, const std::vector<std::int64_t>& values) {
  ProtoBytes attribute;
  attribute.text(1, name);
  for (const std::int64_t value : values) {
    attribute.integer(8, value);
  }
  return attribute.integer(20, 7);
}
inline ProtoBytes onnx_graph_attribute(std::string_view name, const ProtoBytes& graph) {
  return ProtoBytes().text(1, name).message(6, graph).integer(20, 5);
}
inline ProtoBytes onnx_tensor_attribute(std::string_view name, const ProtoBytes& tensor) {
  return ProtoBytes().text(1, name).message(5, tensor).integer(20, 4);
}

inline ProtoBytes onnx_node(std::string_view op,
                            const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::vector<ProtoBytes>& attributes = {},
                            std::string_view name = "",
                            std::string_view domain = "") {
  ProtoBytes node;
  for (const std::string& input : inputs) {
    node.text(1, input);
  }
  for (const std::string& output : outputs) {
    node.text(2, output);
  }
  node.text(3, name).text(4, op);
  for (const ProtoBytes& attribute : attributes) {
    node.message(5, attribute);
  }
  return node.text(7, domain);
}

/// An input or a result: a tensor of this element type. A size of -1 is named "n".
inline ProtoBytes onnx_value(std::string_view name,
                             const std::vector<std::int64_t>& dims,
                             std::int64_t type = 1) {
  ProtoBytes shape;
  for (const std::int64_t size : dims) {
    ProtoBytes dim;
    shape.message(1, size < 0 ? dim.text(2, "n") : dim.integer(1, size));
  }
  const ProtoBytes tensor = ProtoBytes().integer(1, type).message(2, shape);
  return ProtoBytes().text(1, name).message(2, ProtoBytes().message(1, tensor));
}

struct OnnxGraphParts {
  std::vector<ProtoBytes> nodes = {};
  std::vector<ProtoBytes> initialisers = {};
  std::vector<ProtoBytes> inputs = {};
  std::vector<ProtoBytes> outputs = {};
};

inline ProtoBytes onnx_graph(const OnnxGraphParts& parts) {
  ProtoBytes graph;
  for (const ProtoBytes& node : parts.nodes) {
    graph.message(1, node);
  }
  graph.text(2, "graph");
  for (const ProtoBytes& tensor : parts.initialisers) {
    graph.message(5, tensor);
  }
  for (const ProtoBytes& input : parts.inputs) {
    graph.message(11, input);
  }
  for (const ProtoBytes& output : parts.outputs) {
    graph.message(12, output);
  }
  return graph;
}

/// The bytes of a file.
inline std::string onnx_file(const OnnxGraphParts& parts,
                             std::int64_t opset = 17,
                             const std::vector<ProtoBytes>& functions = {}) {
  ProtoBytes model;
  model.integer(1, 8).text(2, "tests").message(7, onnx_graph(parts));
  model.message(8, ProtoBytes().text(1, "").integer(2, opset));
  for (const ProtoBytes& function : functions) {
    model.message(25, function);
  }
  return model.bytes();
}

}  // namespace hearth::testing
