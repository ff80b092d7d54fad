// PNG and JPEG files of every kind, broken ones, and pictures of other sizes.
#include <hearth/modules/image_file.hpp>

#include <hearth/runtime/base/error.hpp>

#include "picture_files.hpp"
#include "tests/base/temporary_folder.hpp"

#include <zlib.h>

#include <cstdlib>
#include <span>
#include <string>
#include <utility>
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

// A PNG byte by byte, of kinds that libpng's simple writer does not write.
struct RawPng {
  std::size_t height = 1;
  std::size_t width = 0;
  int depth = 8;
  int colour_type = 0;  // 0: grey, 2: RGB, 3: palette, 4: grey and alpha, 6: RGB and alpha
  std::vector<std::uint8_t> samples;                             // of all rows, each of whole bytes
  std::vector<std::pair<std::string, std::string>> chunks = {};  // before the data
  bool is_interlaced = false;                                    // only for whole bytes a pixel
};

std::string big_endian(std::uint32_t value, int size_bytes = 4) {
  std::string text;
  for (int i = size_bytes - 1; i >= 0; --i) {
    text += static_cast<char>(value >> (8U * static_cast<unsigned>(i)));
  }
  return text;
}

std::string chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(sum));
}

// Rows after a byte 0 (no filter); an interlaced picture pass by pass.
std::string scanlines(const RawPng& png) {
  const std::size_t row_bytes = png.samples.size() / png.height;
  struct Pass {
    std::size_t row, column, row_step, column_step;
  };
  std::vector<Pass> passes{{0, 0, 1, 1}};
  std::size_t pixel_bytes = row_bytes;
  if (png.is_interlaced) {
    pixel_bytes = row_bytes / png.width;
    passes = {{0, 0, 8, 8},
              {0, 4, 8, 8},
              {4, 0, 8, 4},
              {0, 2, 4, 4},
              {2, 0, 4, 2},
              {0, 1, 2, 2},
              {1, 0, 2, 1}};
  }
  std::string rows;
  for (const Pass& pass : passes) {
    for (std::size_t row = pass.row; row < png.height; row += pass.row_step) {
      std::string line;
      for (std::size_t at = pass.column * pixel_bytes; at < row_bytes;
           at += pass.column_step * pixel_bytes) {
        const auto begin = png.samples.begin() + static_cast<std::ptrdiff_t>(row * row_bytes + at);
        line.append(begin, begin + static_cast<std::ptrdiff_t>(pixel_bytes));
      }
      rows += line.empty() ? "" : std::string(1, '\0') + line;
    }
  }
  return rows;
}

std::vector<std::byte> bytes_of(const RawPng& png) {
  const std::string rows = scanlines(png);
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()),
           &size,
           reinterpret_cast<const Bytef*>(rows.data()),
           rows.size());
  packed.resize(size);
  std::string text = "\x89PNG\r\n\x1a\n" +
                     chunk("IHDR",
                           big_endian(static_cast<std::uint32_t>(png.width)) +
                               big_endian(static_cast<std::uint32_t>(png.height)) +
                               static_cast<char>(png.depth) + static_cast<char>(png.colour_type) +
                               std::string(2, '\0') + (png.is_interlaced ? '\1' : '\0'));
  for (const auto& [name, data] : png.chunks) {
    text += chunk(name, data);
  }
  text += chunk("IDAT", packed) + chunk("IEND", "");
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint8_t> sixteen_bits(const std::vector<std::uint16_t>& values) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint16_t value : values) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8U));
    bytes.push_back(static_cast<std::uint8_t>(value));
  }
  return bytes;
}

// A file's notes about its colours, right or wrong.
const std::vector<std::vector<std::pair<std::string, std::string>>> kColourNotes{
    {},
    {{"sRGB", std::string(1, '\0')}},
    {{"gAMA", big_endian(100000)}},
    {{"gAMA", big_endian(45455)}},
    {{"gAMA", big_endian(55556)}},
    {{"gAMA", big_endian(0)}},
    {{"cHRM", std::string(32, '\0')}},
    {{"gAMA", big_endian(100000)}, {"cHRM", std::string(32, '\1')}},
    {{"iCCP", std::string("icc\0\0nonsense", 13)}},
    {{"sBIT", std::string(1, '\4')}},
    {{"bKGD", std::string(2, '\0')}}};

