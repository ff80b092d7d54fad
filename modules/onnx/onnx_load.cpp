#include <hearth/modules/onnx_model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/weight_file.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include "modules/onnx/file/onnx_parser.hpp"
#include "modules/onnx/graph/plan_builder.hpp"
#include "modules/onnx/loaded_model.hpp"

namespace hearth {
namespace {

using onnx::BuiltProgram;
using onnx::Constant;
using onnx::ConstantSource;
using onnx::ModelFile;

OnnxPort port_of(const std::string& name, const onnx::TypeProto& type) {
  constexpr std::array<std::string_view, 4> kKinds{"tensor", "sequence", "optional", "other"};
  OnnxPort port{.name = name,
                .kind = std::string(kKinds[static_cast<std::size_t>(type.kind)]),
                .type = type.type,
                .has_rank = type.dims.has_value()};
  for (std::size_t i = 0; type.dims && i < type.dims->size(); ++i) {
    const std::int64_t size = (*type.dims)[i];
    port.dims.push_back(size >= 0                   ? std::to_string(size)
                        : type.dim_names[i].empty() ? "?"
                                                    : type.dim_names[i]);
  }
  return port;
}

// A float initialiser is trained, unless its elements decide a shape or it is a running statistic.
bool is_parameter(const ConstantSource& source) {
  return source.is_initialiser && is_float(source.type) && !source.is_statistic &&
         !source.is_on_host;
}

bool is_small(const ConstantSource& source) {
  return source.shape.element_count() <= onnx::kMostHostElements;
}

bool lies_on_host(const ConstantSource& source) {
  return source.type == OnnxType::string || source.is_on_host ||
         (is_small(source) && !is_parameter(source) && !source.is_statistic);
}

void add_external(const ConstantSource& source, OnnxReport& report) {
  if (source.proto == nullptr || !source.proto->external) {
    return;
  }
  const std::string& file = source.proto->external->location;
  if (std::ranges::find(report.external_files, file) == report.external_files.end()) {
    report.external_files.push_back(file);
  }
  report.external_bytes += source.shape.element_count() * std::max(stored_bits(source.type), 8) / 8;
}

OnnxReport report_of(const ModelFile& file, const BuiltProgram& built) {
  const onnx::ModelProto& model = file.model();
  OnnxReport report{.file = file.path().string(),
                    .producer = model.producer,
                    .ir_version = model.ir_version,
                    .opsets = model.opsets,
                    .size_bytes = static_cast<std::int64_t>(file.size_bytes()),
                    .node_count = built.node_count,
                    .ops = built.ops,
                    .sync_points = built.sync_points};
  for (const onnx::PlanInput& input : built.program->plan.inputs) {
    report.inputs.push_back(port_of(input.name, input.type));
  }
  for (const onnx::ValueInfo& output : model.graph.outputs) {
    report.outputs.push_back(port_of(output.name, output.type));
  }
  for (const ConstantSource& source : built.constants) {
    add_external(source, report);
    if (is_parameter(source) && source.is_on_device) {
      report.parameter_count += source.shape.element_count();
      report.parameter_bytes += source.shape.element_count() * stored_bits(source.type) / 8;
    }
  }
  return report;
}

// Reads the constants of a file into a module.
class Loading final {
 public:
  Loading(const ModelFile& file, const Device& device, SourceLoc loc)
      : file_(file), device_(device), loc_(loc) {}

  Constant load(const ConstantSource& source) {
    Constant constant{.name = unique_name(source.name), .type = source.type};
    if (lies_on_host(source)) {
      constant.host = source.host != nullptr ? source.host : read_host(source);
    }
    if (source.type == OnnxType::string || !(source.is_on_device || !is_small(source))) {
      return constant;
    }
    Tensor tensor = read_tensor(source);
    tensor.set_path(constant.name, loc_);
    if (is_parameter(source)) {
      constant.parameter = static_cast<std::int64_t>(parameters.size());
      parameters.push_back(std::move(tensor));
    } else {
      constant.buffer = static_cast<std::int64_t>(buffers.size());
      buffers.push_back(source.is_statistic && is_float(source.type)
                            ? running_statistic(tensor, loc_)
                            : Buffer(std::move(tensor)));
      buffers.back().set_path(constant.name, loc_);
    }
    return constant;
  }

  std::vector<Tensor> parameters;
  std::vector<Buffer> buffers;

