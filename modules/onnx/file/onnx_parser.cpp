#include "onnx_parser.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>

namespace hearth::onnx {
namespace {

constexpr std::size_t kMostAxes = 64;

// Counts messages and nesting of one file.
class Parser final {
 public:
  explicit Parser(std::span<const std::byte> file) : file_(file) {}

  [[nodiscard]] WireReader reader(ByteRange part) {
    if (++messages_ > kMostMessages) {
      refuse_bytes(fmt::format("the file has more than {} messages", kMostMessages));
    }
    return {file_, part};
  }
  [[nodiscard]] ByteRange whole() const noexcept { return {0, file_.size()}; }

  [[nodiscard]] ModelProto model();
  [[nodiscard]] TensorProto tensor(ByteRange part);
  [[nodiscard]] std::string long_text(ByteRange part) const {
    const std::span<const std::byte> bytes = file_.subspan(part.begin, part.size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  [[nodiscard]] GraphProto graph(ByteRange part);
  [[nodiscard]] NodeProto node(ByteRange part);
  [[nodiscard]] AttributeProto attribute(ByteRange part);
  [[nodiscard]] bool attribute_value(WireReader& in, AttributeProto& to);
  [[nodiscard]] bool elements(WireReader& in, TensorProto& to);
  static void check_tensor(TensorProto& tensor, bool is_external);
  [[nodiscard]] FunctionProto function(ByteRange part);
  [[nodiscard]] ValueInfo value_info(ByteRange part);
  [[nodiscard]] TypeProto type(ByteRange part, int depth = 0);
  [[nodiscard]] TypeProto inner_type(ByteRange part, int depth);
  void tensor_type(ByteRange part, TypeProto& to);
  void shape(ByteRange part, TypeProto& to);
  void external(ByteRange part, TensorProto& to);
  void opset(ByteRange part, OpsetVersions& to);
  [[nodiscard]] std::pair<std::string, std::string> entry(ByteRange part);
  void add_name(std::vector<std::string>& to, WireReader& from) {
    if (++messages_ > kMostMessages) {
      refuse_bytes(fmt::format("the file has more than {} names", kMostMessages));
    }
    to.push_back(from.text());
  }
  void add_range(std::vector<ByteRange>& to, WireReader& from) {
    if (++messages_ > kMostMessages) {
      refuse_bytes(fmt::format("the file has more than {} strings", kMostMessages));
    }
    to.push_back(from.bytes());
  }

  std::span<const std::byte> file_;
  std::size_t messages_ = 0;
  int nesting_ = 0;
};

std::pair<std::string, std::string> Parser::entry(ByteRange part) {
  std::pair<std::string, std::string> result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        result.first = in.text();
        break;
      case 2:
        result.second = long_text(in.bytes());
        break;
      default:
        in.skip();
    }
  }
  return result;
}

std::int64_t parsed_number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    refuse_bytes(fmt::format("external data: {} is '{}', no count of bytes", key, text));
  }
  return value;
}

void Parser::external(ByteRange part, TensorProto& to) {
  if (!to.external) {
    to.external.emplace();
  }
  const auto [key, value] = entry(part);
  if (key == "location") {
    to.external->location = value;
  } else if (key == "offset") {
    to.external->offset_bytes = parsed_number(key, value);
  } else if (key == "length") {
    to.external->size_bytes = parsed_number(key, value);
  }
}

// Fields with elements. Returns false for other fields.
bool Parser::elements(WireReader& in, TensorProto& to) {
  switch (in.field()) {
    case 4:
      in.reals(to.reals);
      return true;
    case 5:
    case 7:
    case 11:
      in.integers(to.integers);
      return true;
    case 6:
      add_range(to.strings, in);
      return true;
    case 9:
      to.raw = in.bytes();
      return true;
    case 10:
      in.doubles(to.doubles);
      return true;
    default:
      return false;
  }
}

TensorProto Parser::tensor(ByteRange part) {
  TensorProto result;
  std::int64_t location = 0;
  WireReader in = reader(part);
  while (in.next()) {
    if (elements(in, result)) {
      continue;
    }
    switch (in.field()) {
      case 1:
        in.integers(result.dims);
        break;
      case 2:
        result.type_number = in.integer();
        break;
      case 8:
        result.name = in.text();
        break;
      case 13:
        external(in.bytes(), result);
        break;
      case 14:
        location = in.integer();
        break;
      default:
        in.skip();
    }
  }
  check_tensor(result, location != 0);
  return result;
}

