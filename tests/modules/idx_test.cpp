#include <hearth/modules/idx.hpp>

#include <hearth/runtime/base/error.hpp>

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/idx_bytes.hpp"

namespace hearth {
namespace {

using testing::idx_bytes;
using Bytes = std::vector<std::uint8_t>;

class IdxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hearth_idx_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path write(const std::string& name, const Bytes& bytes) {
    std::filesystem::path file = folder / name;
    std::ofstream stream(file, std::ios::binary);
    std::copy(bytes.begin(), bytes.end(), std::ostreambuf_iterator<char>(stream));
    return file;
  }
  std::filesystem::path write_gzip(const std::string& name, const Bytes& bytes) {
    std::filesystem::path file = folder / name;
    gzFile stream = gzopen(file.c_str(), "wb");
    EXPECT_EQ(gzwrite(stream, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    gzclose(stream);
    return file;
  }
  void write_pair(const std::string& prefix, std::uint32_t count, std::uint32_t side) {
    const std::size_t size = std::size_t{side} * side;
    Bytes pixels;
    Bytes labels(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      labels[i] = static_cast<std::uint8_t>(i % 10);
      pixels.insert(pixels.end(), size, static_cast<std::uint8_t>(i));
    }
    write(prefix + "-images-idx3-ubyte", idx_bytes({count, side, side}, pixels));
    write_gzip(prefix + "-labels-idx1-ubyte.gz", idx_bytes({count}, labels));
  }

  std::filesystem::path folder;
};

template <class Call>
void expect_error(ErrorCode code, const std::string& part, const Call& call) {
  try {
    static_cast<void>(call());
    ADD_FAILURE() << "nothing was thrown, expected: " << part;
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(IdxTest, ReadsAnyRankPlainAndGzippedAlike) {
  const Bytes values{1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::vector<std::uint32_t>& dims :
       std::vector<std::vector<std::uint32_t>>{{8}, {2, 4}, {2, 2, 2}, {1, 2, 1, 2, 2}}) {
    const Bytes bytes = idx_bytes(dims, values);
    const IdxArray plain = read_idx(write("plain", bytes));
    const IdxArray packed = read_idx(write_gzip("packed.gz", bytes));
    EXPECT_EQ(plain.dims, std::vector<std::int64_t>(dims.begin(), dims.end()));
    EXPECT_EQ(plain.values, values);
    EXPECT_EQ(packed.dims, plain.dims);
    EXPECT_EQ(packed.values, plain.values);
  }
}

TEST_F(IdxTest, ReadsAnArrayWithoutValues) {
  const IdxArray array = read_idx(write("empty", idx_bytes({0, 28, 28}, {})));
  EXPECT_EQ(array.dims, (std::vector<std::int64_t>{0, 28, 28}));
  EXPECT_TRUE(array.values.empty());
}

TEST_F(IdxTest, NamesAFileThatIsNotThere) {
  expect_error(ErrorCode::not_found, "nowhere", [&] { return read_idx(folder / "nowhere"); });
  expect_error(ErrorCode::io_error, "is a folder", [&] { return read_idx(folder); });
}

TEST_F(IdxTest, NamesAWrongMagicNumber) {
  expect_error(ErrorCode::bad_format, "at byte 0: the magic number is 0x89504e47", [&] {
    return read_idx(write("picture.png", {0x89, 0x50, 0x4e, 0x47, 1, 2, 3, 4}));
  });
  expect_error(ErrorCode::bad_format, "at byte 2: the element type is 13, expected 8", [&] {
    return read_idx(write("floats", {0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
  });
  expect_error(ErrorCode::bad_format, "at byte 3: the rank is 0", [&] {
    return read_idx(write("scalar", {0, 0, 8, 0}));
  });
}

TEST_F(IdxTest, NamesTheByteAtWhichAFileEndsTooEarly) {
  const Bytes whole = idx_bytes({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<std::pair<std::size_t, std::string>> cases{
      {0, "at byte 0: the file ends, expected 4 bytes of the magic number"},
      {3, "at byte 3: the file ends, expected 4 bytes of the magic number"},
      {6, "at byte 6: the file ends, expected 4 bytes of the size of axis 0"},
      {11, "at byte 11: the file ends, expected 4 bytes of the size of axis 1"},
      {12, "at byte 12: the file ends, expected 6 values from byte 12 on"},
      {17, "at byte 17: the file ends, expected 6 values from byte 12 on"}};
  for (const auto& [size, text] : cases) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    expect_error(ErrorCode::bad_format, text, [&] { return read_idx(write("short", part)); });
  }
}

TEST_F(IdxTest, NamesBytesAfterTheEnd) {
  Bytes bytes = idx_bytes({2}, {1, 2});
  bytes.push_back(3);
  expect_error(ErrorCode::bad_format, "at byte 10: more bytes follow", [&] {
    return read_idx(write("long", bytes));
  });
}

TEST_F(IdxTest, DoesNotTrustAHeaderThatClaimsTooMuch) {
  expect_error(
      ErrorCode::bad_format, "at byte 13: the file ends, expected 1152921504606846976 values", [&] {
        return read_idx(write("claims", idx_bytes({1U << 30U, 1U << 30U}, {7})));
      });
  expect_error(ErrorCode::bad_format, "at byte 4: the sizes of the axes multiply", [&] {
    return read_idx(write("overflows", idx_bytes({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {})));
  });
}

TEST_F(IdxTest, NamesABrokenGzipStream) {
  const Bytes bytes = idx_bytes({100'000}, Bytes(100'000, 9));
  const std::filesystem::path file = write_gzip("whole.gz", bytes);
  std::ifstream stream(file, std::ios::binary);
  const Bytes packed{std::istreambuf_iterator<char>(stream), {}};
  const Bytes half(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(packed.size() / 2));
  expect_error(ErrorCode::bad_format, "the gzip stream is broken", [&] {
    return read_idx(write("half.gz", half));
  });
  Bytes wrong_checksum = packed;
  wrong_checksum[packed.size() - 6] ^= 1U;
  expect_error(ErrorCode::bad_format, "the gzip stream is broken", [&] {
    return read_idx(write("checksum.gz", wrong_checksum));
  });
}

TEST_F(IdxTest, ReadsPicturesWithTheirLabels) {
  const LabelledImages data = read_labelled_images(
      write("i", idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5, 6})), write("l", idx_bytes({2}, {9, 0})));
  EXPECT_EQ(data.count, 2);
  EXPECT_EQ(data.height, 1);
  EXPECT_EQ(data.width, 3);
  EXPECT_EQ(data.pixels, (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(data.labels, (Bytes{9, 0}));
}

TEST_F(IdxTest, RefusesPicturesAndLabelsThatDoNotBelongTogether) {
  const auto images = write("i", idx_bytes({2, 1, 1}, {1, 2}));
  const auto labels = write("l", idx_bytes({3}, {0, 1, 2}));
  expect_error(ErrorCode::bad_format, "at byte 4: the count is 3, expected 2", [&] {
    return read_labelled_images(images, labels);
  });
  expect_error(ErrorCode::bad_format, "the rank is 1, expected 3", [&] {
    return read_labelled_images(labels, labels);
  });
  expect_error(ErrorCode::bad_format, "the rank is 3, expected 1", [&] {
    return read_labelled_images(images, images);
  });
}

TEST_F(IdxTest, RefusesFilesWithoutPictures) {
  const auto no_labels = write("l", idx_bytes({0}, {}));
  expect_error(
      ErrorCode::bad_format, "none: at byte 4: the count is 0, expected images: 1 or more", [&] {
        return read_labelled_images(write("none", idx_bytes({0, 28, 28}, {})), no_labels);
      });
  expect_error(ErrorCode::bad_format, "at byte 12: the width is 0, expected images", [&] {
    return read_labelled_images(write("thin", idx_bytes({2, 28, 0}, {})), no_labels);
  });
}

TEST_F(IdxTest, ASinglePictureCannotBothTrainAndTest) {
  write_pair("t10k", 1, 4);
  expect_error(ErrorCode::bad_format, "the count is 1, expected 2 or more", [&] {
    return find_mnist(folder);
  });
}

TEST_F(IdxTest, NamesTheByteOfALabelOutOfRange) {
  const auto images = write("i", idx_bytes({3, 1, 1}, {1, 2, 3}));
  const auto labels = write("l", idx_bytes({3}, {0, 9, 10}));
  expect_error(ErrorCode::bad_format, "at byte 10: the label is 10, expected less than 10", [&] {
    return read_labelled_images(images, labels);
  });
  EXPECT_EQ(read_labelled_images(images, labels, 11).class_count, 11);
}

TEST_F(IdxTest, FindsAllFourFilesOfMnist) {
  write_pair("train", 30, 4);
  write_pair("t10k", 10, 4);
  const MnistData data = find_mnist(folder);
  EXPECT_EQ(data.train.count, 30);
  EXPECT_EQ(data.test.count, 10);
  EXPECT_FALSE(data.is_split_of_test_files);
}

TEST_F(IdxTest, SplitsTheTestFilesWhenTheyAreAloneAndSaysSo) {
  write_pair("t10k", 20, 4);
  const MnistData data = find_mnist(folder);
  EXPECT_TRUE(data.is_split_of_test_files);
  EXPECT_EQ(data.train.count, 16);
  EXPECT_EQ(data.test.count, 4);
  EXPECT_EQ(data.train.pixels.size(), 16U * 16U);
  EXPECT_EQ(data.test.pixels.front(), 16);
  EXPECT_EQ(data.test.labels.front(), 6);
  EXPECT_NE(data.description.find("first 16 of the 20 test images train"), std::string::npos)
      << data.description;
}

TEST_F(IdxTest, SaysWhichFilesOfMnistAreMissing) {
  expect_error(
      ErrorCode::not_found, "expected t10k-images-idx3-ubyte", [&] { return find_mnist(folder); });
  write_pair("t10k", 10, 4);
  write("train-images-idx3-ubyte", idx_bytes({0, 4, 4}, {}));
  expect_error(ErrorCode::not_found, "but train-labels-idx1-ubyte is not", [&] {
    return find_mnist(folder);
  });
}

TEST_F(IdxTest, RefusesTrainingPicturesOfAnotherSize) {
  write_pair("train", 10, 5);
  write_pair("t10k", 10, 4);
  expect_error(
      ErrorCode::bad_format, "images are 5x5, expected 4x4", [&] { return find_mnist(folder); });
}

TEST(Mnist, TheRealFilesHoldTenThousandPicturesOfTenDigits) {
  const char* data_folder = std::getenv("HEARTH_DATA_DIR");
  if (data_folder == nullptr ||
      !std::filesystem::is_directory(std::filesystem::path(data_folder) / "mnist")) {
    GTEST_SKIP() << "HEARTH_DATA_DIR names no folder with mnist/";
  }
  const MnistData data = find_mnist(std::filesystem::path(data_folder) / "mnist");
  EXPECT_EQ(data.test.height, 28);
  EXPECT_EQ(data.test.width, 28);
  const auto& labels = data.test.labels;
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    EXPECT_GT(std::count(labels.begin(), labels.end(), digit), 100);
  }
}

}  // namespace
}  // namespace hearth
