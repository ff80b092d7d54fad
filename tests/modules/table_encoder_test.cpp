// Tables as numbers: parameters learned from the training rows and applied to all other rows.
#include <hearth/modules/table_encoder.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ResultOf;

template <class T>
std::vector<T> values(const HostArray& array) {
  const std::span<const T> all = array.values<T>();
  return {all.begin(), all.end()};
}

template <class Fn>
std::string refusal(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.error().text;
  }
  return "nothing thrown";
}

// Present sizes have mean 2 and deviation 1, prices mean 20 and deviation 10.
const CsvTable kTrain = parse_csv("size,kind,price\n1,b,10\n3,a,30\n,b,10\n2,,30\n");
const CsvTable kOther = parse_csv("size,kind,price\n2.5,c,20\n");
const double kDeviation = std::sqrt(2.0 / 3);

TEST(TableEncoder, StandardisesNumbersAndNamesCategories) {
  const TableEncoder encoder(kTrain, {.target = "price"});
  EXPECT_THAT(encoder.input_names(), ElementsAre("size", "kind=a", "kind=b"));
  const ArrayDataset data = encoder.encode(kTrain);
  EXPECT_EQ(data.examples().inputs.shape(), (Shape{4, 3}));
  const auto far = static_cast<float>(1 / kDeviation);
  EXPECT_THAT(
      values<float>(data.examples().inputs),
      Pointwise(FloatNear(1e-6F), std::vector<float>{-far, 0, 1, far, 1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_THAT(values<float>(data.examples().targets), ElementsAre(-1, 1, -1, 1));
  EXPECT_EQ(data.examples().targets.shape(), (Shape{4, 1}));
  EXPECT_EQ(encoder.target_value(-1), 10);
}

TEST(TableEncoder, DoesTheSameToOtherRows) {
  const TableEncoder encoder(kTrain, {.target = "price"});
  EXPECT_THAT(
      values<float>(encoder.encode(kOther).examples().inputs),
      Pointwise(FloatNear(1e-6F), std::vector<float>{static_cast<float>(0.5 / kDeviation), 0, 0}));
  const CsvTable question = parse_csv("kind,size\na,2\n");
  EXPECT_THAT(values<float>(encoder.encode_features(question).examples().inputs),
              ElementsAre(0, 1, 0));
}

TEST(TableEncoder, LeavesNumbersAsTheyAreWhenTold) {
  const TableEncoder encoder(kTrain,
                             {.target = "price",
                              .leave_out = {"kind"},
                              .standardise = false,
                              .standardise_target = false});
  const ArrayDataset data = encoder.encode(kTrain);
  EXPECT_THAT(values<float>(data.examples().inputs), ElementsAre(1, 3, 2, 2));
  EXPECT_THAT(values<float>(data.examples().targets), ElementsAre(10, 30, 10, 30));
}

TEST(TableEncoder, CodesCategoriesForAnEmbedding) {
  const TableEncoder encoder(kTrain, {.target = "price", .categories = CategoryCode::index});
  EXPECT_EQ(encoder.width(), 1);
  EXPECT_THAT(encoder.categories("kind"), ElementsAre("a", "b"));
  const ArrayDataset data = encoder.encode(kTrain);
  EXPECT_THAT(values<std::int64_t>(data.examples().at("kind")), ElementsAre(2, 1, 2, 0));
  EXPECT_THAT(values<std::int64_t>(encoder.encode(kOther).examples().at("kind")), ElementsAre(0));
  EXPECT_THROW((void)encoder.categories("size"), ArgumentError);
}

TEST(TableEncoder, TellsOfACategoryThatDidNotTrain) {
  const testing::EnvironmentVariable level("HEARTH_LOG_LEVEL", "warn");
  const CsvTable odd = parse_csv("size,kind,price\n2,a,1\n2,c,2\n2,,3\n2,d,4\n", {}, "odd.csv");
  for (const CategoryCode code : {CategoryCode::one_hot, CategoryCode::index}) {
    const TableEncoder encoder(kTrain, {.target = "price", .categories = code});
    EXPECT_EQ(encoder.unknown_count(odd), 2) << "a missing one is none";
    EXPECT_EQ(encoder.unknown_count(kTrain), 0);
    ::testing::internal::CaptureStderr();
    (void)encoder.encode(kTrain);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    ::testing::internal::CaptureStderr();
    (void)encoder.encode(odd);
    for (const TableEncoder& copy : std::vector<TableEncoder>{encoder, encoder}) {
      (void)copy.encode_features(odd);
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said,
                HasSubstr("TableEncoder: odd.csv: line 3: 'c' in column 'kind' was in no training "
                          "row, as the texts there of 2 rows in all: such a text is 0 in all "
                          "columns, or the index 0 (TableOptions::unknown)"));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << "once";
  }
  const TableEncoder quiet(kTrain, {.target = "price", .unknown = UnknownCategory::ignore});
  ::testing::internal::CaptureStderr();
  (void)quiet.encode(odd);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TableEncoder, RefusesACategoryThatDidNotTrainWhenTold) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "encoder.json";
  const TableEncoder made(kTrain, {.target = "price", .unknown = UnknownCategory::refuse});
  made.save(file);
  for (const TableEncoder& encoder : {made, TableEncoder::load(file)}) {
    EXPECT_EQ(refusal([&] { (void)encoder.encode(kOther); }),
              "TableEncoder: text: line 2: 'c' in column 'kind' was in no training row; there "
              "were a, b");
    EXPECT_EQ(refusal([&] { (void)encoder.encode(kTrain); }), "nothing thrown") << "gaps are known";
  }
}

TEST(TableEncoder, AClassIsItsOwnTargetValue) {
  const TableEncoder encoder(kTrain, {.target = "kind", .leave_out = {"price"}});
  EXPECT_EQ(encoder.target_value(1), 1);
  const TableEncoder priced(kTrain, {.target = "price"});
  EXPECT_EQ(priced.target_value(0.5) - priced.target_value(0), 5) << "a distance";
}

TEST(TableEncoder, NumbersClasses) {
  const CsvTable table = parse_csv("x,label\n1,10\n2,3\n3,10\n");
  const TableEncoder encoder(table, {.target = "label", .target_is_class = true});
  EXPECT_THAT(encoder.classes(), ElementsAre("3", "10"));
  EXPECT_THAT(values<std::int64_t>(encoder.encode(table).examples().targets), ElementsAre(1, 0, 1));
  EXPECT_EQ(refusal([&] { (void)encoder.encode(parse_csv("x,label\n1,4\n")); }),
            "TableEncoder: text: line 2: the class '4' in column 'label' is in no training row; "
            "the classes there are 3, 10");
  const CsvTable texts = parse_csv("x,label\n1,no\n2,yes\n");
  EXPECT_THAT(TableEncoder(texts, {.target = "label"}).classes(), ElementsAre("no", "yes"));
  EXPECT_THAT(refusal([&] {
                TableEncoder(parse_csv("x,y\n1,2\n1,0.5\n"),
                             {.target = "y", .target_is_class = true});
              }),
              HasSubstr("the classes in column 'y' are no whole numbers below 2^53: '0.5', "
                        "text: line 3"));
}

// pandas writes whole numbers like this if the column has gaps or was computed.
TEST(TableEncoder, TakesWholeNumbersWithAPointAsClasses) {
  const CsvTable table = parse_csv("x,label\n1,1.0\n2,0.0\n3,10.0\n4,1.0\n");
  const TableEncoder encoder(table, {.target = "label", .target_is_class = true});
  EXPECT_THAT(encoder.classes(), ElementsAre("0", "1", "10"));
  EXPECT_THAT(values<std::int64_t>(encoder.encode(table).examples().targets),
              ElementsAre(1, 0, 2, 1));
  const CsvTable whole = parse_csv("x,label\n1,10\n2,0\n");
  EXPECT_THAT(values<std::int64_t>(encoder.encode(whole).examples().targets), ElementsAre(2, 0));
  EXPECT_THAT(refusal([&] {
                TableEncoder(parse_csv("x,y\n1,inf\n1,1.0\n"),
                             {.target = "y", .target_is_class = true});
              }),
              HasSubstr("the classes in column 'y' are no whole numbers below 2^53: 'inf', "
                        "text: line 2"));
}

TEST(TableEncoder, TreatsMissingValuesAsTold) {
  const TableEncoder dropping(kTrain, {.target = "price", .missing = MissingValue::drop});
  EXPECT_THAT(values<float>(dropping.encode(kTrain).examples().targets), ElementsAre(-1, 1));
  const TableEncoder refusing(kTrain, {.target = "price", .missing = MissingValue::refuse});
  EXPECT_EQ(refusal([&] { (void)refusing.encode(kTrain); }),
            "TableEncoder: text: line 4: no value in column 'size'");
  const TableEncoder filling(kTrain, {.target = "price"});
  EXPECT_EQ(refusal([&] { (void)filling.encode(parse_csv("size,kind,price\n1,a,\n2,b,1\n")); }),
            "TableEncoder: text: line 2: no value in column 'price'");
}

TEST(TableEncoder, RefusesColumnsThatDoNotFit) {
  EXPECT_EQ(refusal([] { TableEncoder(kTrain, {.target = "cost"}); }),
            "CsvTable: there is no column 'cost'; there are 'size', 'kind', 'price'");
  EXPECT_THROW(TableEncoder(kTrain, {.leave_out = {"colour"}}), ArgumentError);
  EXPECT_THROW(TableEncoder(parse_csv("a\n1\n"), {.target = "a"}), ArgumentError);
  EXPECT_EQ(
      refusal([] { TableEncoder(kTrain, {.max_categories = 1}); }),
      "TableEncoder: column 'kind' has 2 different texts, 'a' and 'b' among them: leave it out, "
      "read it as another type, or raise max_categories (1)");
  EXPECT_THAT(refusal([] { TableEncoder(parse_csv("a\n1\ninf\n"), {}); }),
              HasSubstr("text: line 3: column 'a' is inf"));
  const TableEncoder encoder(kTrain, {.target = "price"});
  EXPECT_THAT(
      refusal([&] { (void)encoder.encode(parse_csv("size,kind,price\n7,a,1\nbig,a,1\n")); }),
      HasSubstr("column 'size' had numbers in the training rows, and has texts here: "
                "'big', text: line 3"));
}

// A quoted field with a line break, an empty line, a split, a slice: the reported line stays right.
TEST(TableEncoder, NamesTheLineOfTheFileWhateverRowsWereChosen) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "flats.csv";
  std::string text = "size,note,price\n1,\"two\nlines\",10\n\n";
  for (int row = 0; row < 20; ++row) {
    text += row == 16 ? ",gap,1\n" : "2,whole,1\n";  // the gap is on line 21
  }
  std::ofstream(file) << text;
  const CsvTable flats = read_csv(file);
  const std::string expected =
      "TableEncoder: " + file.string() + ": line 21: no value in column 'size'";
  const TableOptions options{
      .target = "price", .leave_out = {"note"}, .missing = MissingValue::refuse};
  const TableEncoder encoder(flats, options);
  EXPECT_EQ(refusal([&] { (void)encoder.encode(flats.slice(10, 21)); }), expected);
  const TableSplit half = split_rows(flats, 0.5, 3);
  int gaps = 0;
  for (const CsvTable* const part : {&half.train, &half.test}) {
    const std::string said = refusal([&] { (void)encoder.encode(*part); });
    if (said != "nothing thrown") {
      EXPECT_EQ(said, expected);
      ++gaps;
    }
  }
  EXPECT_EQ(gaps, 1);
  const CsvTable made(
      {{.name = "size", .type = CsvType::real, .reals = {1, 2}, .is_missing = {0, 1}},
       {.name = "price", .type = CsvType::real, .reals = {1, 2}}});
  EXPECT_EQ(refusal([&] { (void)encoder.encode(made); }),
            "TableEncoder: row 1: no value in column 'size'");
}

TEST(TableEncoder, ComparesCategoriesAsTheyWereWritten) {
  const CsvTable table = parse_csv("zip,x\n01234,1\nX99,2\n02345,3\n");
  const TableEncoder encoder(table, {});
  // Taken alone these columns would be whole numbers, numbers, or empty.
  for (const char* zip : {"01234", " 01234", "1234", "1234.0", ""}) {
    const CsvTable asked = parse_csv(std::string("zip,x\n") + zip + ",2\n");
    const bool is_known = std::string(zip) == "01234";
    EXPECT_THAT(values<float>(encoder.encode_features(asked).examples().inputs),
                ElementsAre(0, is_known ? 1 : 0, 0, 0))
        << zip;
  }
  const CsvTable classes = parse_csv("x,label\n1,07\n2,8\n");
  const TableEncoder numbered(classes, {.target = "label", .target_is_class = true});
  EXPECT_THAT(
      values<std::int64_t>(numbered.encode(parse_csv("x,label\n1,7\n1,007\n")).examples().targets),
      ElementsAre(0, 0));
}

TEST(TableEncoder, LearnsNothingFromRowsThatItDrops) {
  const CsvTable table = parse_csv("x,kind,y\n1,a,1\n3,b,3\n1000,,2\n2000,c,\n");
  const TableEncoder encoder(table, {.target = "y", .missing = MissingValue::drop});
  EXPECT_THAT(encoder.categories("kind"), ElementsAre("a", "b"));
  EXPECT_THAT(values<float>(encoder.encode(table).examples().inputs),
              ElementsAre(-1, 1, 0, 1, 0, 1));
  EXPECT_EQ(refusal([] { TableEncoder(parse_csv("x,y\n1,\n"), {.missing = MissingValue::drop}); }),
            "TableEncoder: every row lacks a value, and such rows are dropped");
}

TEST(TableEncoder, AConstantColumnKeepsItsSize) {
  std::string text = "x,y\n";
  for (int row = 0; row < 10; ++row) {
    text += "0.1,0.3\n";
  }
  const TableEncoder encoder(parse_csv(text), {.target = "y"});
  const Examples other = encoder.encode(parse_csv("x,y\n0.2,0.3\n0.1,1.3\n")).examples();
  EXPECT_THAT(values<float>(other.inputs), ElementsAre(0.1F, 0));
  EXPECT_THAT(values<float>(other.targets), ElementsAre(0, 1));
}

// One rule in learning and encoding, for features and targets, standardised and not.
TEST(TableEncoder, RefusesNumbersThatAreNotFiniteInF32) {
  struct Case {
    const char* value;
    bool is_standardised_alone;  // refused only without standardisation
  };
  for (const Case& each : {Case{"inf", false},
                           Case{"-inf", false},
                           Case{"1e400", false},
                           Case{"1e300", true},
                           Case{"-1e39", true}}) {
    for (const bool standardise : {true, false}) {
      const TableOptions options{
          .target = "y", .standardise = standardise, .standardise_target = standardise};
      const bool is_learned = standardise && each.is_standardised_alone;
      for (const char* row : {"{},1", "1,{}"}) {
        const std::string text =
            fmt::format("a,y\n1,2\n{}\n", fmt::format(fmt::runtime(row), each.value));
        const CsvTable table = parse_csv(text, {}, "t.csv");
        const std::string place = fmt::format("TableEncoder: t.csv: line 3: column '{}' is {}",
                                              row[0] == '{' ? "a" : "y",
                                              table.columns()[row[0] == '{' ? 0 : 1].number(1));
        const std::string learned = refusal([&] { TableEncoder(table, options); });
        if (is_learned) {
          EXPECT_EQ(learned, "nothing thrown") << text;
        } else {
          EXPECT_THAT(learned, HasSubstr(place));
        }
        const TableEncoder encoder(parse_csv("a,y\n1,1\n2,2\n3,4\n"), options);
        EXPECT_THAT(refusal([&] { (void)encoder.encode(table); }), HasSubstr(place));
      }
    }
  }
}

TEST(TableEncoder, ATextThatIsNaNIsMissing) {
  const CsvTable table = parse_csv("a,y\n1,1\n-nan,2\nNAN,3\n+nan,4\n3,5\n");
  EXPECT_EQ(table.columns()[0].type, CsvType::integer);
  EXPECT_THAT(table.columns()[0].is_missing, ElementsAre(0, 1, 1, 1, 0));
  const TableEncoder encoder(table, {.target = "y"});
  EXPECT_THAT(values<float>(encoder.encode(table).examples().inputs), ElementsAre(-1, 0, 0, 0, 1));
  EXPECT_EQ(refusal([&] { (void)encoder.encode(parse_csv("a,y\n1,-nan\n2,1\n")); }),
            "TableEncoder: text: line 2: no value in column 'y'");
}

TEST(TableEncoder, LearnsFromTheWholeRangeOfDoubles) {
  const CsvTable table = parse_csv("a,y\n1e200,1.7e308\n-1e200,-1.7e308\n");
  const TableEncoder encoder(table, {.target = "y"});
  const Examples examples = encoder.encode(table).examples();
  EXPECT_THAT(values<float>(examples.inputs), ElementsAre(1, -1));
  EXPECT_THAT(values<float>(examples.targets), ElementsAre(1, -1));
}

// Everything that a constructor accepts is restored from a file, to the bit.
TEST(TableEncoder, AllThatIsLearnedComesBackFromAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "encoder.json";
  const std::vector<std::string> numbers{"",
                                         "0",
                                         "-0.0",
                                         "1",
                                         "0.1",
                                         "1e-400",
                                         "5e-324",
                                         "-1e-310",
                                         "1e200",
                                         "-1e200",
                                         "1e38",
                                         "nan",
                                         "1.7976931348623157e308",
                                         "-1.7e308",
                                         "123456789012345678"};
  const std::vector<std::string> texts{"a", "\"b, \"\"c\"\"\"", "\xc3\xbc", "", "\x01"};
  std::mt19937_64 random(20);
  int learned = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = "a,b,kind,y\n";
    const std::size_t kinds = 1 + random() % numbers.size();
    for (std::size_t row = 0; row < 1 + random() % 6; ++row) {
      const auto number = [&] { return numbers[random() % kinds]; };
      text +=
          number() + "," + number() + "," + texts[random() % texts.size()] + "," + number() + "\n";
    }
    const CsvTable table = parse_csv(text);
    const TableOptions options{.target = random() % 2 == 0 ? "y" : "",
                               .categories = static_cast<CategoryCode>(random() % 2),
                               .standardise = random() % 2 == 0,
                               .standardise_target = random() % 2 == 0};
    std::optional<TableEncoder> made;
    try {
      made.emplace(table, options);
    } catch (const ArgumentError&) {
      continue;  // a number beyond the range of f32
    }
    ++learned;
    made->save(file);
    const TableEncoder read = TableEncoder::load(file);
    const Examples a = made->encode_features(table).examples();
    const Examples b = read.encode_features(table).examples();
    EXPECT_EQ(values<float>(a.inputs), values<float>(b.inputs)) << text;
    EXPECT_THAT(values<float>(a.inputs),
                Each(ResultOf([](float v) { return std::isfinite(v); }, true)))
        << text;
    EXPECT_EQ(read.target_value(0), made->target_value(0));
    EXPECT_EQ(read.target_value(1), made->target_value(1));
  }
  EXPECT_GT(learned, 100);
}

