// CSV: fields, types, missing values, rows, and texts that are no table.
#include <hearth/modules/csv.hpp>

#include <hearth/runtime/base/error.hpp>

#include "tests/base/temporary_folder.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::string_view text, const CsvOptions& options = {}) {
  try {
    (void)parse_csv(text, options, "t.csv");
  } catch (const Exception& error) {
    EXPECT_NE(error.error().location.line, 0U);
    return error.error().text;
  }
  return "nothing thrown";
}

TEST(Csv, GivesEachColumnTheFirstTypeThatFits) {
  const CsvTable table = parse_csv("a,b,c,d\n1,1.5,x,\n-2,2,7,NA\n+3,1e3,y,\n");
  ASSERT_EQ(table.row_count(), 3);
  EXPECT_EQ(table.column("a").type, CsvType::integer);
  EXPECT_THAT(table.column("a").integers, ElementsAre(1, -2, 3));
  EXPECT_EQ(table.column("b").type, CsvType::real);
  EXPECT_THAT(table.column("b").reals, ElementsAre(1.5, 2, 1000));
  EXPECT_EQ(table.column("c").type, CsvType::text);
  EXPECT_THAT(table.column("c").texts, ElementsAre("x", "7", "y"));
  EXPECT_EQ(table.column("d").type, CsvType::real) << "of nothing but gaps";
  EXPECT_THAT(table.column("d").is_missing, ElementsAre(1, 1, 1));
  EXPECT_EQ(parse_csv("a\n9223372036854775808\n").column("a").type, CsvType::real);
}

TEST(Csv, ReadsQuotesLinesAndSpaces) {
  const CsvTable table =
      parse_csv("\xef\xbb\xbfname,\"no, of\"\"s\"\r\n\"a, \"\"b\"\"\nc\", 7 \r\n\r\n\"\",\"8\"");
  EXPECT_THAT(table.column("name").texts, ElementsAre("a, \"b\"\nc", ""));
  EXPECT_THAT(table.column("name").is_missing, ElementsAre(0, 0)) << "\"\" is an empty text";
  EXPECT_THAT(table.column("no, of\"s").integers, ElementsAre(7, 8));
  EXPECT_THAT(parse_csv("a;b\n1;x\"y\n", {.separator = ';'}).column("b").texts,
              ElementsAre("x\"y"));
  const CsvTable bare = parse_csv("1,2\n3,4\n", {.header = false});
  EXPECT_THAT(bare.column("1").integers, ElementsAre(2, 4));
  for (const char separator : {'"', '\n', '\r'}) {
    EXPECT_THROW(static_cast<void>(parse_csv("a\n1\n", {.separator = separator})), ArgumentError);
  }
}

TEST(Csv, NamesHaveNoBlanksAroundThemUnlessTheyAreQuoted) {
  const CsvTable table = parse_csv("a, b ,\" c\"\n1,2,3\n");
  EXPECT_TRUE(table.has_column("b"));
  EXPECT_TRUE(table.has_column(" c"));
  try {
    static_cast<void>(table.column("c"));
    FAIL() << "there is no column c";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().text, "CsvTable: there is no column 'c'; there are 'a', 'b', ' c'");
  }
}

TEST(Csv, KnowsEachLineEnd) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string line = end;
    const CsvTable table = parse_csv("a,b" + line + "1,x" + line + line + "2,\"y" + line + "z\"");
    EXPECT_EQ(table.row_count(), 2);
    EXPECT_THAT(table.column("a").integers, ElementsAre(1, 2));
    EXPECT_THAT(table.column("b").texts, ElementsAre("x", "y" + line + "z"));
  }
}

TEST(Csv, KeepsWhatWasWritten) {
  const CsvTable table = parse_csv("a,b\n007,1.50\n,2\n");
  EXPECT_EQ(table.column("a").text(0), "007");
  EXPECT_EQ(table.column("a").text(1), "");
  EXPECT_EQ(table.column("b").text(0), "1.50");
  const CsvTable made({{.name = "n", .type = CsvType::integer, .integers = {7}},
                       {.name = "r", .type = CsvType::real, .reals = {0.5}}});
  EXPECT_EQ(made.column("n").text(0), "7");
  EXPECT_EQ(made.column("r").text(0), "0.5");
}

TEST(Csv, KnowsMissingValues) {
  const CsvTable table =
      parse_csv("a,b,c\n1,x,?\n,,2.5\nNA,\"NA\",\"\"\n", {.missing = {"", "NA", "?"}});
  EXPECT_THAT(table.column("a").is_missing, ElementsAre(0, 1, 1));
  EXPECT_EQ(table.column("a").number(0), 1);
  EXPECT_TRUE(std::isnan(table.column("a").number(1)));
  EXPECT_THAT(table.column("b").is_missing, ElementsAre(0, 1, 0));
  EXPECT_THAT(table.column("b").texts, ElementsAre("x", "", "NA"));
  EXPECT_EQ(table.column("c").type, CsvType::real);
  EXPECT_THAT(table.column("c").is_missing, ElementsAre(1, 0, 1));
}