 private:
  // Bodies may have initialisers with the names of outer ones.
  std::string unique_name(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !names_.insert(name).second; ++i) {
      name = fmt::format("{}.{}", wanted, i);
    }
    return name;
  }

  std::shared_ptr<const onnx::HostArray> read_host(const ConstantSource& source) const {
    if (source.type == OnnxType::string) {
      return std::make_shared<const onnx::HostArray>(
          onnx::host_strings(file_.strings(*source.proto, loc_), source.shape));
    }
    return std::make_shared<const onnx::HostArray>(
        onnx::host_array_of(file_.tensor(*source.proto, loc_), source.type));
  }

  Tensor read_tensor(const ConstantSource& source) const {
    if (source.proto == nullptr) {
      return onnx::upload(*source.host, device_, loc_);
    }
    onnx::TensorBytes bytes = file_.tensor(*source.proto, loc_);
    return Tensor::from_owned_bytes(
        device_, bytes.bytes, std::move(bytes.owner), bytes.dtype, bytes.shape, loc_);
  }

  const ModelFile& file_;
  const Device& device_;
  SourceLoc loc_;
  std::set<std::string> names_;
};

struct Checked {
  BuiltProgram built;
  OnnxReport report;
};

Checked check(const ModelFile& file) {
  const onnx::OpTable table;
  onnx::ProblemList problems;
  BuiltProgram built = onnx::build_program(file, table, problems);
  OnnxReport report = report_of(file, built);
  report.problems = std::move(problems).take();
  return {std::move(built), std::move(report)};
}

}  // namespace

OnnxReport check_onnx(const std::filesystem::path& path, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  return check(ModelFile::read(path, loc)).report;
}

OnnxModel load_onnx(const std::filesystem::path& path, const Device& device, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const ModelFile file = ModelFile::read(path, loc);
  Checked checked = check(file);
  if (!checked.report.problems.empty()) {
    Error error{.code = ErrorCode::unsupported,
                .text = fmt::format("load_onnx: {} has {} problem{}:\n{}",
                                    path.string(),
                                    checked.report.problems.size(),
                                    checked.report.problems.size() == 1 ? "" : "s",
                                    checked.report.problem_table()),
                .op = "load_onnx",
                .location = loc};
    throw OnnxError(std::move(error), std::move(checked.report));
  }
  const WeightScope weights(device);
  Loading loading(file, device, loc);
  auto model = std::make_shared<onnx::LoadedModel>();
  model->program.plan = std::move(checked.built.program->plan);
  for (const ConstantSource& source : checked.built.constants) {
    model->program.constants.push_back(loading.load(source));
  }
  model->report = std::move(checked.report);
  return OnnxModel(
      std::move(model), std::move(loading.parameters), std::move(loading.buffers), device);
}

OnnxValue read_onnx_value(const std::filesystem::path& path, const OnnxPort& port, SourceLoc loc) {
  Result<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes.has_value()) {
    detail::throw_file_error(bytes.error(), loc);
  }
  const ModelFile file = ModelFile::of_tensors(std::move(bytes).value(), path);
  const auto value_of = [&](const onnx::TensorProto& tensor) -> OnnxValue {
    if (tensor.type() == OnnxType::string) {
      std::vector<std::string> strings = file.strings(tensor, loc);  // refuses a bad shape
      return onnx::host_strings(std::move(strings), Shape(tensor.dims));
    }
    return onnx::host_array_of(file.tensor(tensor, loc), tensor.type());
  };
  const auto sequence_of = [&](const std::vector<onnx::TensorProto>& tensors) {
    std::vector<OnnxValue> items;
    std::ranges::transform(tensors, std::back_inserter(items), value_of);
    return OnnxValue::sequence(std::move(items), port.type);
  };
  try {
    if (port.kind == "sequence") {
      return sequence_of(onnx::parse_sequence(file.bytes()));
    }
    if (port.kind == "optional") {
      const onnx::OptionalProto optional = onnx::parse_optional(file.bytes());
      return optional.is_sequence       ? sequence_of(optional.tensors)
             : optional.tensors.empty() ? OnnxValue{}
                                        : value_of(optional.tensors.front());
    }
    return value_of(onnx::parse_tensor(file.bytes()));
  } catch (const FileError& error) {
    detail::refuse_file(ErrorCode::bad_format, path, error.error().text, loc);
  }
}

}  // namespace hearth
