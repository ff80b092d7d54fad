#include "plan_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "modules/onnx/file/onnx_parser.hpp"
#include "modules/onnx/graph/host_analysis.hpp"
#include "modules/onnx/graph/node_order.hpp"

namespace hearth::onnx {
namespace {

constexpr std::int64_t kNewestOpset = 23;

// Values of functions' attributes, by name.
using Bindings = std::map<std::string, Attribute, std::less<>>;

// One graph under construction.
struct Scope {
  Plan* plan = nullptr;
  std::map<std::string, ValueRef, std::less<>> names = {};
  std::map<std::string, OnnxType, std::less<>> types = {};
  Scope* outer = nullptr;  // whose values the graph may use; null for functions
  int nesting = 1;
  const OpsetVersions* opsets = nullptr;
  const Bindings* bindings = nullptr;  // of the function that the graph belongs to
};

class Builder final {
 public:
  Builder(const ModelFile& file, const OpTable& table, ProblemList& problems, BuiltProgram& result)
      : file_(file), table_(table), problems_(problems), result_(result) {}

  void build();

 private:
  void check_opsets(const OpsetVersions& opsets);
  void check_functions();
  void fill(Scope& scope, const GraphProto& graph);
  void add_input(Scope& scope, const ValueInfo& input);
  void add_initialiser(Scope& scope, const TensorProto& tensor);
  void add_nodes(Scope& scope,
                 const std::vector<NodeProto>& nodes,
                 const std::vector<std::string>& wanted);
  void add_node(Scope& scope, const NodeProto& node, const std::set<std::string>& used);
  bool add_constant(Scope& scope, const NodeProto& node);
  void add_outputs(Scope& scope, const GraphProto& graph);
  void find_row(PlanNode& node, const NodeProto& proto, const Scope& scope);
  [[nodiscard]] NodeInfo info_of(Scope& scope, const NodeProto& node);
  std::optional<Attribute> decoded(Scope& scope, const NodeProto& node, const AttributeProto& from);
  [[nodiscard]] Attribute plain_value(const AttributeProto& from) const;
  [[nodiscard]] std::shared_ptr<const HostArray> tensor_value(const TensorProto& tensor) const;
  [[nodiscard]] std::shared_ptr<const HostArray> constant_value(const NodeInfo& info) const;
  [[nodiscard]] std::shared_ptr<const Plan> body(Scope& scope,
                                                 const NodeProto& node,
                                                 const GraphProto& graph);
  bool add_call(Scope& scope, const NodeProto& node, const std::set<std::string>& used);
  [[nodiscard]] const FunctionProto* function_of(const NodeProto& node) const;
  [[nodiscard]] ValueRef resolve(const Scope& scope, const std::string& name) const;
  [[nodiscard]] ValueRef new_constant(ConstantSource source);
  void place_outputs(Scope& scope,
                     const std::vector<std::string>& names,
                     PlanNode& node,
                     const std::set<std::string>& used);
  void report(const NodeProto& node, const Scope& scope, std::string reason, std::string_view help);
  void report_file(std::string reason, std::string_view help, std::string_view name);
  [[nodiscard]] static std::int64_t opset_of(const Scope& scope, const std::string& domain);
  [[nodiscard]] static std::string name_of(const NodeProto& node);

