#include <hearth/modules/onnx_model.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include <hearth/modules/module.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>

#include "modules/onnx/graph/executor.hpp"
#include "modules/onnx/graph/host_cache.hpp"
#include "modules/onnx/loaded_model.hpp"

namespace hearth {
namespace {

using onnx::LoadedModel;
using onnx::Plan;
using onnx::PlanInput;

[[noreturn]] void refuse(std::string text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "OnnxModel: " + std::move(text),
                    .op = "OnnxModel",
                    .location = loc});
}

std::string names_of(const std::vector<PlanInput>& inputs) {
  std::vector<std::string> names;
  for (const PlanInput& input : inputs) {
    names.push_back(input.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string given_text(const OnnxValue& value) {
  return value.is_sequence() ? "a sequence"
                             : fmt::format("{}{}", name(value.type()), value.shape().to_string());
}

// Checks a tensor against the declared type; sizes are those of the call.
void require_type(const PlanInput& input, const OnnxValue& value, SourceLoc loc) {
  const OnnxType wanted = input.type.type;
  const bool is_type = wanted == OnnxType::undefined || value.type() == wanted ||
                       (is_float(wanted) && is_float(value.type())) ||
                       device_type(value.type()) == device_type(wanted);
  // A number may be [] or [1], whatever the file declares.
  const bool is_rank = !input.type.dims || value.shape().element_count() == 1 ||
                       value.shape().rank() == static_cast<int>(input.type.dims->size());
  if (!is_type || !is_rank) {
    refuse(fmt::format("input '{}' is {}, the graph declares {} with {} axes",
                       input.name,
                       given_text(value),
                       name(wanted),
                       input.type.dims ? std::to_string(input.type.dims->size()) : "any"),
           loc);
  }
}

OnnxValue accepted(const PlanInput& input, const OnnxValue& given, SourceLoc loc) {
  if (given.is_none() || given.is_sequence()) {
    const bool is_declared = input.type.kind == onnx::ValueKind::optional ||
                             (given.is_sequence() && input.type.kind == onnx::ValueKind::sequence);
    if (!is_declared) {
      refuse(fmt::format("input '{}' is {}, the graph declares a tensor",
                         input.name,
                         given.is_none() ? "empty" : "a sequence"),
             loc);
    }
    return given;
  }
  const OnnxType wanted = input.type.type;
  if (!given.has_tensor()) {
    const bool is_other = wanted != OnnxType::undefined && given.type() != wanted;
    OnnxValue value = is_other ? OnnxValue(onnx::cast_host(given.host(), wanted)) : given;
    require_type(input, value, loc);
    return value;
  }
  require_type(input, given, loc);
  const bool keeps_type = wanted == OnnxType::undefined || is_float(wanted);
  return {given.tensor(), keeps_type ? OnnxType::undefined : wanted};
}

std::vector<OnnxValue> in_order(const Plan& plan, const OnnxValues& inputs, SourceLoc loc) {
  std::vector<OnnxValue> ordered;
  for (const PlanInput& input : plan.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      if (input.type.kind == onnx::ValueKind::optional) {
        ordered.emplace_back();
        continue;
      }
      refuse(
          fmt::format("input '{}' is missing; the graph has {}", input.name, names_of(plan.inputs)),
          loc);
    }
    ordered.push_back(accepted(input, given->second, loc));
  }
  for (const auto& [name, value] : inputs) {
    const bool is_known = std::ranges::any_of(
        plan.inputs, [&name = name](const PlanInput& input) { return input.name == name; });
    if (!is_known) {
      refuse(fmt::format("the graph has no input '{}'; it has {}", name, names_of(plan.inputs)),
             loc);
    }
  }
  return ordered;
}

// Results on the host become tensors too, so that a program finds each result on the device.
OnnxValue on_device(OnnxValue value, const Device& device, SourceLoc loc) {
  const bool is_held = value.has_host() && !value.has_tensor() && device_type(value.type());
  if (!is_held) {
    return value;
  }
  OnnxValue both(onnx::upload(value.host(), device, loc), value.type());
  both.set_host(std::make_shared<const OnnxHostArray>(value.host()));
  return both;
}

const LoadedModel& loaded(const std::shared_ptr<const LoadedModel>& model, SourceLoc loc) {
  if (model == nullptr) {
    refuse("the model is empty", loc);
  }
  return *model;
}

}  // namespace

OnnxModel::OnnxModel(std::shared_ptr<const onnx::LoadedModel> model,
                     std::vector<Tensor> parameters,
                     std::vector<Buffer> buffers,
                     Device device)
    : model_(std::move(model)),
      parameters_(std::move(parameters)),
      buffers_(std::move(buffers)),
      device_(std::move(device)) {}

Device OnnxModel::device(SourceLoc loc) const {
  if (!parameters_.empty()) {
    return parameters_.front().device(loc);
  }
  return buffers_.empty() ? device_ : buffers_.front().device(loc);
}

std::vector<OnnxValue> OnnxModel::run_in_order(std::vector<OnnxValue> ordered,
                                               const OnnxRunOptions& options,
                                               SourceLoc loc) const {
  const LoadedModel& model = *model_;
  const std::vector<std::int64_t> key = onnx::cache_key(ordered);
  onnx::RunContext context{
      .device = device(loc), .mode = options.mode, .wait = options.wait, .loc = loc};
  onnx::RunOutputs results = onnx::run_program({.program = model.program,
                                                .parameters = parameters_,
                                                .buffers = buffers_,
                                                .known = model.cache.find(key)},
                                               context,
                                               std::move(ordered));
  if (!results.known.empty()) {
    model.cache.add(key, std::move(results.known));
  }
  for (OnnxValue& value : results.values) {
    value = on_device(std::move(value), context.device, loc);
  }
  return std::move(results.values);
}

OnnxValues OnnxModel::run(const OnnxValues& inputs,
                          const OnnxRunOptions& options,
                          SourceLoc loc) const {
  const detail::FloatEnvironment environment;
  const Plan& plan = loaded(model_, loc).program.plan;
  std::vector<OnnxValue> values = run_in_order(in_order(plan, inputs, loc), options, loc);
  OnnxValues named;
  for (std::size_t i = 0; i < values.size(); ++i) {
    named.insert_or_assign(plan.output_names[i], std::move(values[i]));
  }
  return named;
}

std::vector<Tensor> OnnxModel::forward(std::span<const Tensor> inputs,
                                       Mode mode,
                                       SourceLoc loc) const {
  const detail::FloatEnvironment environment;
  const Plan& plan = loaded(model_, loc).program.plan;
  if (inputs.size() != plan.inputs.size()) {
    refuse(fmt::format("forward() got {} inputs, the graph has {}: {}",
                       inputs.size(),
                       plan.inputs.size(),
                       names_of(plan.inputs)),
           loc);
  }
  std::vector<OnnxValue> ordered;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ordered.push_back(accepted(plan.inputs[i], inputs[i], loc));
  }
  std::vector<Tensor> results;
  for (const OnnxValue& value : run_in_order(std::move(ordered), {.mode = mode}, loc)) {
    results.push_back(value.tensor(loc));
  }
  return results;
}

