// Picture files: PNG and JPEG as plain bytes, and pictures of another size.
// Stateless. Threads: any. Invariant: a Picture holds height·width·channels bytes, or the file was
// refused with its name.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

/// Rows from top to bottom, pixels from left to right, the channels of a pixel side by side.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int channels = 0;  ///< 1: grey; 3: red, green, blue.
  std::vector<std::uint8_t> pixels;
};

/// The largest pictures that are read: what a broken or hostile file claims costs no more.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;

/// The grey of a colour, for every kind of file: 0.299·red + 0.587·green + 0.114·blue of the
/// samples as they are (Rec. 601; the same integers as Pillow's "L"): (red·19595 + green·38470 +
/// blue·7471 + 32768) / 65536.
[[nodiscard]] std::uint8_t grey_of(std::uint8_t red,
                                   std::uint8_t green,
                                   std::uint8_t blue) noexcept;

/// Reads a picture, PNG or JPEG by its first bytes, with so many channels whatever the file has:
/// grey becomes three equal channels, colours become grey by grey_of(). Samples are taken as they
/// are: gamma, colour profiles and the like in a file change nothing. Fewer than 8 bits are spread
/// over 0 to 255; 16 bits become value·255/65535, rounded. Transparent pixels lie on white:
/// (value·alpha + 255·(255 - alpha))/255. JPEGs for print (CMYK) are read as Pillow does, without
/// their profile: red is (255 - cyan)·(255 - black)/255. A camera's note that a picture is to be
/// turned is passed by.
///
/// Errors: FileError: not_found, io_error; bad_format for a file that is neither, is broken, ends
/// early, or has more than kMostPixels; ArgumentError for other channels than 1 and 3; OutOfMemory.
[[nodiscard]] Picture read_picture(const std::filesystem::path& file,
                                   int channels = 3,
                                   SourceLoc loc = SourceLoc::current());
/// The same from a file's bytes; errors call it `name`.
[[nodiscard]] Picture decode_picture(std::span<const std::byte> bytes,
                                     int channels = 3,
                                     std::string_view name = "picture",
                                     SourceLoc loc = SourceLoc::current());

/// The picture in another size: each pixel is a mean over what it covers, weighted by a triangle
/// (bilinear with antialiasing, as Pillow's).
///
/// Errors: ArgumentError for a size below 1, and for a picture without pixels.
[[nodiscard]] Picture resized(const Picture& picture,
                              std::int64_t height,
                              std::int64_t width,
                              SourceLoc loc = SourceLoc::current());

}  // namespace hearth
