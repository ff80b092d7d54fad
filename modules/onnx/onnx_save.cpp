#include <hearth/modules/onnx_save.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <hearth/modules/weight_file.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/ops.hpp>

#include "modules/onnx/save/pass_set.hpp"
#include "modules/onnx/save/step_table.hpp"

namespace hearth {
namespace {

using onnx::PassSet;
using onnx::RecordedPass;
using onnx::Sizes;
using onnx::ValueNumber;

constexpr std::string_view kSaveOp = "save_onnx";

[[noreturn]] void refuse_saving(const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "save_onnx: " + text,
                    .op = std::string(kSaveOp),
                    .location = loc});
}

// Calls fn(name, input, axis) for each named axis.
template <class Fn>
void each_named_axis(const std::vector<OnnxInput>& inputs, const Fn& fn) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const int rank = inputs[i].example.shape().rank();
    for (int axis = 0; axis < rank; ++axis) {
      const auto place = static_cast<std::size_t>(axis);
      if (place < inputs[i].dims.size() && !inputs[i].dims[place].empty()) {
        fn(inputs[i].dims[place], i, axis);
      }
    }
  }
}

// Sizes of an axis in the passes. The first two differ by one. The third shows halves, thirds and
// quarters. A first axis holds examples, of which a few suffice. Other axes do not grow if they are
// long enough, since a model may have a largest length.
Sizes tried_sizes(std::int64_t size, bool is_first) {
  constexpr std::int64_t kSmall = 6;
  if (is_first) {
    return {2, 3, 7};
  }
  return size < kSmall ? Sizes{size + 2, size + 3, 2 * size + 7} : Sizes{size, size - 1, size / 2};
}

struct NamedAxis {
  std::int64_t size = 0;  // of the examples
  bool is_first = true;   // in all inputs
};
using NamedAxes = std::map<std::string, NamedAxis>;

NamedAxes named_axes(const std::vector<OnnxInput>& inputs, SourceLoc loc) {
  NamedAxes axes;
  each_named_axis(inputs, [&](const std::string& name, std::size_t input, int axis) {
    const std::int64_t size = inputs[input].example.shape()[axis];
    NamedAxis& known = axes.try_emplace(name, NamedAxis{.size = size}).first->second;
    if (size == 0 || known.size != size) {
      refuse_saving(fmt::format("the axis '{}' of input '{}' has {} elements{}",
                                name,
                                inputs[input].name,
                                size,
                                size == 0 ? "" : fmt::format(", and {} elsewhere", known.size)),
                    loc);
    }
    known.is_first = known.is_first && axis == 0;
  });
  return axes;
}

void check_inputs(const std::vector<OnnxInput>& inputs, SourceLoc loc) {
  if (inputs.empty()) {
    refuse_saving("needs an input", loc);
  }
  for (const OnnxInput& input : inputs) {
    detail::require_tensor(kSaveOp, input.name, input.example, loc);
    const auto rank = static_cast<std::size_t>(input.example.shape().rank());
    const bool has_default = input.dims == OnnxInput{}.dims;
    if (input.dims.size() > rank && !(rank == 0 && has_default)) {
      refuse_saving(
          fmt::format(
              "input '{}' has {} axes, and names of {}", input.name, rank, input.dims.size()),
          loc);
    }
  }
}

// An axis in another size: its rows from the start, again and again.
Tensor resized(const Tensor& x, int axis, std::int64_t size, SourceLoc loc) {
  const std::int64_t rows = x.shape()[axis];
  if (rows == size) {
    return x;
  }
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < size; ++i) {
    index.push_back(i % rows);
  }
  const Tensor places = Tensor::from(x.device(), std::move(index), {size}, loc);
  return index_select(Arg(x, loc), axis, Arg(places, loc));
}

// Sizes of all named axes in one pass.
using PassSizes = std::map<std::string, std::int64_t>;

std::vector<PassSizes> sizes_of_passes(const NamedAxes& axes) {
  std::vector<PassSizes> passes(1);
  for (const auto& [name, axis] : axes) {
    passes.front()[name] = tried_sizes(axis.size, axis.is_first).front();
  }
  for (const auto& [name, axis] : axes) {
    const Sizes tried = tried_sizes(axis.size, axis.is_first);
    for (std::size_t i = 1; i < tried.size(); ++i) {
      passes.push_back(passes.front());
      passes.back()[name] = tried[i];
    }
  }
  return passes;
}

class OnnxSaving final {
 public:
  OnnxSaving(const std::filesystem::path& path,
             const std::vector<NamedTensor>& weights,
             const std::vector<OnnxInput>& inputs,
             SourceLoc loc)
      : path_(path), weights_(weights), inputs_(inputs), loc_(loc) {
    for (const NamedTensor& weight : weights) {
      detail::require_tensor(kSaveOp, weight.name, weight.tensor, loc);
      tensors_.push_back(weight.tensor);
    }
  }