TEST(ImageFile, TakesTheSamplesOfAPngAsTheyAre) {
  const std::vector<std::uint16_t> wide{0, 257, 0x4000, 0x8000, 0xC000, 0xFFFF, 1000, 100};
  const std::vector<std::uint8_t> bytes{0, 1, 64, 128, 192, 255, 4, 30};
  for (const auto& notes : kColourNotes) {
    const std::string what = notes.empty() ? "no note" : notes.front().first;
    RawPng png{
        .width = 8, .depth = 16, .colour_type = 0, .samples = sixteen_bits(wide), .chunks = notes};
    EXPECT_THAT(decode_picture(bytes_of(png), 1).pixels, ElementsAre(0, 1, 64, 128, 191, 255, 4, 0))
        << what;
    png = {.width = 8, .samples = bytes, .chunks = notes};
    EXPECT_EQ(decode_picture(bytes_of(png), 1).pixels, bytes) << what;
  }
  for (std::uint32_t value = 0; value < 65536; value += 127) {
    const RawPng png{
        .width = 1, .depth = 16, .samples = sixteen_bits({static_cast<std::uint16_t>(value)})};
    EXPECT_EQ(decode_picture(bytes_of(png), 1).pixels[0], (value * 255 * 2 + 65535) / 131070);
  }
}

TEST(ImageFile, SpreadsFewBitsOverEight) {
  const auto pixels = [](int depth, std::size_t width, std::uint8_t packed) {
    return decode_picture(bytes_of({.width = width, .depth = depth, .samples = {packed}}), 1)
        .pixels;
  };
  EXPECT_THAT(pixels(1, 8, 0b10110010), ElementsAre(255, 0, 255, 255, 0, 0, 255, 0));
  EXPECT_THAT(pixels(2, 4, 0b00011011), ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(pixels(4, 2, 0x5A), ElementsAre(85, 170));
}

TEST(ImageFile, ReadsPalettes) {
  const std::string palette{17, 34, 51, 68, 85, 102};
  RawPng png{.width = 2, .colour_type = 3, .samples = {1, 0}, .chunks = {{"PLTE", palette}}};
  EXPECT_THAT(decode_picture(bytes_of(png)).pixels, ElementsAre(68, 85, 102, 17, 34, 51));
  EXPECT_THAT(decode_picture(bytes_of(png), 1).pixels,
              ElementsAre(grey_of(68, 85, 102), grey_of(17, 34, 51)));
  png.chunks.emplace_back("tRNS", std::string("\0\x80", 2));
  EXPECT_THAT(decode_picture(bytes_of(png)).pixels, ElementsAre(161, 170, 178, 255, 255, 255));
  png.depth = 1;
  png.samples = {0b01000000};
  EXPECT_THAT(decode_picture(bytes_of(png)).pixels, ElementsAre(255, 255, 255, 161, 170, 178));
}

TEST(ImageFile, TransparencyIsMeasuredInTheSamples) {
  const auto pixels = [](const RawPng& png, int channels) {
    return decode_picture(bytes_of(png), channels).pixels;
  };
  const RawPng grey{.width = 3, .colour_type = 4, .samples = {0, 255, 0, 128, 100, 0}};
  EXPECT_THAT(pixels(grey, 1), ElementsAre(0, 127, 255));
  const RawPng colour{.width = 2, .colour_type = 6, .samples = {255, 0, 0, 128, 9, 9, 9, 255}};
  EXPECT_THAT(pixels(colour, 3), ElementsAre(255, 127, 127, 9, 9, 9));
  EXPECT_THAT(pixels(colour, 1), ElementsAre(grey_of(255, 127, 127), 9));
  const RawPng wide{
      .width = 1, .depth = 16, .colour_type = 4, .samples = sixteen_bits({0, 0x8080})};
  EXPECT_THAT(pixels(wide, 1), ElementsAre(127));
  // 123.17 and 250.55 of 255; of samples that were rounded to 8 bits first, 124 and 250 would come.
  const RawPng between{.width = 2,
                       .depth = 16,
                       .colour_type = 4,
                       .samples = sixteen_bits({28676, 60241, 3335, 1206})};
  EXPECT_THAT(pixels(between, 1), ElementsAre(123, 251));
  const RawPng tinted{
      .width = 1, .depth = 16, .colour_type = 6, .samples = sixteen_bits({28676, 28676, 0, 60241})};
  EXPECT_THAT(pixels(tinted, 3), ElementsAre(123, 123, 21));
  RawPng key{.width = 3, .samples = {100, 101, 99}, .chunks = {{"tRNS", big_endian(100, 2)}}};
  EXPECT_THAT(pixels(key, 1), ElementsAre(255, 101, 99));
  key = {.width = 2,  // the transparent colour differs only in its last bits
         .depth = 16,
         .samples = sixteen_bits({0x6464, 0x6465}),
         .chunks = {{"tRNS", big_endian(0x6465, 2)}}};
  EXPECT_THAT(pixels(key, 1), ElementsAre(100, 255));
  key = {.width = 2,
         .colour_type = 2,
         .samples = {1, 2, 3, 1, 2, 4},
         .chunks = {{"tRNS", big_endian(1, 2) + big_endian(2, 2) + big_endian(3, 2)}}};
  EXPECT_THAT(pixels(key, 3), ElementsAre(255, 255, 255, 1, 2, 4));
}

TEST(ImageFile, AnInterlacedPngHasTheSamePixels) {
  for (const int depth : {8, 16}) {
    for (const auto& [type, channels] : {std::pair(0, 1), {2, 3}, {4, 2}, {6, 4}}) {
      for (const std::size_t size : {1U, 3U, 8U, 11U}) {
        RawPng png{
            .height = size, .width = size, .depth = depth, .colour_type = type, .samples = {}};
        const std::size_t count = size * size * static_cast<std::size_t>(channels * depth / 8);
        for (std::size_t i = 0; i < count; ++i) {
          png.samples.push_back(static_cast<std::uint8_t>(i * 37 + i / 7));
        }
        const std::vector<std::uint8_t> plain = decode_picture(bytes_of(png)).pixels;
        png.is_interlaced = true;
        EXPECT_EQ(decode_picture(bytes_of(png)).pixels, plain) << type << " " << size;
      }
    }
  }
}

// Pillow's convert("L") gives these values for primary colours.
TEST(ImageFile, GreyIsOneFormulaForEveryKindOfFile) {
  EXPECT_EQ(grey_of(255, 0, 0), 76);
  EXPECT_EQ(grey_of(0, 255, 0), 150);
  EXPECT_EQ(grey_of(0, 0, 255), 29);
  EXPECT_EQ(grey_of(200, 100, 50), 124);
  EXPECT_EQ(grey_of(255, 255, 255), 255);
  Picture noise = plain_picture(16, 16, {0, 0, 0});
  for (std::size_t i = 0; i < noise.pixels.size(); ++i) {
    noise.pixels[i] = static_cast<std::uint8_t>(i * i * 31 + i);
  }
  for (const std::vector<std::byte>& file :
       {png_bytes(noise), jpeg_bytes(noise), jpeg_bytes(noise, JCS_RGB)}) {
    const std::vector<std::uint8_t> colours = decode_picture(file, 3).pixels;
    const std::vector<std::uint8_t> greys = decode_picture(file, 1).pixels;
    for (std::size_t i = 0; i < greys.size(); ++i) {
      ASSERT_EQ(greys[i], grey_of(colours[3 * i], colours[3 * i + 1], colours[3 * i + 2]));
    }
  }
}

TEST(ImageFile, ReadsJpegsForPrint) {
  Picture ink{.height = 8, .width = 8, .channels = 4, .pixels = {}};
  for (int i = 0; i < 64; ++i) {
    ink.pixels.insert(ink.pixels.end(), {200, 100, 50, 128});  // 255 - ink
  }
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const std::vector<std::uint8_t> pixels = decode_picture(jpeg_bytes(ink, stored)).pixels;
    ASSERT_EQ(pixels.size(), 192U);
    EXPECT_NEAR(pixels[0], 100, 2);
    EXPECT_NEAR(pixels[1], 50, 2);
    EXPECT_NEAR(pixels[2], 25, 2);
    EXPECT_NEAR(decode_picture(jpeg_bytes(ink, stored), 1).pixels[0], grey_of(100, 50, 25), 2);
  }
}

