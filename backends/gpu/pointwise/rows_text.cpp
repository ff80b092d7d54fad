#include "rows_text.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/kernel/pointwise.hpp>

#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_library.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/gpu/text/glsl_vectors.hpp"
#include "backends/gpu/text/kernel_printer.hpp"
#include "backends/gpu/text/row_stages.hpp"

namespace hearth::gpu {
namespace {

// Element k of the chunk that begins at column `col` is element e of those that a thread keeps.
class RowsText {
 public:
  RowsText(const KernelIR& kernel, const RowForm& form)
      : kernel_(kernel),
        form_(form),
        stages_(kernel),
        printer_(kernel, glsl_spelling()),
        keeps_(form.chunks > 0),
        kept_elements_(form.chunks * form.vector) {}

  // Phases: main, which determines the functions that it calls; then those functions, in front of
  // it.
  std::string make(std::size_t parameter_bytes) {
    const std::string main = main_function();
    std::string text = glsl_prelude({.threads = form_.threads, .wide_index = form_.is_wide});
    text += access_functions();
    text += glsl_parameters(members(), parameter_bytes);
    text += form_.is_wide ? "" : glsl_divide();
    text += find_function("find_row", "INDEX row", 0, form_.kept_rank);
    text += find_function("find_element", "INDEX col", form_.kept_rank, form_.row_rank);
    text += glsl_philox_caches(printer_.philox_caches());
    text += glsl_math(printer_.math());
    text += glsl_divisors(printer_.divisors());
    text += glsl_row_threads();
    return text + glsl_library(main + joins_) + joins_ + main;
  }

 private:
  [[nodiscard]] std::size_t inputs() const noexcept { return kernel_.inputs.size(); }
  [[nodiscard]] bool is_one(std::size_t input) const noexcept {
    return form_.access[input] == RowAccess::one;
  }
  [[nodiscard]] const KernelNode& node(std::int32_t place) const noexcept {
    return kernel_.node(place);
  }
  [[nodiscard]] bool is_leaf_of_place(std::int32_t place) const noexcept {
    return node(place).primitive == Primitive::position ||
           node(place).primitive == Primitive::index;
  }
  [[nodiscard]] bool is_input(std::int32_t place) const noexcept {
    return node(place).primitive == Primitive::input;
  }
  [[nodiscard]] std::size_t input_of(std::int32_t place) const noexcept {
    return static_cast<std::size_t>(node(place).number);
  }
  [[nodiscard]] std::string_view input_type(std::size_t i) const noexcept {
    return glsl_compute_type(kernel_.inputs[i].dtype);
  }
  [[nodiscard]] std::string_view loop() const noexcept {
    return form_.is_rolled ? "ROLLED" : "UNROLLED";
  }
  [[nodiscard]] bool is_of_rows(std::size_t output) const noexcept {
    return hearth::is_of_rows(kernel_.outputs[output].map);
  }

  // ---- in front of main ----

  [[nodiscard]] std::string access_functions() const {
    if (form_.vector == 1) {
      return {};
    }
    std::uint32_t types = 0;
    for (std::size_t i = 0; i < inputs(); ++i) {
      types |= is_one(i) ? 0U : 1U << static_cast<unsigned>(kernel_.inputs[i].dtype);
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      types |= is_of_rows(i) ? 0U : 1U << static_cast<unsigned>(kernel_.outputs[i].dtype);
    }
    std::string text(glsl_vector_types());
    for (int type = 0; type < kDTypeCount; ++type) {
      if ((types >> static_cast<unsigned>(type) & 1U) != 0) {
        text += glsl_vector_access(static_cast<DType>(type), form_.vector);
      }
    }
    return text;
  }

