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
  [[nodiscard]] FunctionProto function(ByteRange part);
  [[nodiscard]] ValueInfo value_info(ByteRange part);
  [[nodiscard]] TypeProto type(ByteRange part, int depth = 0);
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

TensorProto Parser::tensor(ByteRange part) {
  TensorProto result;
  std::int64_t location = 0;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        in.integers(result.dims);
        break;
      case 2:
        result.type_number = in.integer();
        break;
      case 4:
        in.reals(result.reals);
        break;
      case 5:
      case 7:
      case 11:
        in.integers(result.integers);
        break;
      case 6:
        if (++messages_ > kMostMessages) {
          refuse_bytes(fmt::format("the file has more than {} strings", kMostMessages));
        }
        result.strings.push_back(in.bytes());
        break;
      case 8:
        result.name = in.text();
        break;
      case 9:
        result.raw = in.bytes();
        break;
      case 10:
        in.doubles(result.doubles);
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
  if (result.dims.size() > kMostAxes) {
    refuse_bytes(fmt::format("tensor '{}' has {} axes", result.name, result.dims.size()));
  }
  if (location == 0) {
    result.external.reset();
  } else if (!result.external || result.external->location.empty()) {
    refuse_bytes(fmt::format("tensor '{}' lies in another file without a name", result.name));
  }
  return result;
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

TypeProto Parser::type(ByteRange part, int depth) {
  if (depth > kMostNesting) {
    refuse_bytes(fmt::format("a type nests more than {} deep", kMostNesting));
  }
  TypeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    const int field = in.field();
    if (field == 1 || field == 8) {  // a tensor, dense or sparse
      result.kind = field == 1 ? ValueKind::tensor : ValueKind::other;
      WireReader dense = reader(in.bytes());
      while (dense.next()) {
        if (dense.field() == 1) {
          result.type_number = dense.integer();
          result.type = onnx_type_of(result.type_number);
        } else if (dense.field() == 2) {
          shape(dense.bytes(), result);
        } else {
          dense.skip();
        }
      }
    } else if (field == 4 || field == 9) {  // a sequence or an optional of another type
      WireReader outer = reader(in.bytes());
      while (outer.next()) {
        if (outer.field() == 1) {
          result = type(outer.bytes(), depth + 1);
        } else {
          outer.skip();
        }
      }
      result.kind = field == 4 ? ValueKind::sequence : ValueKind::optional;
    } else {
      if (field == 5) {
        result.kind = ValueKind::other;  // a map
      }
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

AttributeProto Parser::attribute(ByteRange part) {
  AttributeProto result;
  WireReader in = reader(part);
  while (in.next()) {
    switch (in.field()) {
      case 1:
        result.name = in.text();
        break;
      case 2:
        result.real = in.real();
        break;
      case 3:
        result.integer = in.integer();
        break;
      case 4:
        result.text = in.bytes();
        break;
      case 5:
        result.tensor = std::make_shared<const TensorProto>(tensor(in.bytes()));
        break;
      case 6:
        result.graph = std::make_shared<const GraphProto>(graph(in.bytes()));
        break;
      case 7:
        in.reals(result.reals);
        break;
      case 8:
        in.integers(result.integers);
        break;
      case 9:
        if (++messages_ > kMostMessages) {
          refuse_bytes(fmt::format("the file has more than {} strings", kMostMessages));
        }
        result.texts.push_back(in.bytes());
        break;
      case 14:
        result.type = std::make_shared<const TypeProto>(type(in.bytes()));
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