void Parser::check_tensor(TensorProto& tensor, bool is_external) {
  if (tensor.dims.size() > kMostAxes) {
    refuse_bytes(fmt::format("tensor '{}' has {} axes", tensor.name, tensor.dims.size()));
  }
  if (!is_external) {
    tensor.external.reset();
  } else if (!tensor.external || tensor.external->location.empty()) {
    refuse_bytes(fmt::format("tensor '{}' lies in another file without a name", tensor.name));
  }
}

void Parser::shape(ByteRange part, TypeProto& to) {
  to.dims.emplace();
  WireReader in = reader(part);
  while (in.next()) {
    if (in.field() != 1) {
      in.skip();
      continue;
    }
    std::int64_t size = -1;
    std::string axis_name;
    WireReader dim = reader(in.bytes());
    while (dim.next()) {
      if (dim.field() == 1) {
        size = dim.integer();
      } else if (dim.field() == 2) {
        axis_name = dim.text();
      } else {
        dim.skip();
      }
    }
    to.dims->push_back(size);
    to.dim_names.push_back(std::move(axis_name));
  }
}

void Parser::tensor_type(ByteRange part, TypeProto& to) {
  WireReader in = reader(part);
  while (in.next()) {
    if (in.field() == 1) {
      to.type_number = in.integer();
      to.type = onnx_type_of(to.type_number);
    } else if (in.field() == 2) {
      shape(in.bytes(), to);
    } else {
      in.skip();
    }
  }
}

TypeProto Parser::type(ByteRange part, int depth) {
  if (depth > kMostNesting) {
    refuse_bytes(fmt::format("a type nests more than {} deep", kMostNesting));
  }
  TypeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        tensor_type(in.bytes(), result);
        break;
      case 8:  // a sparse tensor
        tensor_type(in.bytes(), result);
        result.kind = ValueKind::other;
        break;
      case 4:
        result = inner_type(in.bytes(), depth);
        result.kind = ValueKind::sequence;
        break;
      case 9:
        result = inner_type(in.bytes(), depth);
        result.kind = ValueKind::optional;
        break;
      case 5:  // a map
        result.kind = ValueKind::other;
        in.skip();
        break;
      default:
        in.skip();
    }
  }
  return result;
}

// The type of the values in a sequence or an optional.
TypeProto Parser::inner_type(ByteRange part, int depth) {
  TypeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    if (in.field() == 1) {
      result = type(in.bytes(), depth + 1);
    } else {
      in.skip();
    }
  }
  return result;
}

ValueInfo Parser::value_info(ByteRange part) {
  ValueInfo result;
  WireReader in = reader(part);
  while (in.next()) {
    if (in.field() == 1) {
      result.name = in.text();
    } else if (in.field() == 2) {
      result.type = type(in.bytes());
    } else {
      in.skip();
    }
  }
  return result;
}

// Fields with values. Returns false for other fields.
bool Parser::attribute_value(WireReader& in, AttributeProto& to) {
  switch (in.field()) {
    case 2:
      to.real = in.real();
      return true;
    case 3:
      to.integer = in.integer();
      return true;
    case 4:
      to.text = in.bytes();
      return true;
    case 5:
      to.tensor = std::make_shared<const TensorProto>(tensor(in.bytes()));
      return true;
    case 6:
      to.graph = std::make_shared<const GraphProto>(graph(in.bytes()));
      return true;
    case 7:
      in.reals(to.reals);
      return true;
    case 8:
      in.integers(to.integers);
      return true;
    case 9:
      add_range(to.texts, in);
      return true;
    case 14:
      to.type = std::make_shared<const TypeProto>(type(in.bytes()));
      return true;
    default:
      return false;
  }
}

AttributeProto Parser::attribute(ByteRange part) {
  AttributeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    if (attribute_value(in, result)) {
      continue;
    }
    switch (in.field()) {
      case 1:
        result.name = in.text();
        break;
      case 20:
        result.type_number = in.integer();
        break;
      case 21:
        result.reference = in.text();
        break;
      case 22:
        result.has_sparse_tensor = true;
        in.skip();
        break;
      default:
        in.skip();
    }
  }
  return result;
}

