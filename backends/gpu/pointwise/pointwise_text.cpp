#include "pointwise_text.hpp"

#include <string_view>

#include <fmt/format.h>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/glsl_library.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/gpu/text/glsl_vectors.hpp"

namespace hearth::gpu {
namespace {

class PointwiseText {
 public:
  PointwiseText(const KernelIR& kernel, const PointwiseForm& form)
      : kernel_(kernel), form_(form), vector_(form.vector) {
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
      has_strided_ = has_strided_ || is_strided(form.access[i]);
    }
  }

  std::string make(std::size_t parameter_bytes) {
    std::string text = glsl_prelude({.threads = form_.threads, .wide_index = form_.is_wide});
    if (form_.may_fail) {
      text += glsl_fail();
    }
    text += access_functions();
    text += glsl_parameters(members(), parameter_bytes);
    if (form_.is_guarded) {
      text += "bool kept = false;\n";
    }
    if (form_.may_fail) {
      text += fmt::format(
          "FN void undefined(uint code, int64_t place) {{\n{}fail(p.cell, code, 0l, "
          "place, 0l);\n}}\n",
          form_.is_guarded ? "if (!kept) " : "");
    }
    if (has_strided_) {
      text += form_.is_wide ? "" : glsl_divide();
      text += find_function();
    }
    text += glsl_pointwise_function(kernel_, "body");
    return text + main_function();
  }

 private:
  [[nodiscard]] std::size_t inputs() const noexcept { return kernel_.inputs.size(); }
  [[nodiscard]] std::size_t outputs() const noexcept { return kernel_.outputs.size(); }
  [[nodiscard]] std::string_view input_type(std::size_t i) const noexcept {
    return glsl_compute_type(kernel_.inputs[i].dtype);
  }
  [[nodiscard]] std::string_view output_type(std::size_t i) const noexcept {
    return glsl_compute_type(kernel_.outputs[i].dtype);
  }

  [[nodiscard]] std::string access_functions() const {
    if (vector_ == 1) {
      return {};
    }
    std::uint32_t types = 0;
    for (std::size_t i = 0; i < inputs(); ++i) {
      const bool is_vector = form_.access[i] == Access::linear || form_.access[i] == Access::rows;
      types |= is_vector ? 1U << static_cast<unsigned>(kernel_.inputs[i].dtype) : 0U;
    }
    for (const KernelOutput& output : kernel_.outputs) {
      types |= 1U << static_cast<unsigned>(output.dtype);
    }
    std::string text(glsl_vector_types());
    for (int type = 0; type < kDTypeCount; ++type) {
      if ((types >> static_cast<unsigned>(type) & 1U) != 0) {
        text += glsl_vector_access(static_cast<DType>(type), vector_);
      }
    }
    return text;
  }

  [[nodiscard]] std::string members() const {
    std::string text;
    for (std::size_t i = 0; i < inputs(); ++i) {
      text += fmt::format("uint64_t x{}; ", i);
    }
    for (std::size_t i = 0; i < outputs(); ++i) {
      text += fmt::format("uint64_t y{}; ", i);
    }
    text += form_.may_fail ? "uint64_t cell; " : "";
    text += form_.is_guarded ? "uint64_t guard; " : "";
    text += "INDEX n; ";
    text += glsl_parameter_members(kernel_);
    for (int axis = 1; has_strided_ && axis < form_.rank; ++axis) {
      text += form_.is_wide ? fmt::format("int64_t n{}; ", axis)
                            : fmt::format("uint n{0}; uint factor{0}; uint shift{0}; ", axis);
    }
    for (std::size_t i = 0; i < inputs(); ++i) {
      for (int axis = 0; is_strided(form_.access[i]) && axis < form_.rank; ++axis) {
        text += fmt::format("INDEX t{}_{}; ", i, axis);
      }
    }
    return text;
  }

