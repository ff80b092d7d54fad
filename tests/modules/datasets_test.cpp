// Data sets in memory, views of other sets, of texts and of folders with pictures, through a
// loader.
#include <hearth/modules/array_dataset.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/dataset_views.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/image_folder.hpp>
#include <hearth/modules/token_windows.hpp>

#include "picture_files.hpp"
#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Numbers = std::vector<std::int64_t>;

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
    return error.what();
  }
  return "nothing thrown";
}

// Example i has the inputs [i, 10*i], the target i and the weight i/2.
ArrayDataset counting(std::int64_t count, std::int64_t first = 0) {
  std::vector<std::vector<float>> inputs;
  Numbers targets;
  std::vector<double> weights;
  for (std::int64_t i = first; i < first + count; ++i) {
    inputs.push_back({static_cast<float>(i), static_cast<float>(10 * i)});
    targets.push_back(i);
    weights.push_back(static_cast<double>(i) / 2);
  }
  return {HostArray::from_rows(inputs),
          HostArray::from(targets),
          {{"weight", HostArray::from(weights)}}};
}

TEST(HostArray, GoesToADeviceAndStaysWhereItIsKept) {
  const TestRuntime runtime;
  HostArray array = HostArray::from(std::vector<float>{1, 2, 3});
  EXPECT_THAT(std::as_const(array).to(runtime.cpu).to_vector<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(values<float>(array), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::move(array).to(runtime.cpu).to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST(HostArray, TakesVectors) {
  const HostArray array = HostArray::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_THAT(values<float>(array.rows(Numbers{2, 0, 2})), ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_THAT(refusal([&] { (void)array.rows(Numbers{3}); }), HasSubstr("no row 3 in f32[3, 2]"));
  EXPECT_THAT(refusal([] {
                (void)HostArray::from(Numbers{1, 2}, {3});
              }),
              HasSubstr("2 values do not fill i64[3]"));
  EXPECT_THAT(refusal([] {
                (void)HostArray::from_rows<float>({{1, 2}, {3}});
              }),
              HasSubstr("row 1 has 1 values, those before 2"));
}

TEST(ArrayDataset, ReadsRowsOfAllItsArrays) {
  const ArrayDataset data = counting(4);
  EXPECT_EQ(data.size(), 4);
  const Examples some = data.read(Numbers{3, 1});
  EXPECT_THAT(values<float>(some.inputs), ElementsAre(3, 30, 1, 10));
  EXPECT_THAT(values<std::int64_t>(some.targets), ElementsAre(3, 1));
  EXPECT_THAT(values<double>(some.at("weight")), ElementsAre(1.5, 0.5));
  EXPECT_EQ(&some.at("inputs"), &some.inputs);
  EXPECT_THAT(refusal([&] { (void)some.at("mask"); }),
              HasSubstr("there is no 'mask'; there are inputs, targets, weight"));
  EXPECT_EQ(data.read({}).inputs.shape(), (Shape{0, 2}));
}

TEST(ArrayDataset, RefusesArraysThatDoNotFit) {
  const HostArray three = HostArray::from(Numbers{1, 2, 3});
  const HostArray two = HostArray::from(Numbers{1, 2});
  EXPECT_THAT(refusal([&] { ArrayDataset(three, two); }),
              HasSubstr("targets i64[2] has 2 rows, those before have 3"));
  EXPECT_THAT(refusal([&] {
                ArrayDataset(two, two, {{"inputs", two}});
              }),
              HasSubstr("two arrays are called 'inputs'"));
  EXPECT_THAT(refusal([&] {
                ArrayDataset(two, two, {{"a", two}, {"a", two}});
              }),
              HasSubstr("two arrays are called 'a'"));
  EXPECT_THAT(refusal([&] { ArrayDataset(two, HostArray(DType::f32, {})); }),
              HasSubstr("targets is one number"));
}

TEST(ArrayDataset, GivesNamedArraysThroughALoader) {
  TestRuntime test;
  const ArrayDataset data = counting(5);
  DataLoader loader(data, test.runtime.executor(), {.batch_size = 2, .shuffle = false});
  const auto batch = loader.next(test.cpu);
  EXPECT_THAT(batch->at("weight").to_vector<double>(), ElementsAre(0, 0.5));
  EXPECT_THAT(batch->at("targets").to_vector<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_THAT(refusal([&] { (void)batch->at("mask"); }), HasSubstr("inputs, targets, weight"));

  const ArrayDataset alone(Examples{{}, {}, {{"pair", HostArray::from(Numbers{1, 2, 3})}}});
  EXPECT_EQ(alone.size(), 3);
  DataLoader pairs(alone, test.runtime.executor(), {.batch_size = 3, .shuffle = false});
  const auto pair = pairs.next(test.cpu);
  EXPECT_FALSE(pair->inputs.is_valid());
  EXPECT_THAT(pair->at("pair").to_vector<std::int64_t>(), ElementsAre(1, 2, 3));
}

// Returns a named array of another length.
class Uneven final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 4; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    return {HostArray(DType::f32, {count}),
            HostArray(DType::f32, {count}),
            {{"mask", HostArray(DType::f32, {count + 1})}}};
  }
};

TEST(DataLoader, LooksAtTheRowsOfNamedArrays) {
  TestRuntime test;
  const Uneven data;
  DataLoader loader(data, test.runtime.executor(), {.batch_size = 2});
  EXPECT_THAT(refusal([&] { (void)loader.next(); }),
              HasSubstr("Uneven::read() of 2 examples returned [3] mask"));
}

TEST(DatasetViews, SubsetsHaveAnOrderOfTheirOwn) {
  const ArrayDataset data = counting(6);
  const SubsetDataset some(data, {5, 0, 5});
  EXPECT_EQ(some.size(), 3);
  EXPECT_THAT(values<std::int64_t>(some.read(Numbers{1, 0, 2}).targets), ElementsAre(0, 5, 5));
  EXPECT_EQ(some.name(), "SubsetDataset of hearth::ArrayDataset");
  EXPECT_THAT(refusal([&] { SubsetDataset(data, {6}); }),
              HasSubstr("there is no example 6 in hearth::ArrayDataset, which has 6"));
}

template <class Data>
concept CanSplit = requires(Data&& data, std::vector<double> shares) {
  random_split(std::forward<Data>(data), shares);
};

TEST(DatasetViews, RandomSplitsLeaveNothingOut) {
  const ArrayDataset data = counting(101);
  const std::vector<SubsetDataset> parts = random_split(data, {0.7, 0.2, 0.1}, 5);
  static_assert(!CanSplit<ArrayDataset>, "the parts would outlive a temporary");
  static_assert(CanSplit<const ArrayDataset&>);
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(parts[0].size(), 71);
  EXPECT_EQ(parts[1].size(), 20);
  Numbers all;
  for (const SubsetDataset& part : parts) {
    all.insert(all.end(), part.numbers().begin(), part.numbers().end());
  }
  EXPECT_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  Numbers expected(101);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(random_split(data, {0.7, 0.2, 0.1}, 5)[1].numbers(), parts[1].numbers());
  EXPECT_NE(random_split(data, {0.7, 0.2, 0.1}, 6)[1].numbers(), parts[1].numbers());
  EXPECT_EQ(random_split(data, {0.25})[0].size(), 25);
  EXPECT_THAT(refusal([&] {
                (void)random_split(data, {0.7, 0.4});
              }),
              HasSubstr("random_split: [0.7, 0.4] are no shares of one whole"));
  EXPECT_THROW((void)random_split(data, {-0.5, 0.5}), ArgumentError);
}

TEST(DatasetViews, ConcatReadsFromAllParts) {
  const ArrayDataset a = counting(3);
  const ArrayDataset b = counting(2, 100);
  const ConcatDataset all({a, b, a});
  EXPECT_EQ(all.size(), 8);
  const Examples some = all.read(Numbers{4, 0, 3, 7, 2});
  EXPECT_THAT(values<std::int64_t>(some.targets), ElementsAre(101, 0, 100, 2, 2));
  EXPECT_THAT(values<float>(some.inputs), ElementsAre(101, 1010, 0, 0, 100, 1000, 2, 20, 2, 20));
  EXPECT_THAT(values<double>(some.at("weight")), ElementsAre(50.5, 0, 50, 1, 1));
  EXPECT_EQ(all.read({}).targets.shape(), Shape{0});
  EXPECT_THROW(ConcatDataset({}), ArgumentError);
}

TEST(DatasetViews, ConcatRefusesPartsThatDoNotFit) {
  const ArrayDataset a = counting(2);
  const HostArray targets = HostArray::from(Numbers{1, 2});
  const std::vector<NamedArray> weight{{"weight", HostArray::from(std::vector<double>{1, 2})}};
  const ArrayDataset narrow(HostArray::from(std::vector<float>{1, 2}, {2, 1}), targets, weight);
  const ArrayDataset wide(
      HostArray::from(std::vector<double>{1, 2, 3, 4}, {2, 2}), targets, weight);
  const ArrayDataset bare(HostArray::from(std::vector<float>{1, 2, 3, 4}, {2, 2}), targets);
  const auto text = [&](const Dataset& b) {
    return refusal([&] { (void)ConcatDataset({a, b}).read(Numbers{0, 2}); });
  };
  EXPECT_THAT(text(narrow), HasSubstr("inputs of the parts do not fit: f32[2, 2] and f32[2, 1]"));
  EXPECT_THAT(text(wide), HasSubstr("inputs of the parts do not fit: f32[2, 2] and f64[2, 2]"));
  EXPECT_THAT(text(bare), HasSubstr("the parts have other arrays:  weight and  none"));
}

TEST(DatasetViews, MapChangesExamplesOnTheirWay) {
  const ArrayDataset data = counting(4);
  const MappedDataset doubled(data, [](Examples examples) {
    for (float& value : examples.inputs.values<float>()) {
      value *= 2;
    }
    return examples;
  });
  EXPECT_THAT(values<float>(doubled.read(Numbers{1}).inputs), ElementsAre(2, 20));
  EXPECT_EQ(doubled.size(), 4);
  const MappedDataset numbered(data, [](Examples examples, std::span<const std::int64_t> numbers) {
    examples.targets = HostArray::from(numbers, {2});
    return examples;
  });
  EXPECT_THAT(values<std::int64_t>(numbered.read(Numbers{3, 2}).targets), ElementsAre(3, 2));
  EXPECT_THROW(MappedDataset(data, MappedDataset::Function()), ArgumentError);
}

TEST(DatasetViews, AMapMayDependOnTheEpochThroughOtherViewsToo) {
  TestRuntime test;
  const ArrayDataset data = counting(4);
  const MappedDataset by_epoch(
      data, [](Examples examples, std::span<const std::int64_t> numbers, std::int64_t epoch) {
        examples.targets = HostArray::from(std::vector<std::int64_t>(numbers.size(), epoch),
                                           {static_cast<std::int64_t>(numbers.size())});
        return examples;
      });
  EXPECT_THAT(values<std::int64_t>(by_epoch.read(Numbers{3, 2}).targets), ElementsAre(0, 0));
  const SubsetDataset some(by_epoch, Numbers{1, 2});
  const MappedDataset same(some, [](Examples examples) { return examples; });
  const ConcatDataset joined({same, same});
  for (const int workers : {0, 2}) {
    DataLoader loader(joined, test.runtime.executor(), {.batch_size = 4, .worker_count = workers});
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const std::optional<HostBatch> batch = loader.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_THAT(values<std::int64_t>(batch->examples.targets), ::testing::Each(epoch));
      EXPECT_FALSE(loader.next().has_value()) << "the end of the epoch";
    }
  }
}

TEST(DatasetViews, AnErrorOfTheirFunctionsKeepsItsWords) {
  TestRuntime test;
  const ArrayDataset data = counting(4);
  const MappedDataset broken(data, [](Examples examples) -> Examples {
    try {
      throw std::runtime_error("the sun is down");
    } catch (...) {
      std::throw_with_nested(
          std::runtime_error("no light for " + std::to_string(examples.inputs.shape()[0])));
    }
  });
  for (const int workers : {0, 1}) {
    DataLoader loader(broken, test.runtime.executor(), {.batch_size = 2, .worker_count = workers});
    EXPECT_THAT(refusal([&] { (void)loader.next(); }),
                AllOf(HasSubstr("batch 0 of epoch 0 of MappedDataset of hearth::ArrayDataset could "
                                "not be read"),
                      HasSubstr("read() threw: no light for 2: the sun is down")));
  }
}

TEST(TokenWindows, LookOneFurtherOn) {
  const std::vector<std::int32_t> tokens{0, 1, 2, 3, 4, 5, 6, 7};
  const TokenWindows pieces(tokens, {.length = 3});
  EXPECT_EQ(pieces.size(), 2);
  const Examples both = pieces.read(Numbers{1, 0});
  EXPECT_EQ(both.inputs.shape(), (Shape{2, 3}));
  EXPECT_THAT(values<std::int32_t>(both.inputs), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(values<std::int32_t>(both.targets), ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_EQ(TokenWindows(tokens, {.length = 3, .stride = 1}).size(), 5);
  EXPECT_THAT(values<std::int32_t>(
                  TokenWindows(tokens, {.length = 3, .stride = 1}).read(Numbers{4}).targets),
              ElementsAre(5, 6, 7));
  EXPECT_EQ(TokenWindows(tokens, {.length = 7}).size(), 1);
  EXPECT_THAT(refusal([&] { TokenWindows(tokens, {.length = 8}); }),
              HasSubstr("8 numbers are too few for a piece of 8 and the one behind it"));
  EXPECT_THROW(TokenWindows(tokens, {.length = 0}), ArgumentError);
  EXPECT_THROW(TokenWindows(tokens, {.stride = -1}), ArgumentError);
}

TEST(TokenWindows, RowsOfTextsAreCutAndFilledUp) {
  const std::vector<std::vector<std::int32_t>> rows{{1, 2, 3}, {}, {4}};
  const HostArray array = padded_rows(rows, 2, 9);
  EXPECT_EQ(array.shape(), (Shape{3, 2}));
  EXPECT_THAT(values<std::int32_t>(array), ElementsAre(1, 2, 9, 9, 4, 9));
  EXPECT_EQ(padded_rows({{1, 2, 3}, {4}}, 2, 9).values<std::int32_t>()[3], 9);
  EXPECT_THROW((void)padded_rows(rows, 0), ArgumentError);
}

TEST(ImageDataset, RefusesAScaleThatMakesNoFiniteNumbers) {
  const LabelledImages one{
      .count = 1, .height = 1, .width = 1, .class_count = 1, .pixels = {255}, .labels = {0}};
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const ImageOptions& options : {ImageOptions{.mean = kNaN},
                                      ImageOptions{.mean = kInfinite},
                                      ImageOptions{.deviation = kNaN},
                                      ImageOptions{.deviation = kInfinite},
                                      ImageOptions{.deviation = -1},
                                      ImageOptions{.deviation = 1e-45F}}) {
    EXPECT_THROW(ImageDataset(one, options), ArgumentError)
        << options.mean << " " << options.deviation;
  }
}

class ImageFolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const Picture& picture, bool is_jpeg = false) const {
    testing::write_bytes(folder.path() / name,
                         is_jpeg ? testing::jpeg_bytes(picture) : testing::png_bytes(picture));
  }
  TemporaryFolder folder;
};

TEST_F(ImageFolderTest, NumbersClassesAndPicturesByName) {
  write("dog/b.png", testing::plain_picture(2, 2, {0, 51, 255}));
  write("dog/a.JPG", testing::plain_picture(2, 2, {128, 128, 128}), true);
  write("cat/one.png", testing::plain_picture(2, 2, {255, 255, 255}));
  std::ofstream(folder.path() / "cat/notes.txt") << "no picture";
  std::ofstream(folder.path() / "readme.txt") << "no class";
  const ImageFolder data(folder.path());
  EXPECT_THAT(data.classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.files()[1].filename(), "a.JPG");
  const Examples all = data.read(Numbers{2, 0});
  EXPECT_EQ(all.inputs.shape(), (Shape{2, 3, 2, 2}));
  EXPECT_THAT(values<std::int64_t>(all.targets), ElementsAre(1, 0));
  const std::vector<float> pixels = values<float>(all.inputs);
  EXPECT_THAT(std::vector<float>(pixels.begin(), pixels.begin() + 12),
              ElementsAre(0, 0, 0, 0, 0.2F, 0.2F, 0.2F, 0.2F, 1, 1, 1, 1));
  EXPECT_THAT(std::vector<float>(pixels.begin() + 12, pixels.end()), Each(1.0F));
}

TEST_F(ImageFolderTest, PassesByWhatOtherProgramsLeave) {
  const Picture picture = testing::plain_picture(2, 2, {7});
  write("cat/a.png", picture);
  write("dog/b.jpg", picture, true);
  const std::vector<std::string> others{".ipynb_checkpoints/a-checkpoint.png",
                                        "__MACOSX/cat/._a.png",
                                        "@eaDir/a.png",
                                        "@Recycle/a.png",
                                        "$RECYCLE.BIN/a.png",
                                        "lost+found/a.png",
                                        ".git/x.png",
                                        "top.png",
                                        "cat/._a.png",
                                        "cat/.ipynb_checkpoints/a.png",
                                        "cat/more/c.png",
                                        "dog/b.gif"};
  for (const std::string& name : others) {
    write(name, picture);
  }
  std::ofstream(folder.path() / "Thumbs.db") << "x";
  std::ofstream(folder.path() / ".DS_Store") << "x";
  std::ofstream(folder.path() / "dog/desktop.ini") << "x";
  const testing::EnvironmentVariable level("HEARTH_LOG_LEVEL", "info");
  ::testing::internal::CaptureStderr();
  const ImageFolder data(folder.path());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("2 images in 2 classes; 15 other entries are skipped, the first is " +
                        (folder.path() / "$RECYCLE.BIN").string()));
  EXPECT_THAT(data.classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.skipped().size(), 15U);
  EXPECT_THAT(values<std::int64_t>(data.read(Numbers{0, 1}).targets), ElementsAre(0, 1));
  const ImageFolder given(folder.path(), {.classes = {"dog", "cat"}});
  EXPECT_EQ(given.size(), 2) << "what is passed by is no unknown class";
  const ImageFolder asked(folder.path(), {.classes = {".git", "cat", "dog"}});
  EXPECT_EQ(asked.size(), 3) << "a hidden one that is named is a class";
}

