// The program's text stands between the names promised to it (runtime/base/threads/custom_code.hpp)
// and a main() that calls it. main() runs once for each element of the first result, or in the
// number of workgroups that the program's function returns. Sizes are parameters, so one shader
// serves all shapes of a rank.
#include "custom.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/backends/custom_call.hpp>

#include "backends/gpu/space/merged_space.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

/// Places below this leave room for the overhang of a grid.
constexpr std::int64_t kMostNarrowIndex = (std::int64_t{1} << 31U) - (std::int64_t{1} << 24U);

struct Form {
  const CustomCode& code;
  const GpuKernel& kernel;  ///< In the device's language.
  const KernelCall& call;
  int threads;
  bool is_wide;
  std::int64_t groups;  ///< Number of workgroups; 0: one thread an element.

  [[nodiscard]] std::size_t operand_count() const noexcept {
    return call.inputs.size() + call.outputs.size();
  }
  [[nodiscard]] const TensorView& view(std::size_t i) const noexcept {
    const std::size_t inputs = call.inputs.size();
    return i < inputs ? call.inputs[i] : call.outputs[i - inputs];
  }
  [[nodiscard]] const std::string& name(std::size_t i) const noexcept {
    const std::size_t inputs = call.inputs.size();
    return i < inputs ? code.inputs[i].name : code.outputs[i - inputs];
  }
};

Error refused(const CustomCode& code, ErrorCode what, std::string_view text) {
  return {.code = what, .text = fmt::format("{}: {}", code.name, text), .op = code.name};
}

std::vector<TensorForm> forms_of(std::span<const TensorView> views) {
  std::vector<TensorForm> forms;
  for (const TensorView& view : views) {
    forms.push_back({view.dtype, view.shape()});
  }
  return forms;
}

// Number of workgroups that the program's function returns.
Result<std::int64_t> groups_of(const CustomCode& code,
                               const GpuKernel& kernel,
                               const KernelCall& call) {
  std::string what;
  try {
    const std::int64_t groups = kernel.groups(forms_of(call.inputs), forms_of(call.outputs));
    if (groups >= 0) {
      return groups;
    }
    what = fmt::format("gives {}", groups);
  } catch (const std::exception& thrown) {
    what = fmt::format("threw: {}", thrown.what());
  }
  return refused(code, ErrorCode::kernel_failed, fmt::format("its number of workgroups {}", what));
}

// Names that the program's text may use, in the order of the parameters. Members of the parameters
// begin with _, those of numbers with _0, which no name of the program's does. Numbers are macros,
// undefined behind the program's text. All other names here are in runtime/ops/glsl_words.hpp, and
// no operand may have them.
std::string custom_text(const Form& form, std::size_t parameter_bytes) {
  const std::string index = form.is_wide ? "int64_t" : "int";
  std::string members;
  std::string names;
  std::string ends;
  for (std::size_t i = 0; i < form.operand_count(); ++i) {
    const TensorView& view = form.view(i);
    const std::string& name = form.name(i);
    const int rank = view.shape().rank();
    const std::string_view suffix = glsl_suffix(view.dtype);
    members += fmt::format("uint64_t _{0}_at; {1} _{0}_n; ", name, index);
    names += fmt::format(
        "#define {0}_address p._{0}_at\n#define {0}_count p._{0}_n\n#define {0}_rank {1}\n"
        "#define {0}_type {2}\n",
        name,
        rank,
        glsl_compute_type(view.dtype));
    if (rank > 0) {
      members += fmt::format("{0} _{1}_sizes[{2}]; ", index, name, rank);
      names += fmt::format("#define {0}_size(axis) p._{0}_sizes[axis]\n", name);
    }
    names +=
        i < form.call.inputs.size()
            ? fmt::format(
                  "FN {0}_type {0}(INDEX i) {{ return load_{1}(p._{0}_at, i); }}\n", name, suffix)
            : fmt::format(
                  "FN void set_{0}(INDEX i, {0}_type value) {{ store_{1}(p._{0}_at, i, value); "
                  "}}\n",
                  name,
                  suffix);
  }
  for (const CustomNumber& number : form.code.numbers) {
    members += fmt::format("{} _0{}; ", number.dtype == DType::i32 ? "int" : "float", number.name);
    names += fmt::format("#define {0} p._0{0}\n", number.name);
    ends += fmt::format("#undef {}\n", number.name);
  }
  members += fmt::format("{} _most;", index);
  return fmt::format(
      "{}{}\n#define THREADS {}\n#define ID (INDEX(GROUP) * THREADS + INDEX(THREAD))\n{}{}{}{}{}{}"
      "FN void main() {{\n  if (INDEX({}) < p._most) {{\n    kernel();\n  }}\n}}\n",
      glsl_prelude({.threads = form.threads, .wide_index = form.is_wide}),
      glsl_parameters(members, parameter_bytes),
      form.threads,
      names,
      kProgramLines,
      form.kernel.text,
      kProgramLinesEnd,
      ends,
      ends.empty() ? "" : kProgramLinesEnd,
      form.kernel.groups ? "GROUP" : "ID");
}