  // Defines the offsets of strided operands for place i, from the innermost axis outwards.
  [[nodiscard]] std::string find_function() const {
    std::string text = "FN void find(INDEX i";
    for (std::size_t i = 0; i < inputs(); ++i) {
      text += is_strided(form_.access[i]) ? fmt::format(", OUT(INDEX) o{}", i) : "";
    }
    text += form_.is_wide ? ") {\nint64_t rest = i;\nint64_t next;\nint64_t at;\n"
                          : ") {\nuint rest = uint(i);\nuint next;\nuint at;\n";
    for (int axis = form_.rank - 1; axis >= 0; --axis) {
      if (axis == 0) {
        text += "at = rest;\n";
      } else {
        text += form_.is_wide
                    ? fmt::format("next = rest / p.n{};\n", axis)
                    : fmt::format("next = divide(rest, p.factor{0}, p.shift{0});\n", axis);
        text += fmt::format("at = rest - next * p.n{};\nrest = next;\n", axis);
      }
      for (std::size_t i = 0; i < inputs(); ++i) {
        if (is_strided(form_.access[i])) {
          text += fmt::format(
              "o{0} {1} INDEX(at) * p.t{0}_{2};\n", i, axis == form_.rank - 1 ? "=" : "+=", axis);
        }
      }
    }
    return text + "}\n";
  }

  // ---- main ----

  [[nodiscard]] std::string main_function() const {
    std::string text = "FN void main() {\n";
    if (form_.is_guarded) {
      text += "kept = Words32u(p.guard).v[0] != 0u;\n";
    }
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (form_.access[i] == Access::cell) {
        text += fmt::format("const {} c{} = load_{}(p.x{}, 0);\n",
                            input_type(i),
                            i,
                            glsl_suffix(kernel_.inputs[i].dtype),
                            i);
      }
    }
    text += fmt::format("const INDEX first = INDEX(GROUP) * {} + INDEX(THREAD);\n",
                        form_.threads * form_.pieces);
    if (form_.run > 0) {
      text += fmt::format("const INDEX end = min(first * {0} + {0}, p.n);\n", form_.run);
      return text + one_by_one(fmt::format("first * {}", form_.run), "end") + "}\n";
    }
    for (int piece = 0; piece < form_.pieces; ++piece) {
      text += loads(piece);
    }
    for (int piece = 0; piece < form_.pieces; ++piece) {
      text += work(piece);
    }
    return text + "}\n";
  }

