// The parser of pages, and that a wrong page fails.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "page.hpp"
#include "page_program.hpp"
#include "page_run.hpp"

namespace hearth::docs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string program(const std::string& text, const std::vector<std::string>& examples = {}) {
  return page_program({parse_page("docs/a.md", text)}, examples);
}

TEST(Pages, HaveTheirBlocksInOrder) {
  const Page page = parse_page("a.md",
                               "words\n```cpp compiles\nint a;\n```\n<!-- test\nint b;\n-->\n"
                               "```sh\nls\n```\n<!-- test: fresh -->\n");
  ASSERT_EQ(page.blocks.size(), 4U);
  EXPECT_EQ(page.blocks[0].language, "cpp");
  EXPECT_TRUE(page.blocks[0].has_word("compiles"));
  EXPECT_EQ(page.blocks[0].line, 3);
  EXPECT_TRUE(page.blocks[1].hidden);
  EXPECT_THAT(page.blocks[1].lines, ElementsAre("int b;"));
  EXPECT_EQ(page.blocks[2].language, "sh");
  EXPECT_TRUE(page.blocks[3].has_word("fresh"));
}

TEST(Pages, OfDoxygenHaveThemToo) {
  const Page page = parse_page(
      "a.dox", "words\n\\code\nint a;\n\\endcode\n\n\\verbatim\n1\n\\endverbatim\n\\ref b\n");
  ASSERT_EQ(page.blocks.size(), 2U);
  EXPECT_EQ(page.blocks[0].language, "cpp");
  EXPECT_EQ(page.blocks[0].line, 3);
  EXPECT_THAT(page.blocks[0].lines, ElementsAre("int a;"));
  EXPECT_EQ(output_of(page, 0), &page.blocks[1]);
  EXPECT_THAT(page.blocks[1].lines, ElementsAre("1"));
}

