// The reader of the sources, on which all repo tests depend.
#include <gtest/gtest.h>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

TEST(SourceTree, BlanksCommentsAndLiterals) {
  EXPECT_EQ(strip_comments_and_literals("a // mutex\nb"), "a         \nb");
  EXPECT_EQ(strip_comments_and_literals("a /* x\ny */ b"), "a     \n     b");
  EXPECT_EQ(strip_comments_and_literals("f(\"a\\\"b\", 'c');"), "f(      ,    );");
  EXPECT_EQ(strip_comments_and_literals("f(R\"x(a\")x\") g"), "f(         ) g");
}

TEST(SourceTree, KeepsDigitSeparatorsAndIncludes) {
  EXPECT_EQ(strip_comments_and_literals("1'000 + x"), "1'000 + x");
  EXPECT_EQ(strip_comments_and_literals("#include \"a.hpp\"\n"), "#include \"a.hpp\"\n");
}

TEST(SourceTree, FindsWholeTokensOnly) {
  EXPECT_TRUE(has_token("std::mutex m;", "std::mutex"));
  EXPECT_FALSE(has_token("std::mutexes m;", "std::mutex"));
  EXPECT_FALSE(has_token("my_sleep(1)", "sleep"));
  EXPECT_TRUE(has_token("my_sleep(sleep)", "sleep"));
  EXPECT_TRUE(has_token("tbb::task", "tbb::"));
}

TEST(SourceTree, ReadsIncludePaths) {
  EXPECT_EQ(included_path("#include <hearth/a/b.hpp>"), "<hearth/a/b.hpp");
  EXPECT_EQ(included_path("#include \"b.hpp\""), "\"b.hpp");
  EXPECT_EQ(included_path("int x;"), "");
}

TEST(SourceTree, SeesThisFile) {
  bool is_seen = false;
  for (const SourceFile& file : load_source_tree()) {
    is_seen = is_seen || file.path == "tests/repo/source_tree_test.cpp";
  }
  EXPECT_TRUE(is_seen);
}

}  // namespace
}  // namespace hearth::repo
