// Decodes PNG and JPEG files to plain bytes, and resizes images.
// Stateless. Threads: any. Invariant: a Picture holds height·width·channels bytes.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

/// A decoded image. Rows from top to bottom, pixels from left to right, channels interleaved.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int channels = 0;  ///< 1: grey; 3: red, green, blue.
  std::vector<std::uint8_t> pixels;
};

/// Largest number of pixels that is decoded. It bounds the memory that a broken or hostile file can
/// claim.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;

/// Converts a colour to grey: 0.299·red + 0.587·green + 0.114·blue of the samples as stored (Rec.
/// 601), computed as (red·19595 + green·38470 + blue·7471 + 32768) / 65536, like Pillow's "L".
[[nodiscard]] std::uint8_t grey_of(std::uint8_t red,
                                   std::uint8_t green,
                                   std::uint8_t blue) noexcept;

/// Reads a PNG or JPEG, detected by its first bytes, and converts it to the requested channels.
/// Grey becomes three equal channels; colours become grey by grey_of().
///
/// Samples are used as stored: gamma and colour profiles are ignored. Depths below 8 bits are
/// scaled to 0 to 255; 16 bits become value·255/65535, rounded. Transparent pixels are blended with
/// white: (value·alpha + 255·(255 - alpha))/255. CMYK JPEGs are read as by Pillow, without their
/// profile: red is (255 - cyan)·(255 - black)/255. EXIF orientation is ignored.
///
/// Errors: FileError: not_found, io_error; bad_format for a file that is neither PNG nor JPEG, is
/// broken, ends early, or has more than kMostPixels; ArgumentError for other channels than 1 and 3;
/// OutOfMemory.
[[nodiscard]] Picture read_picture(const std::filesystem::path& file,
                                   int channels = 3,
                                   SourceLoc loc = SourceLoc::current());
/// Decodes an image from a file's bytes; errors call it `name`.
///
/// Errors: as read_picture(), but for not_found and io_error.
[[nodiscard]] Picture decode_picture(std::span<const std::byte> bytes,
                                     int channels = 3,
                                     std::string_view name = "picture",
                                     SourceLoc loc = SourceLoc::current());

/// Resizes an image. Each pixel is a triangle-weighted mean over its area (bilinear with
/// antialiasing, as in Pillow).
///
/// Errors: ArgumentError for a size below 1, and for an image without pixels.
[[nodiscard]] Picture resized(const Picture& picture,
                              std::int64_t height,
                              std::int64_t width,
                              SourceLoc loc = SourceLoc::current());

}  // namespace hearth
