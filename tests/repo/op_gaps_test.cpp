// The op table defines the ops; other tables implement them. A kind in the op table must be in the
// other tables as OpKind::name, or in kGaps with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <regex>

#include <hearth/streams/op_table.hpp>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

struct Gap {
  OpKind kind;
  std::string_view place;  // the start of a path, as in the tests below
  std::string_view reason;
};

const std::vector<Gap> kGaps{
    {OpKind::sgd_step, "runtime/", "an expression since; traces of version 2 have it"},
    {OpKind::adam_step, "runtime/", "an expression since; traces of version 2 have it"},
    {OpKind::expression,
     "tests/conformance/",
     "what it computes is a program's: tests/runtime/ops/expression_test.cpp"},
    {OpKind::custom,
     "tests/conformance/",
     "what it computes is a program's: tests/runtime/ops/custom_kernel_test.cpp"},
};

// The enumerator, where the program calls the op by another name.
std::string enumerator(OpKind kind) {
  static const std::map<OpKind, std::string> others{{OpKind::fill, "fill"},
                                                    {OpKind::min, "min"},
                                                    {OpKind::max, "max"},
                                                    {OpKind::reduce_sum, "reduce_sum"},
                                                    {OpKind::reduce_mean, "reduce_mean"},
                                                    {OpKind::reduce_max, "reduce_max"},
                                                    {OpKind::reduce_min, "reduce_min"},
                                                    {OpKind::reduce_prod, "reduce_prod"}};
  const auto found = others.find(kind);
  return "OpKind::" + (found != others.end() ? found->second : std::string(name(kind)));
}

bool has_kernel(const OpInfo& op) {
  return op.op_class != OpClass::lifetime && op.op_class != OpClass::view;
}

class OpGaps : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();

  [[nodiscard]] bool names(std::string_view place, OpKind kind) const {
    const std::string token = enumerator(kind);
    return std::ranges::any_of(tree, [&](const SourceFile& file) {
      return file.path.starts_with(place) && file.is_cpp() &&
             std::ranges::any_of(file.code,
                                 [&](const std::string& line) { return has_token(line, token); });
    });
  }

  // The kinds that are due at the place, but are neither there nor excused.
  [[nodiscard]] std::string missing(std::string_view place,
                                    const std::function<bool(const OpInfo&)>& is_due) const {
    std::string kinds;
    for (const OpInfo& op : op_table()) {
      const bool is_excused = std::ranges::any_of(
          kGaps, [&](const Gap& gap) { return gap.kind == op.kind && gap.place == place; });
      if (is_due(op) && !is_excused && !names(place, op.kind)) {
        kinds += std::string(op.name) + " ";
      }
    }
    return kinds;
  }
};

TEST_F(OpGaps, TheReferenceEvaluatesEveryKernelKind) {
  EXPECT_EQ(missing("backends/reference/", has_kernel), "");
}

TEST_F(OpGaps, TheCpuHasAKernelForEveryKernelKind) {
  EXPECT_EQ(missing("backends/cpu/", has_kernel), "");
}

TEST_F(OpGaps, EveryDifferentiableKindHasAGradientRule) {
  EXPECT_EQ(missing("runtime/tape/vjp", [](const OpInfo& op) { return op.differentiable; }), "");
}

TEST_F(OpGaps, SomethingInTheRuntimeEmitsEveryKind) {
  EXPECT_EQ(missing("runtime/", [](const OpInfo&) { return true; }), "");
}

TEST_F(OpGaps, EveryKernelKindHasAConformanceCase) {
  EXPECT_EQ(missing("tests/conformance/", has_kernel), "");
}

TEST_F(OpGaps, EveryKindIsDocumented) {
  for (const OpInfo& op : op_table()) {
    EXPECT_FALSE(op.doc.empty()) << op.name;
  }
}

// An error names the op that the user called, whatever ops it consists of: each public op has a
// mistake in tests/runtime/ops/op_names_test.cpp.
TEST_F(OpGaps, EveryPublicOpHasAMistakeThatNamesIt) {
  const auto file = [&](std::string_view path) {
    const auto found = std::ranges::find(tree, path, &SourceFile::path);
    return found == tree.end() ? std::vector<std::string>() : found->lines;
  };
  const std::vector<std::string> mistakes = file("tests/runtime/ops/op_names_test.cpp");
  const std::regex declared(
      R"(^\[\[nodiscard\]\] (Tensor|TopK|UniqueValues|bool|std::vector<Tensor>) (\w+)\(.*)");
  int ops = 0;
  std::vector<std::string> declarations = file("runtime/ops.hpp");
  for (const std::string_view more : {"runtime/activation_ops.hpp",
                                      "runtime/math_ops.hpp",
                                      "runtime/window_ops.hpp",
                                      "runtime/resample_ops.hpp",
                                      "runtime/selection_ops.hpp",
                                      "runtime/matrix_ops.hpp",
                                      "runtime/distance_ops.hpp",
                                      "runtime/vision_ops.hpp",
                                      "runtime/sequence_losses.hpp",
                                      "runtime/metric_losses.hpp",
                                      "runtime/losses.hpp"}) {
    const std::vector<std::string> lines = file(more);
    declarations.insert(declarations.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : declarations) {
    std::smatch parts;
    if (std::regex_match(line, parts, declared)) {
      ++ops;
      // zeros and ones accept every argument.
      if (parts[2] == "full_integer" || parts[2] == "zeros" || parts[2] == "ones") {
        continue;
      }
      const std::string entry = "{\"" + parts[2].str() + "\"";
      EXPECT_TRUE(std::ranges::any_of(mistakes, [&](const std::string& mistake) {
        return mistake.find(entry) != std::string::npos;
      })) << parts[2].str();
    }
  }
  EXPECT_GT(ops, 100) << "the header is not read";
}

TEST_F(OpGaps, EveryExcuseIsNeededAndSaysWhy) {
  for (const Gap& gap : kGaps) {
    EXPECT_FALSE(gap.reason.empty()) << gap.place << ": " << name(gap.kind);
    EXPECT_FALSE(names(gap.place, gap.kind)) << gap.place << ": " << name(gap.kind);
  }
}

}  // namespace
}  // namespace hearth::repo
