// PNG and JPEG files of every kind, broken ones, and pictures of another size.
#include <hearth/modules/image_file.hpp>

#include <hearth/runtime/base/error.hpp>

#include "picture_files.hpp"
#include "tests/base/temporary_folder.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::jpeg_bytes;
using testing::plain_picture;
using testing::png_bytes;

const Picture kColours{.height = 2,
                       .width = 2,
                       .channels = 3,
                       .pixels = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}};

std::string refusal(std::span<const std::byte> bytes) {
  try {
    (void)decode_picture(bytes, 3, "p");
  } catch (const FileError& error) {
    return error.error().text;
  }
  return "nothing thrown";
}

TEST(ImageFile, ReadsPngOfAnyKind) {
  EXPECT_EQ(decode_picture(png_bytes(kColours)).pixels, kColours.pixels);
  const Picture grey{.height = 1, .width = 3, .channels = 1, .pixels = {0, 100, 255}};
  EXPECT_EQ(decode_picture(png_bytes(grey), 1).pixels, grey.pixels);
  EXPECT_THAT(decode_picture(png_bytes(grey), 3).pixels,
              ElementsAre(0, 0, 0, 100, 100, 100, 255, 255, 255));
  const Picture of_colour = decode_picture(png_bytes(plain_picture(2, 2, {90, 90, 90})), 1);
  EXPECT_EQ(of_colour.channels, 1);
  EXPECT_THAT(of_colour.pixels, ElementsAre(90, 90, 90, 90));
}

TEST(ImageFile, PutsWhatIsTransparentOnWhite) {
  const std::uint8_t pixels[] = {255, 0, 0, 255, 1, 2, 3, 0};
  EXPECT_THAT(decode_picture(png_bytes(1, 2, PNG_FORMAT_RGBA, pixels)).pixels,
              ElementsAre(255, 0, 0, 255, 255, 255));
}

TEST(ImageFile, ReadsJpeg) {
  const Picture red = decode_picture(jpeg_bytes(plain_picture(9, 20, {200, 30, 60})));
  EXPECT_EQ(red.height, 9);
  EXPECT_EQ(red.width, 20);
  for (std::size_t i = 0; i < red.pixels.size(); i += 3) {
    EXPECT_NEAR(red.pixels[i], 200, 3);
    EXPECT_NEAR(red.pixels[i + 1], 30, 3);
    EXPECT_NEAR(red.pixels[i + 2], 60, 3);
  }
  const auto grey = jpeg_bytes(plain_picture(8, 8, {77}));
  EXPECT_THAT(decode_picture(grey, 1).pixels, Each(77));
  EXPECT_EQ(decode_picture(grey, 3).pixels.size(), 192U);
}

TEST(ImageFile, RefusesBytesThatAreNoPicture) {
  EXPECT_EQ(refusal({}), "picture: p: begins neither as PNG nor as JPEG");
  const Picture noise = [] {
    Picture made = plain_picture(40, 40, {0, 0, 0});
    std::uint32_t state = 1;
    for (std::uint8_t& pixel : made.pixels) {
      state = state * 1664525U + 1013904223U;
      pixel = static_cast<std::uint8_t>(state >> 24U);
    }
    return made;
  }();
  for (const std::vector<std::byte>& whole : {png_bytes(noise), jpeg_bytes(noise)}) {
    for (std::size_t length = 0; length < whole.size(); length += 1 + length / 3) {
      EXPECT_THAT(refusal(std::span(whole).first(length)), HasSubstr("picture: p: ")) << length;
    }
    EXPECT_EQ(refusal(whole), "nothing thrown");
  }
  std::vector<std::byte> broken = png_bytes(noise);
  broken[60] ^= std::byte{0x55};
  EXPECT_THAT(refusal(broken), HasSubstr("picture: p: "));
}

TEST(ImageFile, RefusesPicturesThatClaimTooMuch) {
  std::vector<std::byte> bytes = jpeg_bytes(plain_picture(8, 8, {1, 2, 3}));
  // The frame header: FF C0, its length, the precision, then height and width.
  for (std::size_t at = 0; at + 8 < bytes.size(); ++at) {
    if (bytes[at] == std::byte{0xff} && bytes[at + 1] == std::byte{0xc0}) {
      for (std::size_t i = 5; i < 9; ++i) {
        bytes[at + i] = std::byte{0xf0};
      }
      break;
    }
  }
  EXPECT_THAT(refusal(bytes), HasSubstr("61680 by 61680 pixels are none, or more than 268435456"));
}

TEST(ImageFile, NamesTheFile) {
  const TemporaryFolder folder;
  testing::write_bytes(folder.path() / "a.png", png_bytes(kColours));
  EXPECT_EQ(read_picture(folder.path() / "a.png").pixels, kColours.pixels);
  EXPECT_THROW((void)read_picture(folder.path() / "b.png"), FileError);
  EXPECT_THROW((void)read_picture(folder.path() / "a.png", 2), ArgumentError);
}

TEST(ImageFile, ScalesByMeans) {
  const Picture row{.height = 1, .width = 4, .channels = 1, .pixels = {0, 100, 200, 100}};
  // The triangle reaches two pixels from the centre: weights 3, 3, 1 and 1, 3, 3 at the ends.
  EXPECT_THAT(resized(row, 1, 2).pixels, ElementsAre(500 / 7, 1000 / 7 + 1));
  EXPECT_EQ(resized(row, 1, 4).pixels, row.pixels);
  EXPECT_THAT(resized(row, 2, 4).pixels, ElementsAre(0, 100, 200, 100, 0, 100, 200, 100));
  const Picture two{.height = 1, .width = 2, .channels = 1, .pixels = {0, 100}};
  EXPECT_THAT(resized(two, 1, 4).pixels, ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(resized(plain_picture(7, 5, {9, 8, 7}), 3, 11).pixels, ::testing::SizeIs(3 * 11 * 3));
  EXPECT_THAT(resized(plain_picture(7, 5, {9}), 3, 11).pixels, Each(9));
  EXPECT_THROW((void)resized(row, 0, 2), ArgumentError);
  EXPECT_THROW((void)resized(Picture{}, 1, 2), ArgumentError);
}

}  // namespace
}  // namespace hearth