TEST(Pages, ABlockWithoutItsEndIsRefused) {
  EXPECT_THROW(static_cast<void>(parse_page("a.md", "```cpp\nint a;\n")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(parse_page("a.dox", "\\code\nint a;\n")), std::runtime_error);
}

TEST(Programs, TypesAndFunctionsComeBeforeTheStatements) {
  const std::string text = program(
      "```cpp\n#include <vector>\nint n = 1;\nstruct A {\n  int b;\n};\n"
      "hearth::Tensor twice(const hearth::Tensor& x) {\n  return 2 * x;\n}\nif (n > 1) "
      "{\n}\n```\n");
  const std::size_t test = text.find("TEST(docs_a_md, Part1)");
  ASSERT_NE(test, std::string::npos) << text;
  EXPECT_LT(text.find("#include <vector>"), test);
  EXPECT_LT(text.find("struct A {"), test);
  EXPECT_LT(text.find("hearth::Tensor twice("), test);
  EXPECT_GT(text.find("int n = 1;"), test);
  EXPECT_GT(text.find("if (n > 1) {"), test);
  EXPECT_THAT(text, HasSubstr("#line 3 \"docs/a.md\"\nint n = 1;"));
}

TEST(Programs, AFreshStartForgetsTheNamesOfBefore) {
  const std::string text =
      program("```cpp\nint a;\n```\n<!-- test: fresh -->\n```cpp\nint a;\n```\n");
  EXPECT_THAT(text, HasSubstr("TEST(docs_a_md, Part1)"));
  EXPECT_THAT(text, HasSubstr("TEST(docs_a_md, Part2)"));
}

TEST(Programs, ALineThatPromisesAnErrorIsHeldToIt) {
  const std::string text =
      program("```cpp\na();\nb(1,\n  2);  // throws ShapeError: differ\nc();\n```\n");
  EXPECT_THAT(text, HasSubstr("expect_throw<hearth::ShapeError>(4, \"differ\", [&] {"));
  EXPECT_LT(text.find("a();"), text.find("expect_throw"));
  EXPECT_GT(text.find("b(1,"), text.find("expect_throw"));
  EXPECT_GT(text.find("c();"), text.find("});"));
  EXPECT_THROW(static_cast<void>(program("```cpp\na();  // throws two words\n```\n")),
               std::runtime_error);
}

TEST(Programs, WhatOnlyCompilesIsNotRun) {
  EXPECT_THAT(program("```cpp compiles\na();\n```\n"), HasSubstr("docs_compiles_2 = [&] {"));
}

TEST(Programs, TheEndOfAnExampleIsLeftToIt) {
  const std::string example = "#include <a>\n\nint main() {\n  return 0;\n}\n";
  const std::string block = "```cpp\nint main() {\n  return 0;\n}\n```\n";
  EXPECT_THAT(program(block), HasSubstr("docs_main"));
  EXPECT_THAT(program(block, {example}), Not(HasSubstr("docs_main")));
  EXPECT_THAT(program("```cpp\n}\n```\n", {example}), HasSubstr("Part1")) << "not any end";
}

TEST(Programs, AMainNeedsNoReturn) {
  EXPECT_THAT(program("```cpp\nstruct A {\n}\nint main() {\n  a();\n}\n```\n"),
              HasSubstr("struct A {\n}\nint docs_main() {\n  a();\nreturn 0; }\n"));
}

TEST(Programs, WhatABlockPrintsStandsBehindIt) {
  EXPECT_THAT(program("```cpp\na();\n```\n```text\n3 \"4\"\n```\n"),
              HasSubstr(R"(expect_output(5, "3 \"4\"\n)"));
  EXPECT_THAT(program("```cpp\na();\n```\n\nThe log says:\n\n```text\n3\n```\n"),
              Not(HasSubstr("expect_output")));
}

TEST(Output, FitsWithItsGaps) {
  EXPECT_TRUE(fits("a 1\nb 2\n", "a 1\nb 2"));
  EXPECT_TRUE(fits("a 1\nb 2\nc\n", "a …\n…\nc"));
  EXPECT_TRUE(fits("a 1 of 3\n", "a … of …"));
  EXPECT_FALSE(fits("a 1\nb 2\n", "a 1"));
  EXPECT_FALSE(fits("a 1\n", "a 1\nb 2"));
  EXPECT_FALSE(fits("a 1\n", "b …"));
}

// The runs of wrong pages. Static, because EXPECT_NONFATAL_FAILURE runs its statement in another
// function.
void print_three(PageRun& page) {
  page.begin_block(7);
  std::printf("3\n");
}

TEST(Runs, OfARightPagePass) {
  PageRun page("a.md");
  print_three(page);
  page.expect_output(9, "3\n");
  page.expect_throw<std::runtime_error>(8, "bad", [] { throw std::runtime_error("a bad one"); });
}

TEST(Runs, OfAPageWithWrongOutputFail) {
  EXPECT_NONFATAL_FAILURE(
      {
        PageRun page("a.md");
        print_three(page);
        page.expect_output(9, "4\n");
      },
      "a.md:9 should be what is printed");
}

TEST(Runs, OfAPageWhoseErrorDoesNotComeFail) {
  EXPECT_NONFATAL_FAILURE(
      {
        PageRun page("a.md");
        page.expect_throw<std::runtime_error>(8, "", [] {});
      },
      "a.md:8 throws nothing");
  EXPECT_NONFATAL_FAILURE(
      {
        PageRun page("a.md");
        page.expect_throw<std::runtime_error>(8, "", [] { throw std::logic_error("other"); });
      },
      "throws something else: other");
  EXPECT_NONFATAL_FAILURE(
      {
        PageRun page("a.md");
        page.expect_throw<std::runtime_error>(8, "x", [] { throw std::runtime_error("other"); });
      },
      "a.md:8 says: other");
}

}  // namespace
}  // namespace hearth::docs
