#include "step_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <hearth/streams/op_table.hpp>

namespace hearth::onnx {
namespace {

// The path of the layer in the path of an op, which ends with a tensor or with "forward".
std::string_view layer_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace

StepCall::StepCall(SavedGraph& graph, std::size_t step)
    : graph_(graph), number_(step), step_(graph.passes.first().steps[step]) {
  const OpTrace& trace = graph.passes.first().trace;
  const OpRecord& record = step_.op->record;
  const CalledAs called = called_as(record.flags);
  op_ = called == CalledAs::itself ? op_info(record.kind).name : called_info(called).name;
  graph_.draft.set_layer(layer_of(trace.paths[record.path.value]));
}

DType StepCall::input_dtype(int i) const {
  return graph_.passes.first().values[value_of(i)].operand.dtype;
}

std::vector<Sizes> StepCall::input_shape(int i) const {
  return graph_.passes.shape(value_of(i));
}

DType StepCall::output_dtype(std::size_t i) const {
  return step_.op->view().output(static_cast<int>(i)).dtype;
}

std::vector<Sizes> StepCall::output_shape(std::size_t i) const {
  std::vector<Sizes> shape;
  for (std::size_t pass = 0; pass < pass_count(); ++pass) {
    const RecordedPass& its = graph_.passes.pass(pass);
    const Shape& one = its.trace.shape(its.steps[number_].op->view().output(static_cast<int>(i)));
    shape.resize(static_cast<std::size_t>(one.rank()));
    for (int axis = 0; axis < one.rank(); ++axis) {
      shape[static_cast<std::size_t>(axis)].push_back(one[axis]);
    }
  }
  return shape;
}

const PassStep* StepCall::producer(ValueNumber value, OpKind kind) const {
  const RecordedPass& pass = graph_.passes.first();
  const std::optional<std::size_t> step = pass.values[value].step;
  return step && pass.steps[*step].op->record.kind == kind ? &pass.steps[*step] : nullptr;
}

std::optional<std::string> StepCall::transposed_matrix(int i) const {
  const PassStep* const permute = producer(value_of(i), OpKind::permute);
  if (permute == nullptr || input_rank(i) != 2) {
    return std::nullopt;
  }
  const auto axes = permute->op->view().attributes<PermuteAttributes>().axes;
  return axes[0] == 1 ? std::optional(name_of(permute->inputs.front())) : std::nullopt;
}

bool StepCall::has_equal_attributes() const {
  const std::vector<std::byte> wanted = attribute_bytes(*step_.op);
  for (std::size_t pass = 1; pass < pass_count(); ++pass) {
    if (attribute_bytes(*graph_.passes.pass(pass).steps[number_].op) != wanted) {
      return false;
    }
  }
  return true;
}

std::string StepCall::cast(const std::string& value, DType dtype) {
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(onnx_type_of(dtype))}});
}

// Looks for an axis with these sizes in the values made so far. The inputs were made first.
std::optional<std::string> StepCall::known_size(const Sizes& sizes) {
  if (const auto known = graph_.known_sizes.find(sizes); known != graph_.known_sizes.end()) {
    return known->second;
  }
  for (ValueNumber value = 0; value < graph_.names.size(); ++value) {
    for (int axis = 0; !graph_.names[value].empty() && axis < graph_.passes.rank(value); ++axis) {
      if (graph_.passes.sizes(value, axis) == sizes) {
        std::string name = add("Shape",
                               {graph_.names[value]},
                               {{"start", std::int64_t{axis}}, {"end", std::int64_t{axis} + 1}});
        return graph_.known_sizes.emplace(sizes, std::move(name)).first->second;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> StepCall::multiple_of_known(const Sizes& sizes) {
  const std::int64_t most = sizes.front();
  for (std::int64_t factor = 2; factor <= most; ++factor) {
    Sizes part;
    for (const std::int64_t size : sizes) {
      part.push_back(size % factor == 0 ? size / factor : -1);
    }
    if (const auto known =
            std::ranges::find(part, -1) == part.end() ? known_size(part) : std::nullopt) {
      return add("Mul", {*known, graph_.draft.integers({factor})});
    }
  }
  return std::nullopt;
}

std::string StepCall::size(const Sizes& sizes) {
  if (is_fixed(sizes)) {
    return graph_.draft.integers({sizes.front()});
  }
  if (const auto known = known_size(sizes)) {
    return *known;
  }
  if (const auto multiple = multiple_of_known(sizes)) {
    return *multiple;
  }
  refuse(fmt::format("a size is {} where the named axes have other sizes: no axis has that size",
                     fmt::join(sizes, " or ")),
         "leave the axis without a name, so that its size is fixed");
  return graph_.draft.integers({sizes.front()});
}

std::string StepCall::shape(const std::vector<Sizes>& shape) {
  std::vector<std::int64_t> fixed;
  std::vector<std::string> parts;
  for (const Sizes& sizes : shape) {
    fixed.push_back(sizes.front());
    parts.push_back(is_fixed(sizes) ? std::string() : size(sizes));
  }
  if (std::ranges::all_of(shape, is_fixed)) {
    return graph_.draft.integers(fixed);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = parts[i].empty() ? graph_.draft.integers({fixed[i]}) : parts[i];
  }
  return parts.size() == 1 ? parts.front() : add("Concat", parts, {{"axis", std::int64_t{0}}});
}

void StepCall::result(std::string name, std::size_t output) {
  if (is_needed(output)) {
    graph_.names[*step_.outputs[output]] = std::move(name);
  }
}

// Later steps still have names for their operands, so that they show their own problems.
void StepCall::refuse(std::string reason, std::string help) {
  const OpTrace& trace = graph_.passes.first().trace;
  const std::string& path = trace.paths[step_.op->record.path.value];
  graph_.problems.add(
      {.op = op_, .opset = kSavedOpset, .reason = std::move(reason), .help = std::move(help)},
      path.empty() ? trace.place_of(*step_.op) : path);
  for (const std::optional<ValueNumber>& value : step_.outputs) {
    if (value && graph_.names[*value].empty()) {
      graph_.names[*value] = "?";
    }
  }
}

}  // namespace hearth::onnx
