// Messages of NVRTC 13.0 and of g++ 12, and what a program reads of them.
#include "backends/cuda/kernels/program_errors.hpp"

#include <gtest/gtest.h>

#include <string>

namespace hearth::cuda {
namespace {

std::string text_with(const std::string& own) {
  return "struct Kernel {\n#line 1 \"text1\"\n" + own +
         "\n#line 1 \"text2\"\nFN void main() {}\n};\n";
}

TEST(ProgramErrors, QuoteTheLinesOfTheProgram) {
  const std::string text = text_with("// mine\nvoid kernel() {\n  set_y(ID, x(ID) * ahsre);\n}");
  const std::string wanted = "the CUDA text does not compile:\n  line 3: ";
  EXPECT_EQ(program_errors("text1(1): warning #177-D: variable \"z\" was never referenced\n"
                           "  // mine\n\n"
                           "text1(3): error: identifier \"ahsre\" is undefined\n"
                           "    set_y(ID, x(ID) * ahsre);\n                      ^\n\n"
                           "text2(1): error: expected a \";\"\n\n"
                           "2 errors detected in the compilation of \"kernel.cu\".\n",
                           text),
            wanted + "identifier \"ahsre\" is undefined\n    set_y(ID, x(ID) * ahsre);");
  EXPECT_EQ(program_errors("text1: In member function 'void hearth_kernel::Kernel::kernel()':\n"
                           "text1:3:21: error: 'ahsre' was not declared in this scope\n",
                           text),
            wanted + "'ahsre' was not declared in this scope\n    set_y(ID, x(ID) * ahsre);");
}

TEST(ProgramErrors, NameWhatTheTextLacksAsAWhole) {
  const std::string begin = "the CUDA text does not compile: ";
  EXPECT_EQ(program_errors("text2(3): error: identifier \"kernel\" is undefined\n      kernel();\n",
                           text_with("void kernal() {}")),
            begin + "it has no function 'void kernel()', without parameters, which is what runs");
  EXPECT_EQ(program_errors("text2(1): error: invalid redeclaration of member function "
                           "\"hearth_kernel::Kernel::main()\" (declared at line 1 of text1)\n",
                           text_with("void main() {}\nvoid kernel() {}")),
            begin + "it has a function 'main', which is Hearth's own: call it 'kernel'");
  EXPECT_EQ(program_errors("text2(1): error: \"inline\" is not allowed\n"
                           "text2(11): error: class \"hearth_kernel::Kernel\" has no member "
                           "\"main\"\nAt end of source: error: expected a \"}\"\n",
                           text_with("void kernel() {\n  set_y(ID, x(ID));\n\n")),
            begin +
                "it ends too early: a brace, a bracket or an #endif is missing, at its end or "
                "before\n    set_y(ID, x(ID));");
}

TEST(ProgramErrors, PassOnWhatTheyDoNotKnow) {
  EXPECT_EQ(program_errors("no program", text_with("void kernel() {}")),
            "the CUDA text does not compile: no program");
}

}  // namespace
}  // namespace hearth::cuda