  [[nodiscard]] std::string members() const {
    std::string text;
    for (std::size_t i = 0; i < inputs(); ++i) {
      text += fmt::format("uint64_t x{}; ", i);
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      text += fmt::format("uint64_t y{}; ", i);
    }
    text += "INDEX rows; INDEX columns; " + glsl_parameter_members(kernel_);
    const int rank = form_.kept_rank + form_.row_rank;
    for (int axis = 1; axis < rank; ++axis) {
      if (axis == form_.kept_rank) {
        continue;
      }
      text += form_.is_wide ? fmt::format("int64_t n{}; ", axis)
                            : fmt::format("uint n{0}; uint factor{0}; uint shift{0}; ", axis);
    }
    for (std::size_t i = 0; i < inputs(); ++i) {
      const int axes = form_.access[i] == RowAccess::strided ? rank : form_.kept_rank;
      for (int axis = 0; axis < axes; ++axis) {
        text += fmt::format("INDEX t{}_{}; ", i, axis);
      }
    }
    return text;
  }

  // Defines the offsets of the operands' elements from their first, along some of the axes.
  [[nodiscard]] std::string find_function(std::string_view name,
                                          std::string_view parameter,
                                          int first_axis,
                                          int axes) const {
    const bool is_row = first_axis == 0 && name == "find_row";
    std::string text = fmt::format("FN void {}({}", name, parameter);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (is_row || form_.access[i] == RowAccess::strided) {
        found.push_back(i);
        text += fmt::format(", OUT(INDEX) o{}", i);
      }
    }
    if (found.empty()) {
      return {};
    }
    const std::string_view number = form_.is_wide ? "int64_t" : "uint";
    text += fmt::format(") {{\n{0} rest = {0}({1});\n{0} next;\n{0} at;\n",
                        number,
                        parameter.substr(parameter.find(' ') + 1));
    for (const std::size_t i : found) {
      text += fmt::format("o{} = 0;\n", i);
    }
    for (int axis = first_axis + axes - 1; axis >= first_axis; --axis) {
      if (axis == first_axis) {
        text += "at = rest;\n";
      } else {
        text += form_.is_wide
                    ? fmt::format("next = rest / p.n{};\n", axis)
                    : fmt::format("next = divide(rest, p.factor{0}, p.shift{0});\n", axis);
        text += fmt::format("at = rest - next * p.n{};\nrest = next;\n", axis);
      }
      for (const std::size_t i : found) {
        text += fmt::format("o{0} += INDEX(at) * p.t{0}_{1};\n", i, axis);
      }
    }
    return text + "}\n";
  }

  // ---- main ----

  [[nodiscard]] std::string main_function() {
    std::string text = fmt::format(
        "FN void main() {{\n"
        "const uint thread = uint(row_thread());\n"
        "const uint lane = thread & {}u;\n"
        "const INDEX wanted = INDEX(GROUP) * {} + INDEX(thread / {}u);\n"
        "const bool is_row = wanted < p.rows;\n"
        "const INDEX row = is_row ? wanted : 0;\n"
        "const int64_t index0 = int64_t(row);\n",
        form_.row_threads - 1,
        form_.threads / form_.row_threads,
        form_.row_threads);
    std::string call = "find_row(row";
    for (std::size_t i = 0; i < inputs(); ++i) {
      text += fmt::format("INDEX r{};\n", i);
      call += fmt::format(", r{}", i);
    }
    text += inputs() == 0 ? "" : call + ");\n";
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (is_one(i)) {
        text += fmt::format("const {} x{} = load_{}(p.x{}, r{});\n",
                            input_type(i),
                            i,
                            glsl_suffix(kernel_.inputs[i].dtype),
                            i,
                            i);
      }
    }
    text += keeping();
    for (int stage = 0; stage < stages_.count; ++stage) {
      text += row_values(stage);
      text += elements(stage);
      text += joined(stage);
    }
    return text + row_stores() + "}\n";
  }

  // Declares values that stay from one stage to a later one.
  [[nodiscard]] std::string keeping() {
    std::string text;
    for (std::int32_t place = 0; keeps_ && place < kernel_.node_count(); ++place) {
      const auto at = static_cast<std::size_t>(place);
      if (!stages_.is_kept[at] || stages_.is_of_rows[at] || is_leaf_of_place(place) ||
          (is_input(place) && is_one(input_of(place)))) {
        continue;
      }
      const DType type = node(place).type;
      text += fmt::format("{}{} h{}[{}];\n",
                          is_float(type) ? "precise " : "",
                          glsl_compute_type(type),
                          place,
                          kept_elements_);
      if (is_input(place)) {
        printer_.rename(place, fmt::format("h{}[e]", place));
      } else {
        printer_.keep_in(place, fmt::format("h{}[e]", place));
      }
    }
    return text;
  }