  void run(const detail::OnnxForward& forward) {
    const NamedAxes axes = named_axes(inputs_, loc_);
    const std::vector<PassSizes> sizes = sizes_of_passes(axes);
    std::vector<RecordedPass> recorded;
    recorded.reserve(sizes.size());
    for (const PassSizes& one : sizes) {
      recorded.push_back(record(one, recorded.empty(), forward));
    }
    std::map<std::string, Sizes> names;
    for (const auto& [name, unused] : axes) {
      std::ranges::transform(sizes,
                             std::back_inserter(names[name]),
                             [&key = name](const auto& one) { return one.at(key); });
    }
    const PassSet passes(std::move(recorded), std::move(names));
    write(passes);
  }

 private:
  // Phases: inputs of these sizes; the pass. An error of a later pass names its sizes.
  RecordedPass record(const PassSizes& sizes, bool is_first, const detail::OnnxForward& forward) {
    std::vector<Tensor> inputs;
    for (const OnnxInput& input : inputs_) {  // copies: two inputs may have the same example
      inputs.push_back(detail::forked(input.example, input.example.device(), loc_));
    }
    each_named_axis(inputs_, [&](const std::string& name, std::size_t input, int axis) {
      inputs[input] = resized(inputs[input], axis, sizes.at(name), loc_);
    });
    const auto run = [&](std::span<const Tensor> tensors) {
      std::vector<Tensor> results;
      std::vector<std::string> names;
      for (NamedTensor& result : forward(tensors)) {
        detail::require_tensor(kSaveOp, result.name, result.tensor, loc_);
        names.push_back(std::move(result.name));
        results.push_back(std::move(result.tensor));
      }
      result_names_ = std::move(names);
      return results;
    };
    const RecordedBytes bytes = is_first ? RecordedBytes::inputs : RecordedBytes::uploads;
    const Device device = inputs_.front().example.device();
    try {
      return onnx::record_pass(device, bytes, inputs, tensors_, run, loc_);
    } catch (const Exception& error) {
      std::string text;
      for (const auto& [name, size] : sizes) {
        text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", name, size);
      }
      Error outer = error.error();
      outer.text = fmt::format(
          "save_onnx: the forward pass with sizes {} failed: {}; an axis "
          "without a name has the example's size",
          text.empty() ? "of the examples" : text,
          outer.text);
      throw_error(std::move(outer));
    }
  }

  // Phases: names; tensors from outside; steps; results; the file.
  void write(const PassSet& passes) {
    const detail::FloatEnvironment environment;  // numbers become elements
    onnx::SavedGraph graph{.passes = passes};
    if (std::string difference = passes.difference(); !difference.empty()) {
      graph.problems.add({.reason = std::move(difference),
                          .help = "leave the axis without a name, so that its size is fixed"},
                         "forward");
      throw_problems(std::move(graph.problems));
    }
    graph.names.resize(passes.first().values.size());
    reserve_names(graph.draft);
    add_inputs(graph);
    add_weights(graph);
    add_constants(graph);
    for (std::size_t step = 0; step < passes.first().steps.size(); ++step) {
      onnx::StepCall call(graph, step);
      onnx::write_step(call);
    }
    graph.draft.set_layer({});
    check_reads(graph);
    if (!graph.problems.empty()) {
      throw_problems(std::move(graph.problems));
    }
    add_results(graph);
    graph.draft.prune();
    write_file(graph.draft);
  }

  void reserve_names(onnx::GraphDraft& draft) const {
    const auto reserve = [&](const std::string& name) {
      if (name.empty() || !draft.reserve(name)) {
        refuse_saving(fmt::format("the name '{}' is empty, or names two inputs, results or tensors "
                                  "of the model",
                                  name),
                      loc_);
      }
    };
    std::ranges::for_each(weights_, reserve, &NamedTensor::name);
    std::ranges::for_each(inputs_, reserve, &OnnxInput::name);
    std::ranges::for_each(result_names_, reserve);
  }

  static onnx::DraftPort port(const PassSet& passes,
                              std::string name,
                              DType dtype,
                              const std::vector<Sizes>& shape) {
    onnx::DraftPort result{.name = std::move(name), .dtype = dtype};
    for (const Sizes& sizes : shape) {
      if (onnx::is_fixed(sizes)) {
        result.dims.emplace_back(sizes.front());
      } else {
        result.dims.emplace_back(passes.name_of(sizes));
      }
    }
    return result;
  }

