// Kernels from shared objects: their results, and refusals. KERNEL_HALVES and KERNEL_QUARTERS are
// the files.
#include "bench/kernels/kernel_file.hpp"

#include "bench/kernels/measuring.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using ::testing::HasSubstr;

KernelRequest request() {
  return {.inputs = {parse_operand("x:f32[4,128]").value()}};
}

std::vector<Row> compared(const std::string& mine, const std::string& other, int cores = 1) {
  const auto device = BenchDevice::open("cpu:0", cores).value();
  const KernelFile challenger = KernelFile::load(mine, request()).value();
  const KernelFile incumbent = KernelFile::load(other, request()).value();
  return measure_versions(*device,
                          {.incumbent = incumbent.problem(),
                           .challenger = challenger.problem(),
                           .incumbent_name = other,
                           .challenger_name = mine},
                          {});
}

TEST(KernelFile, ASharedObjectComputesTheBytesOfItsExpression) {
  const std::vector<Row> rows = compared(KERNEL_HALVES, "x*0.5");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[1].is_wrong) << rows[1].check;
  EXPECT_EQ(rows[1].check, "equal bytes, 3 sets");
  EXPECT_EQ(rows[1].bytes, 2.0 * 4 * 128 * 4);
}

TEST(KernelFile, AFasterButWrongOneIsWrong) {
  const std::vector<Row> rows = compared(KERNEL_QUARTERS, KERNEL_HALVES);
  EXPECT_TRUE(rows[1].is_wrong);
  EXPECT_FALSE(rows[1].time.is_known());
  EXPECT_EQ(exit_of({.rows = rows}, true), Exit::wrong);
}

TEST(KernelFile, MistakesSayWhatToWrite) {
  const auto mistake = [](const std::string& source) {
    return KernelFile::load(source, request()).error().text;
  };
  EXPECT_THAT(mistake("none.so"), HasSubstr("none.so: there is no such file"));
  EXPECT_THAT(mistake("x*z"), HasSubstr("there is no --input z"));
  EXPECT_THAT(parse_operand("x:f32").error().text, HasSubstr("write x:f32[4096,4096]"));
  EXPECT_THAT(parse_operand("x:f33[2]").error().text, HasSubstr("no element type 'f33'"));
  EXPECT_THAT(KernelFile::load("x", {}).error().text, HasSubstr("--input"));
}

TEST(KernelFile, TheHeaderIsPartOfTheProgram) {
  EXPECT_THAT(std::string(kernel_header()), HasSubstr("void kernel(const hearth_call* call);"));
}

}  // namespace
}  // namespace hearth::bench