  // Computes values per row in their first possible stage. Folds have names already.
  [[nodiscard]] std::string row_values(int stage) {
    std::string text;
    for (std::int32_t place = 0; place < kernel_.node_count(); ++place) {
      const auto at = static_cast<std::size_t>(place);
      if (stages_.is_of_rows[at] && stages_.stage[at] == stage &&
          node(place).primitive != Primitive::fold) {
        printer_.print(place, text);
      }
    }
    return text;
  }

  [[nodiscard]] std::string elements(int stage) {
    const std::vector<std::int32_t> places = stages_.elements_of(kernel_, stage, keeps_);
    const std::vector<std::int32_t> folds = stages_.folds_of(kernel_, stage);
    const bool stores = stage == stages_.count - 1;
    std::string text;
    for (const std::int32_t fold : folds) {
      text += fmt::format("{}{} f{} = {};\n",
                          is_float(node(fold).type) ? "precise " : "",
                          glsl_compute_type(node(fold).type),
                          fold,
                          glsl_fold_start(fold_op(fold), node(fold).type));
    }
    if (keeps_) {
      text += fmt::format(
          "{} for (int c = 0; c < {}; ++c) {{\n"
          "const INDEX col = (INDEX(lane) + c * {}) * {};\n"
          "if (col < p.columns) {{\n",
          loop(),
          form_.chunks,
          form_.row_threads,
          form_.vector);
    } else {
      text +=
          fmt::format("for (INDEX col = INDEX(lane) * {0}; col < p.columns; col += {1}) {{\n{{\n",
                      form_.vector,
                      form_.vector * form_.row_threads);
    }
    text += loads(places);
    if (stores) {
      for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
        if (!is_of_rows(i)) {
          text += fmt::format(
              "{} b{}[{}];\n", glsl_compute_type(kernel_.outputs[i].dtype), i, form_.vector);
        }
      }
    }
    text += fmt::format("{} for (int k = 0; k < {}; ++k) {{\n", loop(), form_.vector);
    if (keeps_) {
      text += fmt::format("const int e = c * {} + k;\n", form_.vector);
    }
    text +=
        "const int64_t index1 = int64_t(col + k);\n"
        "const int64_t place = int64_t(row) * int64_t(p.columns) + index1;\n";
    for (const std::int32_t place : places) {
      if (!is_input(place) && !is_leaf_of_place(place)) {
        printer_.print(place, text);
      }
    }
    for (const std::int32_t fold : folds) {
      const std::string name = fmt::format("f{}", fold);
      text += fmt::format(
          "{} = {};\n",
          name,
          glsl_fold_step(
              fold_op(fold), node(fold).type, name, printer_.value(node(fold).operands[0])));
    }
    return text + (stores ? element_stores() : "}\n") + "}\n}\n";
  }

  // Loads stand before all work of a chunk, so several are in flight.
  [[nodiscard]] std::string loads(const std::vector<std::int32_t>& places) {
    std::string text;
    bool has_found = false;
    for (const std::int32_t place : places) {
      if (!is_input(place)) {
        continue;
      }
      const std::size_t i = input_of(place);
      if (is_one(i)) {
        continue;
      }
      const DType dtype = kernel_.inputs[i].dtype;
      text += fmt::format("{} a{}[{}];\n", input_type(i), i, form_.vector);
      if (form_.access[i] == RowAccess::strided) {
        text += has_found ? "" : find_elements();
        has_found = true;
        text += fmt::format("a{0}[0] = load_{1}(p.x{0}, r{0} + q{0});\n", i, glsl_suffix(dtype));
      } else if (form_.vector == 1) {
        text += fmt::format("a{0}[0] = load_{1}(p.x{0}, r{0} + col);\n", i, glsl_suffix(dtype));
      } else {
        text += fmt::format("load_{1}x{2}(p.x{0} + uint64_t(int64_t(r{0} + col) * {3}l), a{0});\n",
                            i,
                            glsl_suffix(dtype),
                            form_.vector,
                            size_bytes(dtype));
      }
      if (keeps_ && stages_.is_kept[static_cast<std::size_t>(place)]) {
        text += fmt::format(
            "{3} for (int k = 0; k < {0}; ++k) {{\nh{1}[c * {0} + k] = "
            "a{2}[k];\n}}\n",
            form_.vector,
            place,
            i,
            loop());
      } else {
        printer_.rename(place, fmt::format("a{}[k]", i));
      }
    }
    return text;
  }

  [[nodiscard]] std::string find_elements() const {
    std::string text;
    std::string call = "find_element(col";
    for (std::size_t i = 0; i < inputs(); ++i) {
      if (form_.access[i] == RowAccess::strided) {
        text += fmt::format("INDEX q{};\n", i);
        call += fmt::format(", q{}", i);
      }
    }
    return text + call + ");\n";
  }

  // Stores behind the work on element k, and stores behind the work on the whole vector.
  [[nodiscard]] std::string element_stores() const {
    std::string text;
    std::string behind = "}\nif (is_row) {\n";
    bool has_any = false;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (is_of_rows(i)) {
        continue;
      }
      has_any = true;
      const DType dtype = kernel_.outputs[i].dtype;
      text += fmt::format("b{}[k] = {};\n", i, printer_.stored(i));
      behind +=
          form_.vector == 1
              ? fmt::format(
                    "store_{1}(p.y{0}, row * p.columns + col, b{0}[0]);\n", i, glsl_suffix(dtype))
              : fmt::format(
                    "store_{1}x{2}(p.y{0} + uint64_t(row * p.columns + col) * {3}ul, "
                    "b{0});\n",
                    i,
                    glsl_suffix(dtype),
                    form_.vector,
                    size_bytes(dtype));
    }
    return has_any ? text + behind + "}\n" : "}\n";
  }

  [[nodiscard]] FoldOp fold_op(std::int32_t place) const noexcept {
    return static_cast<FoldOp>(node(place).number);
  }

  // The folds of a stage, over all threads of the row.
  [[nodiscard]] std::string joined(int stage) {
    std::string text;
    for (const std::int32_t fold : stages_.folds_of(kernel_, stage)) {
      const FoldOp op = fold_op(fold);
      const DType type = node(fold).type;
      const std::string join = glsl_join_name(op, type);
      if (joins_.find(" " + join + "(") == std::string::npos) {
        joins_ += glsl_join(
            op == FoldOp::mean ? FoldOp::sum : op, type, form_.row_threads, form_.threads);
      }
      text += fmt::format("f{0} = {1}(f{0});\n", fold, join);
      if (op == FoldOp::mean) {
        text += fmt::format("f{0} = f{0} / {1}(p.columns);\n", fold, glsl_compute_type(type));
      }
      printer_.rename(fold, fmt::format("f{}", fold));
    }
    return text;
  }

  // An output may overlay an input of the row: all of its threads have read it by now.
  [[nodiscard]] std::string row_stores() const {
    std::string stores;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (is_of_rows(i)) {
        stores += fmt::format("store_{}(p.y{}, row, {});\n",
                              glsl_suffix(kernel_.outputs[i].dtype),
                              i,
                              printer_.stored(i));
      }
    }
    return stores.empty() ? stores : "barrier();\nif (is_row && lane == 0u) {\n" + stores + "}\n";
  }

  const KernelIR& kernel_;
  const RowForm& form_;
  RowStages stages_;
  BodyPrinter printer_;
  bool keeps_;
  int kept_elements_;
  std::string joins_ = {};
};

}  // namespace

std::string rows_text(const KernelIR& kernel, const RowForm& form, std::size_t parameter_bytes) {
  return RowsText(kernel, form).make(parameter_bytes);
}

}  // namespace hearth::gpu