Tensor OnnxModel::forward(const Tensor& x, Mode mode, SourceLoc loc) const {
  const Plan& plan = loaded(model_, loc).program.plan;
  if (plan.inputs.size() != 1 || plan.outputs.size() != 1) {
    refuse(fmt::format("forward() is for one input and one result; the graph has inputs {} and "
                       "results {}: call run()",
                       names_of(plan.inputs),
                       fmt::join(plan.output_names, ", ")),
           loc);
  }
  OnnxValues results = run({{plan.inputs.front().name, x}}, {.mode = mode}, loc);
  return results.begin()->second.tensor(loc);
}

const OnnxReport& OnnxModel::report(SourceLoc loc) const {
  return loaded(model_, loc).report;
}

void OnnxModel::visit(const std::string& prefix, TensorVisitor fn) {
  fn.enter_module(this, sizeof(*this));
  if (fn.reader() != nullptr) {
    std::as_const(*this).visit(prefix, *fn.reader());
    return;
  }
  if (model_ == nullptr) {
    return;
  }
  for (const onnx::Constant& constant : model_->program.constants) {
    const std::string path = detail::join_path(prefix, constant.name);
    if (constant.parameter >= 0) {
      fn(path, parameters_[static_cast<std::size_t>(constant.parameter)]);
    } else if (constant.buffer >= 0) {
      fn(path, buffers_[static_cast<std::size_t>(constant.buffer)]);
    }
  }
}

void OnnxModel::visit(const std::string& prefix, ConstTensorVisitor fn) const {
  if (model_ == nullptr) {
    return;
  }
  for (const onnx::Constant& constant : model_->program.constants) {
    const std::string path = detail::join_path(prefix, constant.name);
    if (constant.parameter >= 0) {
      fn(path, parameters_[static_cast<std::size_t>(constant.parameter)]);
    } else if (constant.buffer >= 0) {
      fn(path, buffers_[static_cast<std::size_t>(constant.buffer)]);
    }
  }
}

}  // namespace hearth