TEST(TableEncoder, AFlippedBitAnywhereIsFoundOrChangesNothing) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "encoder.json";
  const TableEncoder made(kTrain, {.target = "price"});
  made.save(file);
  std::stringstream whole;
  whole << std::ifstream(file).rdbuf();
  for (std::size_t bit = 0; bit < 8 * whole.str().size(); ++bit) {
    std::string bad = whole.str();
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    std::filesystem::remove(file);  // otherwise the file system waits for its disk
    std::ofstream(file, std::ios::binary) << bad;
    try {
      const TableEncoder read = TableEncoder::load(file);
      EXPECT_EQ(read.input_names(), made.input_names()) << bad;
      EXPECT_EQ(read.target_value(1), made.target_value(1)) << bad;
      EXPECT_EQ(values<float>(read.encode(kTrain).examples().inputs),
                values<float>(made.encode(kTrain).examples().inputs))
          << bad;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
    }
  }
}

TEST(TableEncoder, ReadsAFileOfBeforeThereWasAChecksum) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "encoder.json";
  std::ofstream(file) << R"({"hearth_table_encoder": 1, "code": 0, "missing": 0, "unknown": 0,
    "numbers": [{"column": "size", "mean": 2, "deviation": 0.5}],
    "categories": [{"column": "kind", "texts": ["a", "b"]}], "classes": [],
    "target": {"column": "price", "mean": 20, "deviation": 10}})";
  const TableEncoder read = TableEncoder::load(file);
  EXPECT_THAT(values<float>(read.encode(kOther).examples().inputs), ElementsAre(1, 0, 0));
  EXPECT_EQ(read.target_value(1), 30);
}