NodeProto Parser::node(ByteRange part) {
  NodeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        add_name(result.inputs, in);
        break;
      case 2:
        add_name(result.outputs, in);
        break;
      case 3:
        result.name = in.text();
        break;
      case 4:
        result.op = in.text();
        break;
      case 5:
        result.attributes.push_back(attribute(in.bytes()));
        break;
      case 7:
        result.domain = plain_domain(in.text());
        break;
      default:
        in.skip();
    }
  }
  return result;
}

GraphProto Parser::graph(ByteRange part) {
  if (++nesting_ > kMostNesting) {
    refuse_bytes(fmt::format("graphs nest more than {} deep", kMostNesting));
  }
  GraphProto result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        result.nodes.push_back(node(in.bytes()));
        break;
      case 2:
        result.name = in.text();
        break;
      case 5:
        result.initialisers.push_back(tensor(in.bytes()));
        break;
      case 11:
        result.inputs.push_back(value_info(in.bytes()));
        break;
      case 12:
        result.outputs.push_back(value_info(in.bytes()));
        break;
      case 13:
        result.values.push_back(value_info(in.bytes()));
        break;
      case 15:
        result.has_sparse_initialisers = true;
        in.skip();
        break;
      default:
        in.skip();
    }
  }
  --nesting_;
  return result;
}

void Parser::opset(ByteRange part, OpsetVersions& to) {
  std::string domain;
  std::int64_t version = 0;
  WireReader in = reader(part);
  while (in.next()) {
    if (in.field() == 1) {
      domain = plain_domain(in.text());
    } else if (in.field() == 2) {
      version = in.integer();
    } else {
      in.skip();
    }
  }
  to[domain] = version;
}

FunctionProto Parser::function(ByteRange part) {
  FunctionProto result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        result.name = in.text();
        break;
      case 4:
        add_name(result.inputs, in);
        break;
      case 5:
        add_name(result.outputs, in);
        break;
      case 7:
        result.nodes.push_back(node(in.bytes()));
        break;
      case 9:
        opset(in.bytes(), result.opsets);
        break;
      case 10:
        result.domain = plain_domain(in.text());
        break;
      case 11:
        result.defaults.push_back(attribute(in.bytes()));
        break;
      default:
        in.skip();
    }
  }
  return result;
}

ModelProto Parser::model() {
  ModelProto result;
  bool has_graph = false;
  WireReader in = reader(whole());
  while (in.next()) {
    switch (in.field()) {
      case 1:
        result.ir_version = in.integer();
        break;
      case 2:
        result.producer = in.text();
        break;
      case 7:
        result.graph = graph(in.bytes());
        has_graph = true;
        break;
      case 8:
        opset(in.bytes(), result.opsets);
        break;
      case 14:
        result.metadata.insert(entry(in.bytes()));
        break;
      case 25:
        result.functions.push_back(function(in.bytes()));
        break;
      default:
        in.skip();
    }
  }
  if (!has_graph) {
    refuse_bytes("the file has no graph, so it is no ONNX model");
  }
  return result;
}

}  // namespace

ModelProto parse_model(std::span<const std::byte> file) {
  return Parser(file).model();
}

TensorProto parse_tensor(std::span<const std::byte> file) {
  Parser parser(file);
  return parser.tensor(parser.whole());
}

namespace {

std::vector<TensorProto> sequence(Parser& parser, ByteRange part) {
  std::vector<TensorProto> all;
  WireReader in = parser.reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 3:
        all.push_back(parser.tensor(in.bytes()));
        break;
      case 4:
      case 5:
      case 6:
        refuse_bytes("a sequence of sequences, maps or sparse tensors is not supported");
      default:
        in.skip();
    }
  }
  return all;
}

}  // namespace

std::vector<TensorProto> parse_sequence(std::span<const std::byte> file) {
  Parser parser(file);
  return sequence(parser, parser.whole());
}

OptionalProto parse_optional(std::span<const std::byte> file) {
  Parser parser(file);
  OptionalProto result;
  WireReader in = parser.reader(parser.whole());
  while (in.next()) {
    switch (in.field()) {
      case 3:
        result.tensors.push_back(parser.tensor(in.bytes()));
        break;
      case 5:
        result.tensors = sequence(parser, in.bytes());
        result.is_sequence = true;
        break;
      case 4:
      case 6:
        refuse_bytes("an optional sparse tensor or map is not supported");
      default:
        in.skip();
    }
  }
  return result;
}

}  // namespace hearth::onnx
