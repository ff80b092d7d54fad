// The messages of an ONNX file that a program needs, as plain values. Bytes of weights stay in the
// file (ByteRange).
// Values. Threads: any, const. Source: onnx.proto of the ONNX project, IR version 10.
#pragma once

#include "modules/onnx/file/wire_reader.hpp"

#include <hearth/modules/onnx_type.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::onnx {

/// Place of a tensor's bytes in another file.
struct ExternalData {
  std::string location;  ///< Relative to the model's folder.
  std::int64_t offset_bytes = 0;
  std::optional<std::int64_t> size_bytes = {};
};

struct TensorProto {
  std::string name;
  std::int64_t type_number = 0;
  std::vector<std::int64_t> dims = {};
  std::optional<ByteRange> raw = {};
  std::vector<float> reals = {};
  std::vector<double> doubles = {};
  /// Elements of int32_data, int64_data or uint64_data. f16 and bf16 are given by their bits.
  std::vector<std::int64_t> integers = {};
  std::vector<ByteRange> strings = {};
  std::optional<ExternalData> external = {};

  [[nodiscard]] OnnxType type() const noexcept { return onnx_type_of(type_number); }
};

struct GraphProto;

/// Declared kind of a value.
enum class ValueKind : std::uint8_t { tensor, sequence, optional, other };

struct TypeProto {
  ValueKind kind = ValueKind::tensor;
  OnnxType type = OnnxType::undefined;  ///< Element type, also in sequences and optionals.
  std::int64_t type_number = 0;
  /// Sizes; -1: unknown or named. Empty: the rank is unknown.
  std::optional<std::vector<std::int64_t>> dims = {};
  std::vector<std::string> dim_names = {};  ///< Name of each axis, or empty.
};

struct ValueInfo {
  std::string name;
  TypeProto type = {};
};

struct AttributeProto {
  std::string name;
  std::string reference = {};  ///< Attribute of the enclosing function that is meant.
  std::optional<float> real = {};
  std::optional<std::int64_t> integer = {};
  std::optional<ByteRange> text = {};
  std::shared_ptr<const TensorProto> tensor = {};
  std::shared_ptr<const GraphProto> graph = {};
  std::vector<float> reals = {};
  std::vector<std::int64_t> integers = {};
  std::vector<ByteRange> texts = {};
  bool has_sparse_tensor = false;
  std::int64_t type_number = 0;
  std::shared_ptr<const TypeProto> type = {};
};

struct NodeProto {
  std::string name;
  std::string op;
  std::string domain;
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<AttributeProto> attributes = {};
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes = {};
  std::vector<TensorProto> initialisers = {};
  bool has_sparse_initialisers = false;
  std::vector<ValueInfo> inputs = {};
  std::vector<ValueInfo> outputs = {};
  std::vector<ValueInfo> values = {};  ///< Types of inner values, where the file states them.
};

/// Version of each domain's ops; "" is the domain of ONNX itself.
using OpsetVersions = std::map<std::string, std::int64_t>;

/// An op that the file defines by a graph of others.
struct FunctionProto {
  std::string name;
  std::string domain;
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<NodeProto> nodes = {};
  std::vector<AttributeProto> defaults = {};  ///< Attributes with their default values.
  OpsetVersions opsets = {};
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string producer = {};
  OpsetVersions opsets = {};
  GraphProto graph = {};
  std::vector<FunctionProto> functions = {};
  std::map<std::string, std::string> metadata = {};
};

/// Returns the domain under which the tables list an op: "" also for "ai.onnx".
[[nodiscard]] inline std::string_view plain_domain(std::string_view domain) noexcept {
  return domain == "ai.onnx" ? std::string_view{} : domain;
}

}  // namespace hearth::onnx