TEST(TableEncoder, ComesBackFromAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "encoder.json";
  for (const CategoryCode code : {CategoryCode::one_hot, CategoryCode::index}) {
    const TableEncoder made(kTrain, {.target = "price", .categories = code});
    made.save(file);
    const TableEncoder read = TableEncoder::load(file);
    EXPECT_EQ(read.input_names(), made.input_names());
    const ArrayDataset a = made.encode(kTrain);
    const ArrayDataset b = read.encode(kTrain);
    EXPECT_EQ(values<float>(a.examples().inputs), values<float>(b.examples().inputs));
    EXPECT_EQ(values<float>(a.examples().targets), values<float>(b.examples().targets));
    EXPECT_EQ(a.examples().more.size(), b.examples().more.size());
    EXPECT_EQ(read.target_value(0.3), made.target_value(0.3));
  }
  std::ofstream(file, std::ios::trunc) << "{\"hearth_table_encoder\": 1}";
  EXPECT_THAT(refusal([&] { (void)TableEncoder::load(file); }), HasSubstr("encoder.json: "));
  std::ofstream(file, std::ios::trunc) << "no json";
  EXPECT_THAT(refusal([&] { (void)TableEncoder::load(file); }),
              HasSubstr("encoder.json: parse error at line 1, column 2"));
  EXPECT_THROW((void)TableEncoder::load(folder.path() / "none"), FileError);
}

}  // namespace
}  // namespace hearth
