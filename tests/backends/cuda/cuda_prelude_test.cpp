#include "backends/cuda/text/cuda_prelude.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hearth::cuda {
namespace {

TEST(CudaPrelude, MakesFloatsOfLiterals) {
  EXPECT_EQ(with_literals("x * 1.0 + .5 - 1e-3 + 1.5e+2"), "x * 1.0f + .5f - 1e-3f + 1.5e+2f");
}

TEST(CudaPrelude, MakesDoublesOfMarkedLiterals) {
  EXPECT_EQ(with_literals("x < 0.0lf ? 1e-308lf : -1.5e3lf"), "x < 0.0 ? 1e-308 : -1.5e3");
}

TEST(CudaPrelude, LeavesOtherNumbersAndWords) {
  const std::string text = "0x1e5u + 7u + 12l + 3ul + 1.0f + x1.y + load4_f32(a2e) + b[3].z";
  EXPECT_EQ(with_literals(text), text);
}

TEST(CudaPrelude, NamesTheStringsOfLines) {
  EXPECT_EQ(with_literals("a\n#line 1 2\nb 1.0\n"), "a\n#line 1 \"text2\"\nb 1.0f\n");
}

TEST(CudaPrelude, LeavesTheLinesOfAProgram) {
  const std::string text = cuda_text(gpu::glsl_prelude({.threads = 64}) + "float a = 1.0;" +
                                     std::string(gpu::kProgramLines) + "double b = 1.0;" +
                                     std::string(gpu::kProgramLinesEnd) + "float c = 1.0;\n");
  EXPECT_NE(text.find("float a = 1.0f;\n#line 1 \"text1\"\ndouble b = 1.0;\n#line 1 \"text2\"\n"
                      "float c = 1.0f;\n"),
            std::string::npos)
      << text;
}

TEST(CudaPrelude, PutsTheTextIntoAStruct) {
  const std::string text = cuda_text(gpu::glsl_prelude({.threads = 64}) +
                                     gpu::glsl_parameters("int n; ", 4) + "FN void main() {}\n");
  EXPECT_TRUE(text.starts_with("#define GROUP_THREADS 64\n#define INDEX int\n"));
  EXPECT_LT(text.find("struct Kernel {"), text.find("PARAMETERS int n;"));
  EXPECT_NE(text.find(kEntryName), std::string::npos);
}

}  // namespace
}  // namespace hearth::cuda