  [[nodiscard]] std::string loads(int piece) const {
    std::string text = fmt::format(
        "const INDEX i{0} = (first + {1}) * {2};\nconst bool is_whole{0} = i{0} <= p.n - {2};\n",
        piece,
        piece * form_.threads,
        vector_);
    std::string inside = find_call(fmt::format("i{}", piece), fmt::format("_{}", piece));
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (form_.access[i] == Access::cell) {
        continue;
      }
      const bool is_one = form_.access[i] == Access::columns;
      text += fmt::format("{} a{}_{}[{}];\n", input_type(i), i, piece, is_one ? 1 : vector_);
      const std::string place = form_.access[i] == Access::linear ? fmt::format("i{}", piece)
                                                                  : fmt::format("o{}_{}", i, piece);
      inside += load(i, piece, place, is_one || vector_ == 1);
    }
    return text + fmt::format("if (is_whole{}) {{\n{}}}\n", piece, inside);
  }

  [[nodiscard]] std::string load(std::size_t i,
                                 int piece,
                                 const std::string& place,
                                 bool is_scalar) const {
    const DType dtype = kernel_.inputs[i].dtype;
    if (is_scalar) {
      return fmt::format(
          "a{0}_{1}[0] = load_{2}(p.x{0}, {3});\n", i, piece, glsl_suffix(dtype), place);
    }
    return fmt::format("load_{2}x{3}(p.x{0} + uint64_t(int64_t({4}) * {5}l), a{0}_{1});\n",
                       i,
                       piece,
                       glsl_suffix(dtype),
                       vector_,
                       place,
                       size_bytes(dtype));
  }

  // The expression for element k of an input.
  [[nodiscard]] std::string element(std::size_t i, int piece) const {
    switch (form_.access[i]) {
      case Access::cell:
        return fmt::format("c{}", i);
      case Access::columns:
        return fmt::format("a{}_{}[0]", i, piece);
      default:
        return fmt::format("a{}_{}[k]", i, piece);
    }
  }

  template <class InputName, class OutputName>
  [[nodiscard]] std::string body_call(const std::string& place,
                                      const InputName& input,
                                      const OutputName& output) const {
    std::string text = "body(";
    for (std::size_t i = 0; i < inputs(); ++i) {
      text += input(i) + ", ";
    }
    text += fmt::format("int64_t({})", place);
    for (std::size_t i = 0; i < outputs(); ++i) {
      text += ", " + output(i);
    }
    text += ");\n";
    if (form_.is_guarded) {
      text += "if (kept) {\n";
      for (std::size_t i = 0; i < outputs(); ++i) {
        text +=
            fmt::format("{} = {};\n", output(i), input(static_cast<std::size_t>(form_.keeps[i])));
      }
      text += "}\n";
    }
    return text;
  }

  [[nodiscard]] std::string work(int piece) const {
    std::string text = fmt::format("if (is_whole{}) {{\n", piece);
    for (std::size_t i = 0; i < outputs(); ++i) {
      text += fmt::format("{} b{}[{}];\n", output_type(i), i, vector_);
    }
    text += fmt::format("UNROLLED for (int k = 0; k < {}; ++k) {{\n", vector_);
    text += body_call(
        fmt::format("i{} + k", piece),
        [&](std::size_t i) { return element(i, piece); },
        [](std::size_t i) { return fmt::format("b{}[k]", i); });
    text += "}\n";
    for (std::size_t i = 0; i < outputs(); ++i) {
      const DType dtype = kernel_.outputs[i].dtype;
      text += vector_ == 1
                  ? fmt::format("store_{1}(p.y{0}, i{2}, b{0}[0]);\n", i, glsl_suffix(dtype), piece)
                  : fmt::format("store_{1}x{3}(p.y{0} + uint64_t(i{2}) * {4}ul, b{0});\n",
                                i,
                                glsl_suffix(dtype),
                                piece,
                                vector_,
                                size_bytes(dtype));
    }
    const bool has_tail = vector_ > 1 && !has_strided_;
    const std::string first = fmt::format("i{}", piece);
    return text + (has_tail ? "} else {\n" + one_by_one(first, "p.n") + "}\n" : "}\n");
  }

  // A loop over single elements from place `first` on. It processes the last ones, which make no
  // vector, or all elements of a thread if the body is too long to stand there twice.
  [[nodiscard]] std::string one_by_one(const std::string& first, const std::string& end) const {
    std::string text = fmt::format("ROLLED for (INDEX i = {}; i < {}; ++i) {{\n", first, end);
    text += find_call("i", "");
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (form_.access[i] != Access::cell) {
        text += fmt::format("const {} a{} = load_{}(p.x{}, {});\n",
                            input_type(i),
                            i,
                            glsl_suffix(kernel_.inputs[i].dtype),
                            i,
                            form_.access[i] == Access::linear ? "i" : fmt::format("o{}", i));
      }
    }
    for (std::size_t i = 0; i < outputs(); ++i) {
      text += fmt::format("{} b{};\n", output_type(i), i);
    }
    text += body_call(
        "i",
        [&](std::size_t i) {
          return (form_.access[i] == Access::cell ? "c" : "a") + std::to_string(i);
        },
        [](std::size_t i) { return fmt::format("b{}", i); });
    for (std::size_t i = 0; i < outputs(); ++i) {
      text +=
          fmt::format("store_{1}(p.y{0}, i, b{0});\n", i, glsl_suffix(kernel_.outputs[i].dtype));
    }
    return text + "}\n";
  }

  // Declares and computes the offsets of strided operands: o0, or o0_1 with an ending.
  [[nodiscard]] std::string find_call(const std::string& place, const std::string& ending) const {
    if (!has_strided_) {
      return {};
    }
    std::string text;
    std::string call = "find(" + place;
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (is_strided(form_.access[i])) {
        text += fmt::format("INDEX o{}{};\n", i, ending);
        call += fmt::format(", o{}{}", i, ending);
      }
    }
    return text + call + ");\n";
  }

  const KernelIR& kernel_;
  const PointwiseForm& form_;
  int vector_;
  bool has_strided_ = false;
};

}  // namespace

std::string pointwise_text(const KernelIR& kernel,
                           const PointwiseForm& form,
                           std::size_t parameter_bytes) {
  return PointwiseText(kernel, form).make(parameter_bytes);
}

}  // namespace hearth::gpu