  void add_inputs(onnx::SavedGraph& graph) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const OnnxInput& input = inputs_[i];
      onnx::DraftPort result{.name = input.name, .dtype = input.example.dtype()};
      const Shape shape = input.example.shape();
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const auto place = static_cast<std::size_t>(axis);
        if (place < input.dims.size() && !input.dims[place].empty()) {
          result.dims.emplace_back(input.dims[place]);
        } else {
          result.dims.emplace_back(shape[axis]);
        }
      }
      graph.draft.add_input(std::move(result));
      if (const auto value = graph.passes.first().inputs[i]) {
        graph.names[*value] = input.name;
      }
    }
  }

  // A weight whose bytes were not recorded cannot be read: a new read throws the cause.
  void add_weights(onnx::SavedGraph& graph) {
    const RecordedPass& pass = graph.passes.first();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (!pass.weights[i] || !graph.names[*pass.weights[i]].empty()) {
        continue;
      }
      const NamedTensor& weight = weights_[i];
      std::optional<std::span<const std::byte>> bytes = pass.bytes(*pass.weights[i]);
      if (!bytes) {
        read_.push_back(weight.tensor.read_bytes(loc_).get());
        bytes = read_.back();
      }
      graph.draft.add_weight(weight.name, weight.tensor.dtype(), weight.tensor.shape(), *bytes);
      graph.names[*pass.weights[i]] = weight.name;
    }
  }

  // Tensors that are neither inputs nor members of the model.
  void add_constants(onnx::SavedGraph& graph) const {
    const RecordedPass& pass = graph.passes.first();
    for (ValueNumber value = 0; value < pass.values.size(); ++value) {
      if (pass.values[value].step || !graph.names[value].empty()) {
        continue;
      }
      graph.names[value] = "?";
      const std::string what = pass.trace.describe(pass.values[value].operand);
      const auto bytes = pass.bytes(value);
      if (!graph.passes.is_constant(value)) {
        graph.problems.add(
            {.reason = "a tensor that the forward pass makes from numbers of the host depends on "
                       "the size of a named axis",
             .help = "make it with arange() or zeros(), or leave the axis without a name"},
            what);
      } else if (!bytes) {
        graph.problems.add({.reason = "the values of a tensor of the forward pass cannot be read",
                            .help = "compute it on the model's device"},
                           what);
      } else {
        graph.names[value] = graph.draft.constant(
            pass.values[value].operand.dtype, pass.shape(value), {bytes->begin(), bytes->end()});
      }
    }
  }

  static void check_reads(onnx::SavedGraph& graph) {
    if (graph.passes.first().reads_values) {
      graph.problems.add({.reason = "the forward pass reads a value that depends on an input, so "
                                    "its ops may depend on the value",
                          .help = "compute with tensors alone"},
                         "forward");
    }
  }

  void add_results(onnx::SavedGraph& graph) const {
    const RecordedPass& pass = graph.passes.first();
    for (std::size_t i = 0; i < pass.results.size(); ++i) {
      const ValueNumber value = pass.results[i];
      graph.draft.add_result(graph.names[value],
                             port(graph.passes,
                                  result_names_[i],
                                  pass.values[value].operand.dtype,
                                  graph.passes.shape(value)));
    }
  }

  void write_file(const onnx::GraphDraft& draft) const {
    const onnx::WireWriter model = draft.model();
    if (model.size_bytes() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      refuse_saving(fmt::format("{} would have {} bytes, and an ONNX file has at most 2 GiB; save "
                                "the weights in 16 bits, with to_dtype()",
                                path_.string(),
                                model.size_bytes()),
                    loc_);
    }
    const Status status =
        write_file_atomically(path_, [&](FileWriter& file) { return model.write_to(file); });
    if (!status.has_value()) {
      detail::throw_file_error(status.error(), loc_);
    }
  }

  [[noreturn]] void throw_problems(onnx::ProblemList problems) const {
    OnnxReport report;
    report.file = path_.string();
    report.problems = std::move(problems).take();
    Error error{.code = ErrorCode::unsupported,
                .text = fmt::format("save_onnx: the model has {} problem{}:\n{}",
                                    report.problems.size(),
                                    report.problems.size() == 1 ? "" : "s",
                                    report.problem_table()),
                .op = std::string(kSaveOp),
                .location = loc_};
    throw OnnxError(std::move(error), std::move(report));
  }

  const std::filesystem::path& path_;
  const std::vector<NamedTensor>& weights_;
  const std::vector<OnnxInput>& inputs_;
  SourceLoc loc_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> result_names_;
  std::vector<std::vector<std::byte>> read_;  // weights that the recording did not keep
};

}  // namespace

void detail::write_onnx(const std::filesystem::path& path,
                        const std::vector<NamedTensor>& weights,
                        const std::vector<OnnxInput>& inputs,
                        const OnnxForward& forward,
                        SourceLoc loc) {
  check_inputs(inputs, loc);
  OnnxSaving(path, weights, inputs, loc).run(forward);
}

}  // namespace hearth