TEST(Csv, TakesTheTypesItIsTold) {
  const CsvOptions options{.types = {{"zip", CsvType::text}, {"n", CsvType::real}}};
  const CsvTable table = parse_csv("zip,n\n01234,1\n", options);
  EXPECT_THAT(table.column("zip").texts, ElementsAre("01234"));
  EXPECT_THAT(table.column("n").reals, ElementsAre(1));
  EXPECT_EQ(refusal("a,n\n1,2\n1,3x\n", {.types = {{"n", CsvType::real}}}),
            "csv: t.csv: line 3: '3x' in column 'n' is no number");
  EXPECT_EQ(refusal("n\n1.5\n", {.types = {{"n", CsvType::integer}}}),
            "csv: t.csv: line 2: '1.5' in column 'n' is no whole number");
  EXPECT_EQ(refusal("a,n\n1,2\n", {.types = {{"m", CsvType::real}}}),
            "CsvTable: a type is given for 'm', but the columns of t.csv are 'a', 'n'");
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_EQ(refusal("a,b\n1,2\n\"x\ny\",2\n1\n"),
            "csv: t.csv: line 5: the row has 1 fields, expected 2");
  EXPECT_EQ(refusal("a,b\n1,\"2\n"), "csv: t.csv: line 2: a quote that begins here does not end");
  EXPECT_EQ(refusal("a,b\n\"1\"2,3\n"),
            "csv: t.csv: line 2: something follows the quote that ends a field");
  EXPECT_EQ(refusal("a,a\n1,2\n"), "csv: t.csv: line 1: two columns are called 'a'");
  EXPECT_THAT(refusal(""), HasSubstr("there are no rows"));
  EXPECT_THAT(refusal("a,b\n"), HasSubstr("there are no rows"));
}

TEST(Csv, ReadsFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW((void)read_csv(folder.path() / "none.csv"), FileError);
  std::ofstream(folder.path() / "t.csv") << "a\n4\n";
  EXPECT_THAT(read_csv(folder.path() / "t.csv").column("a").integers, ElementsAre(4));
}

TEST(CsvTable, GivesSomeOfItsRows) {
  const CsvTable table = parse_csv("a,b\n1,x\n2,\n3,z\n");
  const CsvTable some = table.rows(std::vector<std::int64_t>{2, 0, 2});
  EXPECT_THAT(some.column("a").integers, ElementsAre(3, 1, 3));
  EXPECT_THAT(some.column("b").texts, ElementsAre("z", "x", "z"));
  EXPECT_THAT(table.slice(1, 3).column("b").is_missing, ElementsAre(1, 0));
  EXPECT_EQ(table.slice(1, 1).row_count(), 0);
  EXPECT_THROW((void)table.slice(2, 4), ArgumentError);
  EXPECT_THROW((void)table.rows(std::vector<std::int64_t>{3}), ArgumentError);
  EXPECT_TRUE(table.has_column("b"));
  try {
    (void)table.column("c");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().text, "CsvTable: there is no column 'c'; there are 'a', 'b'");
  }
}

TEST(CsvTable, KnowsTheLineOfEachOfItsRows) {
  const CsvTable table = parse_csv("a\r\n1\r\n\r\n\"\n\"\r\n3", {}, "t.csv");
  EXPECT_THAT(table.origin().lines, ElementsAre(2, 4, 6));
  EXPECT_EQ(table.slice(1, 3).rows(std::vector<std::int64_t>{1, 0}).place_of(0), "t.csv: line 6");
  EXPECT_EQ(parse_csv("4\n5\n", {.header = false}, "").place_of(1), "line 2");
  EXPECT_THROW((void)table.place_of(3), ArgumentError);
  const std::vector<CsvColumn> columns{{.name = "a", .texts = {"x", "y"}}};
  EXPECT_EQ(CsvTable(columns).slice(1, 2).place_of(0), "row 0");
  EXPECT_EQ(CsvTable(columns, CsvOrigin{"a.csv", {7, 9}}).place_of(1), "a.csv: line 9");
  EXPECT_THROW((void)CsvTable(columns, CsvOrigin{"a.csv", {7}}), ArgumentError);
}

TEST(CsvTable, IsMadeOfColumnsOfOneSize) {
  const auto made = [](std::vector<CsvColumn> columns) { return CsvTable(std::move(columns)); };
  EXPECT_EQ(made({{.name = "a", .type = CsvType::real, .reals = {1, 2}}}).row_count(), 2);
  EXPECT_THROW((void)made({{.name = "a", .type = CsvType::real, .reals = {1, 2}},
                           {.name = "b", .texts = {"x"}}}),
               ArgumentError);
  EXPECT_THROW((void)made({{.name = "a", .texts = {"x"}}, {.name = "a", .texts = {"y"}}}),
               ArgumentError);
}