  const ModelFile& file_;
  const OpTable& table_;
  ProblemList& problems_;
  BuiltProgram& result_;
};

std::string Builder::name_of(const NodeProto& node) {
  if (!node.name.empty()) {
    return node.name;
  }
  for (const std::string& output : node.outputs) {
    if (!output.empty()) {
      return output;
    }
  }
  return node.op;
}

std::int64_t Builder::opset_of(const Scope& scope, const std::string& domain) {
  const auto at = scope.opsets->find(domain);
  return at == scope.opsets->end() ? 1 : at->second;
}

void Builder::report(const NodeProto& node,
                     const Scope& scope,
                     std::string reason,
                     std::string_view help) {
  problems_.add({.op = node.op,
                 .domain = node.domain,
                 .opset = opset_of(scope, node.domain),
                 .reason = std::move(reason),
                 .help = std::string(help)},
                name_of(node));
}

void Builder::report_file(std::string reason, std::string_view help, std::string_view name) {
  problems_.add({.reason = std::move(reason), .help = std::string(help)}, name);
}

void Builder::check_opsets(const OpsetVersions& opsets) {
  const auto own = opsets.find("");
  if (own != opsets.end() && own->second > kNewestOpset) {
    report_file(fmt::format("opset {} is newer than {}", own->second, kNewestOpset),
                "export the model with an older opset",
                "");
  }
  for (const auto& [domain, version] : opsets) {
    if (version < 1) {
      report_file(fmt::format("domain '{}' has opset {}, below 1", domain, version),
                  "export the model again",
                  domain);
    }
  }
}

// A function that calls itself would never end.
void Builder::check_functions() {
  const std::vector<FunctionProto>& functions = file_.model().functions;
  for (const FunctionProto& function : functions) {
    check_opsets(function.opsets);
  }
}

void Builder::build() {
  const ModelProto& model = file_.model();
  check_opsets(model.opsets);
  check_functions();
  result_.program = std::make_shared<Program>();
  Scope scope{.plan = &result_.program->plan, .opsets = &model.opsets};
  fill(scope, model.graph);
  result_.sync_points = analyse_hosts(result_.program->plan, result_.constants);
}

ValueRef Builder::new_constant(ConstantSource source) {
  result_.constants.push_back(std::move(source));
  return {.kind = ValueRef::Kind::constant,
          .index = static_cast<std::uint32_t>(result_.constants.size() - 1)};
}

void Builder::add_input(Scope& scope, const ValueInfo& input) {
  const bool is_known = input.type.kind == ValueKind::other ||
                        (input.type.type != OnnxType::string &&
                         input.type.type != OnnxType::undefined && !device_type(input.type.type));
  if (is_known) {
    report_file(
        fmt::format("an input is {} of {}",
                    input.type.kind == ValueKind::other ? "a map or sparse tensor" : "a tensor",
                    name(input.type.type)),
        "change the input's type before the export",
        input.name);
  }
  const std::uint32_t place = scope.plan->place_count++;
  scope.plan->inputs.push_back({input.name, input.type});
  scope.types[input.name] = input.type.type;
  if (!scope.names.emplace(input.name, ValueRef{ValueRef::Kind::local, false, 0, place}).second) {
    report_file("two values have this name", "export the model again", input.name);
  }
}

void Builder::add_initialiser(Scope& scope, const TensorProto& tensor) {
  const std::string problem = file_.problem(tensor);
  if (!problem.empty()) {
    report_file(fmt::format("a constant cannot be read: {}", problem),
                "export the model again with types and shapes that the list allows",
                tensor.name);
  }
  ConstantSource source{
      .name = tensor.name, .proto = &tensor, .type = tensor.type(), .is_initialiser = true};
  if (problem.empty()) {
    source.shape = Shape(tensor.dims);
  }
  scope.types[tensor.name] = tensor.type();
  if (!scope.names.emplace(tensor.name, new_constant(std::move(source))).second) {
    report_file("two values have this name", "export the model again", tensor.name);
  }
}

void Builder::fill(Scope& scope, const GraphProto& graph) {
  std::set<std::string_view> initialised;
  for (const TensorProto& tensor : graph.initialisers) {
    initialised.insert(tensor.name);
  }
  for (const ValueInfo& input : graph.inputs) {
    if (!initialised.contains(input.name)) {  // before IR 4 files list initialisers as inputs too
      add_input(scope, input);
    }
  }
  for (const TensorProto& tensor : graph.initialisers) {
    add_initialiser(scope, tensor);
  }
  if (graph.has_sparse_initialisers) {
    report_file("sparse initialisers are not supported", "export dense weights", graph.name);
  }
  std::vector<std::string> wanted;
  for (const ValueInfo& output : graph.outputs) {
    wanted.push_back(output.name);
  }
  add_nodes(scope, graph.nodes, wanted);
  add_outputs(scope, graph);
}

void Builder::add_nodes(Scope& scope,
                        const std::vector<NodeProto>& nodes,
                        const std::vector<std::string>& wanted) {
  const NodeOrder order = order_nodes(nodes, wanted);
  for (const std::size_t i : order.cyclic) {
    report(nodes[i], scope, "the node's inputs depend on its own result", "export the model again");
  }
  for (const std::string& repeated : order.repeated) {
    report_file("two nodes have a result of this name", "export the model again", repeated);
  }
  for (const std::size_t i : order.nodes) {
    add_node(scope, nodes[i], order.used);
  }
}

void Builder::add_outputs(Scope& scope, const GraphProto& graph) {
  if (graph.outputs.empty() && scope.outer == nullptr) {
    report_file("the graph has no result", "export the model again", graph.name);
  }
  for (const ValueInfo& output : graph.outputs) {
    const ValueRef ref = resolve(scope, output.name);
    if (ref.kind == ValueRef::Kind::none) {
      report_file(
          "no node computes this result of the graph", "export the model again", output.name);
    }
    scope.plan->outputs.push_back(ref);
    scope.plan->output_names.push_back(output.name);
    scope.plan->output_types.push_back(output.type);
  }
}

ValueRef Builder::resolve(const Scope& scope, const std::string& wanted) const {
  std::uint16_t depth = 0;
  for (const Scope* at = &scope; at != nullptr; at = at->outer, ++depth) {
    const auto found = at->names.find(wanted);
    if (found == at->names.end()) {
      continue;
    }
    ValueRef ref = found->second;
    if (ref.kind == ValueRef::Kind::local && depth > 0) {
      ref.kind = ValueRef::Kind::outer;
      ref.depth = depth;
    }
    return ref;
  }
  return {};
}

std::shared_ptr<const Plan> Builder::body(Scope& scope,
                                          const NodeProto& node,
                                          const GraphProto& graph) {
  auto plan = std::make_shared<Plan>();
  if (scope.nesting >= kMostNesting) {
    report(node, scope, fmt::format("graphs nest more than {} deep", kMostNesting), "");
    return plan;
  }
  Scope inner{.plan = plan.get(),
              .outer = &scope,
              .nesting = scope.nesting + 1,
              .opsets = scope.opsets,
              .bindings = scope.bindings};
  fill(inner, graph);
  return plan;
}

// Numbers, texts and lists of them. Older files state no type, so the filled field decides.
Attribute Builder::plain_value(const AttributeProto& from) const {
  constexpr std::int64_t kReal = 1;
  constexpr std::int64_t kInteger = 2;
  constexpr std::int64_t kText = 3;
  constexpr std::int64_t kReals = 6;
  constexpr std::int64_t kTexts = 8;
  Attribute to{.name = from.name, .value = from.integers};
  if (from.type_number == kInteger || (from.integer && !from.real)) {
    to.value = from.integer.value_or(0);
  } else if (from.type_number == kReal || from.real) {
    to.value = static_cast<double>(from.real.value_or(0));
  } else if (from.type_number == kText || from.text) {
    to.value = from.text ? file_.text(*from.text) : std::string{};
  } else if (from.type_number == kReals || !from.reals.empty()) {
    to.value = std::vector<double>(from.reals.begin(), from.reals.end());
  } else if (from.type_number == kTexts || !from.texts.empty()) {
    std::vector<std::string> texts;
    for (const ByteRange& range : from.texts) {
      texts.push_back(file_.text(range));
    }
    to.value = std::move(texts);
  }
  return to;
}

std::shared_ptr<const HostArray> Builder::tensor_value(const TensorProto& tensor) const {
  if (tensor.type() == OnnxType::string) {
    std::vector<std::string> strings = file_.strings(tensor, {});  // refuses a bad shape
    return std::make_shared<const HostArray>(host_strings(std::move(strings), Shape(tensor.dims)));
  }
  return std::make_shared<const HostArray>(host_array_of(file_.tensor(tensor, {}), tensor.type()));
}

// Empty for an attribute that cannot be read, and for one that the caller of a function omitted.
std::optional<Attribute> Builder::decoded(Scope& scope,
                                          const NodeProto& node,
                                          const AttributeProto& from) {
  Attribute to{.name = from.name, .value = std::int64_t{0}};
  if (!from.reference.empty()) {
    if (scope.bindings == nullptr || !scope.bindings->contains(from.reference)) {
      return {};
    }
    to.value = scope.bindings->find(from.reference)->second.value;
  } else if (from.graph != nullptr) {
    to.value = body(scope, node, *from.graph);
  } else if (from.tensor != nullptr) {
    if (const std::string why = file_.problem(*from.tensor); !why.empty()) {
      report(node, scope, fmt::format("attribute {}: {}", from.name, why), "export it differently");
      return {};
    }
    to.value = tensor_value(*from.tensor);
  } else if (from.has_sparse_tensor) {
    report(node, scope, fmt::format("attribute {} is a sparse tensor", from.name), "make it dense");
    return {};
  } else if (from.type != nullptr) {
    to.value = *from.type;
  } else {
    return plain_value(from);
  }
  return to;
}

NodeInfo Builder::info_of(Scope& scope, const NodeProto& node) {
  NodeInfo info{.name = name_of(node),
                .op = node.op,
                .domain = node.domain,
                .opset = opset_of(scope, node.domain),
                .input_count = node.inputs.size()};
  for (const AttributeProto& attribute : node.attributes) {
    std::optional<Attribute> value = decoded(scope, node, attribute);
    if (value) {
      info.attributes.push_back(std::move(*value));
    }
  }
  return info;
}

// The value of a Constant node; null without one.
std::shared_ptr<const HostArray> Builder::constant_value(const NodeInfo& info) const {
  const auto shape_of = [](const auto& list) {
    return Shape{static_cast<std::int64_t>(list.size())};
  };
  const auto share = [](HostArray array) {
    return std::make_shared<const HostArray>(std::move(array));
  };
  if (const auto* array = info.attribute<std::shared_ptr<const HostArray>>("value")) {
    return *array;
  }
  if (const auto* real = info.attribute<double>("value_float")) {
    return share(host_reals({*real}, {}, OnnxType::f32));
  }
  if (const auto* reals = info.attribute<std::vector<double>>("value_floats")) {
    return share(host_reals(*reals, shape_of(*reals), OnnxType::f32));
  }
  if (const auto* integer = info.attribute<std::int64_t>("value_int")) {
    return share(host_integers({*integer}, Shape{}));
  }
  if (const auto* integers = info.integers("value_ints")) {
    return share(host_integers(*integers));
  }
  if (const auto* text = info.attribute<std::string>("value_string")) {
    return share(host_strings({*text}, {}));
  }
  const auto* const texts = info.attribute<std::vector<std::string>>("value_strings");
  return texts == nullptr ? nullptr : share(host_strings(*texts, shape_of(*texts)));
}

// Results of Constant nodes are constants of the program, not nodes.
bool Builder::add_constant(Scope& scope, const NodeProto& node) {
  if (node.op != "Constant" || !node.domain.empty() || node.outputs.size() != 1) {
    return false;
  }
  ConstantSource source{.name = node.outputs.front(), .host = constant_value(info_of(scope, node))};
  if (source.host == nullptr) {
    report(node, scope, "no attribute with a value that this library reads", "export it as dense");
    source.host = std::make_shared<const HostArray>(host_reals({0}, {}, OnnxType::f32));
  }
  source.type = source.host->type;
  source.shape = source.host->shape;
  scope.types[source.name] = source.type;
  const std::string constant = source.name;
  scope.names.emplace(constant, new_constant(std::move(source)));
  return true;
}

const FunctionProto* Builder::function_of(const NodeProto& node) const {
  for (const FunctionProto& function : file_.model().functions) {
    if (function.name == node.op && function.domain == node.domain) {
      return &function;
    }
  }
  return nullptr;
}

// A call of a function of the file becomes a node with the function's graph as its body.
bool Builder::add_call(Scope& scope, const NodeProto& node, const std::set<std::string>& used) {
  const FunctionProto* const function = function_of(node);
  if (function == nullptr) {
    return false;
  }
  PlanNode call{.info = info_of(scope, node), .row = &table_.function_call()};
  if (scope.nesting >= kMostNesting) {
    report(node, scope, fmt::format("functions nest more than {} deep", kMostNesting), "");
    return true;
  }
  Bindings bindings;
  for (const AttributeProto& attribute : function->defaults) {
    if (std::optional<Attribute> value = decoded(scope, node, attribute)) {
      bindings.insert_or_assign(attribute.name, std::move(*value));
    }
  }
  for (const Attribute& attribute : call.info.attributes) {
    bindings.insert_or_assign(attribute.name, attribute);
  }
  auto plan = std::make_shared<Plan>();
  Scope inner{.plan = plan.get(),
              .nesting = scope.nesting + 1,
              .opsets = function->opsets.empty() ? scope.opsets : &function->opsets,
              .bindings = &bindings};
  for (const std::string& input : function->inputs) {
    add_input(inner, ValueInfo{.name = input});
  }
  add_nodes(inner, function->nodes, function->outputs);
  for (const std::string& output : function->outputs) {
    plan->outputs.push_back(resolve(inner, output));
    plan->output_names.push_back(output);
  }
  call.info.attributes = {
      Attribute{.name = "body", .value = std::shared_ptr<const Plan>(std::move(plan))}};
  for (const std::string& input : node.inputs) {
    call.inputs.push_back(input.empty() ? ValueRef{} : resolve(scope, input));
  }
  place_outputs(scope, node.outputs, call, used);
  scope.plan->nodes.push_back(std::move(call));
  return true;
}

void Builder::place_outputs(Scope& scope,
                            const std::vector<std::string>& names,
                            PlanNode& node,
                            const std::set<std::string>& used) {
  for (const std::string& output : names) {
    const bool is_used = !output.empty() && used.contains(output);
    node.info.is_wanted.push_back(is_used);
    node.outputs.push_back(is_used ? static_cast<std::int64_t>(scope.plan->place_count) : -1);
    if (is_used) {
      const ValueRef ref{ValueRef::Kind::local, false, 0, scope.plan->place_count++};
      if (!scope.names.emplace(output, ref).second) {
        report_file("two values have this name", "export the model again", output);
      }
    }
  }
}

void Builder::find_row(PlanNode& node, const NodeProto& proto, const Scope& scope) {
  const OpTable::Found found = table_.find(node.info.domain, node.info.op, node.info.opset);
  node.row = found.row;
  if (found.row == nullptr) {
    report(proto, scope, found.reason, found.help);
    return;
  }
  if (!found.row->refusal.empty()) {
    report(proto, scope, std::string(found.row->refusal), found.row->help);
    return;
  }
  if (found.row->check != nullptr) {
    if (std::string why = found.row->check(node.info); !why.empty()) {
      report(proto, scope, std::move(why), found.row->help);
    }
  }
}

void Builder::add_node(Scope& scope, const NodeProto& node, const std::set<std::string>& used) {
  ++result_.node_count;
  ++result_.ops[node.domain.empty() ? node.op : node.domain + "." + node.op];
  if (add_constant(scope, node)) {
    return;
  }
  const bool is_own = table_.has(node.domain, node.op);
  if (!is_own && add_call(scope, node, used)) {
    return;
  }
  PlanNode planned{.info = info_of(scope, node)};
  for (const std::string& input : node.inputs) {
    planned.inputs.push_back(input.empty() ? ValueRef{} : resolve(scope, input));
    if (!input.empty() && planned.inputs.back().kind == ValueRef::Kind::none) {
      report(node,
             scope,
             fmt::format("no node computes its input '{}'", input),
             "export the model again");
    }
  }
  place_outputs(scope, node.outputs, planned, used);
  find_row(planned, node, scope);
  if (planned.row != nullptr && planned.row->refusal.empty()) {
    scope.plan->nodes.push_back(std::move(planned));
  }
}

}  // namespace

BuiltProgram build_program(const ModelFile& file, const OpTable& table, ProblemList& problems) {
  BuiltProgram result;
  Builder(file, table, problems, result).build();
  return result;
}

}  // namespace hearth::onnx