TEST(ImageFile, ANoteThatIsBrokenOrHugeChangesNothing) {
  std::string packed(100'000, '\0');
  const std::string text(20'000'000, 'x');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()),
                     &size,
                     reinterpret_cast<const Bytef*>(text.data()),
                     text.size()),
            Z_OK);
  packed.resize(size);
  const RawPng png{
      .width = 2, .samples = {7, 9}, .chunks = {{"zTXt", std::string("a\0\0", 3) + packed}}};
  EXPECT_THAT(decode_picture(bytes_of(png), 1).pixels, ElementsAre(7, 9));
  const RawPng unknown{.width = 2, .samples = {7, 9}, .chunks = {{"ABCD", "x"}}};
  EXPECT_THAT(refusal(bytes_of(unknown)), HasSubstr("image: p: ")) << "one that must be known";
}

TEST(ImageFile, RefusesBytesThatAreNoPicture) {
  EXPECT_EQ(refusal({}), "image: p: begins neither as PNG nor as JPEG");
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
      EXPECT_THAT(refusal(std::span(whole).first(length)), HasSubstr("image: p: ")) << length;
    }
    EXPECT_EQ(refusal(whole), "nothing thrown");
  }
  std::vector<std::byte> broken = png_bytes(noise);
  broken[60] ^= std::byte{0x55};
  EXPECT_THAT(refusal(broken), HasSubstr("image: p: "));
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