TEST(CsvTable, RefusesRowsAndSharesThatAreNoneAtTheirLines) {
  const CsvTable table = parse_csv("a,b\n1,x\n2,y\n");
  const auto expect_refused = [](const auto& ask, const char* text, std::uint32_t line) {
    try {
      ask();
      ADD_FAILURE() << "taken: " << text;
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().text, text);
      EXPECT_EQ(error.error().location.line, line);
      EXPECT_FALSE(error.error().op.empty());
    }
  };
  expect_refused([&] { (void)table.column("a").number(7); },
                 "CsvColumn: 'a' has no row 7: there are 2, counted from 0",
                 __LINE__ - 2);
  expect_refused([&] { (void)table.column("b").number(2); },
                 "CsvColumn: 'b' has no row 2: there are 2, counted from 0",
                 __LINE__ - 2);
  expect_refused([&] { (void)table.column("b").text(-1); },
                 "CsvColumn: 'b' has no row -1: there are 2, counted from 0",
                 __LINE__ - 2);
  expect_refused([&] { (void)split_rows(table, 1.5); },
                 "split_rows: the train_share 1.5 is not in 0 to 1",
                 __LINE__ - 2);
}

TEST(CsvTable, SplitsIntoTwoPartsThatLeaveNoRowOut) {
  std::string text = "a\n";
  for (int i = 0; i < 100; ++i) {
    text += std::to_string(i) + "\n";
  }
  const CsvTable table = parse_csv(text);
  const TableSplit parts = split_rows(table, 0.8, 3);
  EXPECT_EQ(parts.train.row_count(), 80);
  const std::vector<std::int64_t>& test = parts.test.column("a").integers;
  EXPECT_TRUE(std::ranges::is_sorted(test));
  std::vector<std::int64_t> all = parts.train.column("a").integers;
  all.insert(all.end(), test.begin(), test.end());
  std::ranges::sort(all);
  EXPECT_EQ(all, table.column("a").integers);
  EXPECT_EQ(split_rows(table, 0.8, 3).test.column("a").integers, test);
  EXPECT_NE(split_rows(table, 0.8, 4).test.column("a").integers, test);
  EXPECT_EQ(split_rows(table, 1).test.row_count(), 0);
  EXPECT_THROW((void)split_rows(table, 1.1), ArgumentError);
}

// A number below the smallest double becomes 0, one beyond the largest becomes infinity. The column
// stays numeric, and a value that cannot be used is refused with its line.
TEST(Csv, ANumberOutsideOfTheRangeOfDoublesIsTheNearest) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const std::string zeros(400, '0');
  for (const auto& [text, wanted] :
       std::vector<std::pair<std::string, double>>{{"1e-400", 0},
                                                   {"-1e-400", -0.0},
                                                   {"0." + zeros + "1", 0},
                                                   {"1" + zeros, kInfinite},
                                                   {"1" + zeros + "e-800", 0},
                                                   {"0." + zeros + "1e900", kInfinite},
                                                   {"1e400", kInfinite},
                                                   {"-1e+400", -kInfinite},
                                                   {"1e99999999999999999999", kInfinite},
                                                   {"1e-99999999999999999999", 0},
                                                   {"1e-9223372036854775808", 0},
                                                   {"0e99999999999999999999", 0},
                                                   {"4.9e-324", 5e-324},
                                                   {"1e-310", 1e-310},
                                                   {"inf", kInfinite},
                                                   {" +1e-400 ", 0}}) {
    const CsvTable table = parse_csv("p\n0.5\n" + text + "\n");
    const CsvColumn& column = table.columns()[0];
    ASSERT_EQ(column.type, CsvType::real) << text;
    EXPECT_EQ(column.reals[1], wanted) << text;
    EXPECT_EQ(std::signbit(column.reals[1]), std::signbit(wanted)) << text;
  }
  EXPECT_EQ(parse_csv("p\n0.5\n1e-400x\n").columns()[0].type, CsvType::text);
}

TEST(Csv, ATextThatReadsAsNaNIsMissingAmongNumbersAlone) {
  const CsvTable table = parse_csv("a,b,c\n1,-nan,x\n-nan,2,-nan\n\"NaN\",NAN,nancy\n");
  EXPECT_EQ(table.columns()[0].type, CsvType::integer);
  EXPECT_THAT(table.columns()[0].is_missing, ElementsAre(0, 1, 1));
  EXPECT_THAT(table.columns()[1].is_missing, ElementsAre(1, 0, 1));
  EXPECT_THAT(table.columns()[2].texts, ElementsAre("x", "-nan", "nancy"));
  EXPECT_THAT(table.columns()[2].is_missing, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace hearth