ParameterBlock custom_parameters(const Form& form, std::int64_t most) {
  ParameterBlock parameters;
  for (std::size_t i = 0; i < form.operand_count(); ++i) {
    const TensorView& view = form.view(i);
    parameters.add(view);
    add_index(parameters, view.element_count(), form.is_wide);
    for (const std::int64_t size : view.shape().dims()) {
      add_index(parameters, size, form.is_wide);
    }
  }
  const CustomNumbers numbers(form.call.op);
  for (std::size_t i = 0; i < form.code.numbers.size(); ++i) {
    const double value = numbers.all()[i];
    if (form.code.numbers[i].dtype == DType::i32) {
      parameters.add(static_cast<std::int32_t>(value));
    } else {
      parameters.add(static_cast<float>(value));
    }
  }
  add_index(parameters, most, form.is_wide);
  return parameters;
}

KernelKey custom_key(const Form& form) noexcept {
  KernelKey key(KernelFamily::custom);
  key.add(form.code.text_hash).add(form.threads).add(form.is_wide);
  for (std::size_t i = 0; i < form.operand_count(); ++i) {
    key.add(static_cast<std::uint32_t>(form.view(i).dtype) |
            static_cast<std::uint32_t>(form.view(i).shape().rank()) << 8U);
  }
  return key;
}

}  // namespace

Status encode_custom(const KernelCall& call, KernelEncoder& encoder) {
  const CustomCode& code = *call.custom;
  const bool is_cuda = encoder.limits().takes_cuda;
  const GpuKernel& kernel = is_cuda ? code.cuda : code.glsl;
  HEARTH_TRY_STATUS(check_custom(call,
                                 !kernel.text.empty(),
                                 is_cuda ? "CUDA text" : "GLSL text",
                                 is_cuda ? "a CUDA device" : "a Vulkan device"));
  const auto most_threads = static_cast<int>(encoder.limits().most_group_threads);
  if (kernel.threads > most_threads) {
    return refused(code,
                   ErrorCode::unsupported,
                   fmt::format("its workgroups have {} threads, the device's at most {}",
                               kernel.threads,
                               most_threads));
  }
  Form form{.code = code,
            .kernel = kernel,
            .call = call,
            .threads = kernel.threads,
            .is_wide = false,
            .groups = 0};
  for (std::size_t i = 0; i < form.operand_count(); ++i) {
    form.is_wide = form.is_wide || form.view(i).element_count() >= kMostNarrowIndex;
  }
  std::int64_t most = call.outputs[0].element_count();
  form.groups = (most + form.threads - 1) / form.threads;
  if (kernel.groups) {
    HEARTH_TRY(form.groups, groups_of(code, kernel, call));
    most = form.groups;
    form.is_wide = form.is_wide || form.groups * form.threads >= kMostNarrowIndex;
  }
  const ParameterBlock parameters = custom_parameters(form, most);
  const auto make_text = [&] { return custom_text(form, parameters.size_bytes()); };
  Status status =
      encoder.dispatch(custom_key(form), make_text, parameters, encoder.linear(form.groups));
  if (status.has_value() || status.error().code == ErrorCode::device_lost) {
    return status;
  }
  Error error = status.error();
  error.text = fmt::format("{}: {}", code.name, error.text);
  error.op = code.name;
  return error;
}

}  // namespace hearth::gpu