TEST_F(ImageFolderTest, RefusesAClassThatIsGivenTwice) {
  EXPECT_THAT(refusal([&] {
                ImageFolder data(folder.path(), {.classes = {"cat", "dog", "cat"}});
              }),
              HasSubstr("the class 'cat' is given twice"));
}

TEST_F(ImageFolderTest, AClassOfHiddenFilesAloneIsEmpty) {
  write("cat/.a.png", testing::plain_picture(2, 2, {7}));
  EXPECT_THAT(refusal([&] { ImageFolder data(folder.path()); }),
              HasSubstr("the class has no .png, .jpg or .jpeg"));
}

TEST_F(ImageFolderTest, AFilesBytesSayWhatItIs) {
  write("a/1.JPEG", testing::plain_picture(2, 2, {7}));
  write("a/2.Png", testing::plain_picture(2, 2, {9}), true);
  const ImageFolder data(folder.path(), {.channels = 1});
  EXPECT_EQ(data.read(Numbers{0}).inputs.values<float>()[0], 7.0F / 255);
  EXPECT_EQ(data.read(Numbers{1}).inputs.values<float>()[0], 9.0F / 255);
}

TEST_F(ImageFolderTest, FollowsLinksAndNamesThoseToNowhere) {
  namespace fs = std::filesystem;
  write("data/cat/a.png", testing::plain_picture(2, 2, {7}));
  write("elsewhere/b.png", testing::plain_picture(2, 2, {9}));
  fs::create_directory_symlink("../elsewhere", folder.path() / "data/dog");
  fs::create_symlink("../../elsewhere/b.png", folder.path() / "data/cat/b.png");
  fs::create_directory_symlink("..", folder.path() / "data/cat/loop");
  fs::create_symlink("nowhere", folder.path() / "data/cat/notes.txt");
  fs::create_symlink("nowhere", folder.path() / "data/.#lock");
  const ImageFolder data(folder.path() / "data");
  EXPECT_THAT(data.classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(data.size(), 3);
  fs::create_symlink("nowhere", folder.path() / "data/cat/c.png");
  EXPECT_THAT(refusal([&] { ImageFolder other(folder.path() / "data"); }),
              HasSubstr("cat/c.png: No such file"));
  fs::remove(folder.path() / "data/cat/c.png");
  fs::create_symlink("nowhere", folder.path() / "data/cow");
  EXPECT_THAT(refusal([&] { ImageFolder other(folder.path() / "data"); }),
              HasSubstr("data/cow: No such file"));
  fs::remove(folder.path() / "data/cow");
  fs::create_symlink("cow", folder.path() / "data/cow");
  EXPECT_THAT(refusal([&] { ImageFolder other(folder.path() / "data"); }),
              HasSubstr("data/cow: Too many levels"));
}

TEST_F(ImageFolderTest, TakesTheNumbersOfAnotherFolder) {
  write("dog/a.png", testing::plain_picture(2, 2, {7}));
  const ImageFolder data(folder.path(), {.classes = {"cat", "dog"}});
  EXPECT_THAT(data.classes(), ElementsAre("cat", "dog"));
  EXPECT_THAT(values<std::int64_t>(data.read(Numbers{0}).targets), ElementsAre(1));
  EXPECT_THAT(refusal([&] {
                ImageFolder(folder.path(), {.classes = {"cat", "cow"}});
              }),
              HasSubstr("dog: the class is not among cat, cow"));
}

TEST_F(ImageFolderTest, ScalesAndNormalises) {
  write("a/1.png", testing::plain_picture(4, 6, {255}));
  write("a/2.png", testing::plain_picture(3, 3, {0}));
  const ImageFolder data(
      folder.path(),
      {.height = 2, .width = 5, .channels = 1, .mean = {0.5F}, .deviation = {0.25F}});
  const Examples all = data.read(Numbers{0, 1});
  EXPECT_EQ(all.inputs.shape(), (Shape{2, 1, 2, 5}));
  const std::vector<float> pixels = values<float>(all.inputs);
  EXPECT_THAT(std::vector<float>(pixels.begin(), pixels.begin() + 10), Each(2.0F));
  EXPECT_THAT(std::vector<float>(pixels.begin() + 10, pixels.end()), Each(-2.0F));
}

TEST_F(ImageFolderTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal([&] { ImageFolder(folder.path() / "none"); }), HasSubstr("none"));
  EXPECT_THAT(refusal([&] { ImageFolder data(folder.path()); }),
              HasSubstr("there is no subfolder, expected one a class"));
  std::filesystem::create_directory(folder.path() / "b");
  EXPECT_THAT(refusal([&] { ImageFolder data(folder.path()); }),
              HasSubstr("the class has no .png, .jpg or .jpeg"));
  write("b/1.png", testing::plain_picture(2, 2, {7}));
  write("b/2.png", testing::plain_picture(2, 3, {7}));
  const ImageFolder data(folder.path());
  EXPECT_THAT(refusal([&] { (void)data.read(Numbers{1}); }),
              AllOf(HasSubstr("2.png: is 2x3, the first image 2x2"), HasSubstr("give height")));
  EXPECT_THROW(ImageFolder(folder.path(), {.channels = 2}), ArgumentError);
  EXPECT_THROW(ImageFolder(folder.path(), {.height = 2}), ArgumentError);
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {0.0F, -1.0F, kInfinite, kNaN, 1e-45F}) {
    EXPECT_THROW(ImageFolder(folder.path(), {.deviation = {value}}), ArgumentError) << value;
  }
  for (const float value : {kInfinite, -kInfinite, kNaN}) {
    EXPECT_THROW(ImageFolder(folder.path(), {.mean = {value}}), ArgumentError) << value;
  }
}

TEST_F(ImageFolderTest, ABrokenPictureIsNamedByTheLoader) {
  TestRuntime test;
  write("a/1.png", testing::plain_picture(2, 2, {7}));
  std::ofstream(folder.path() / "a/2.png") << "\x89PNG and then nothing";
  const ImageFolder data(folder.path());
  DataLoader loader(data, test.runtime.executor(), {.batch_size = 2});
  EXPECT_THAT(refusal([&] { (void)loader.next(); }), HasSubstr("a/2.png: "));
}

}  // namespace
}  // namespace hearth
