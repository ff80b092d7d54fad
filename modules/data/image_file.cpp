#include <hearth/modules/image_file.hpp>

#include "whole_file.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/host_memory.hpp>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

// After jpeglib.h, whose settings determine the message numbers.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <memory>
#include <string>

namespace hearth {
namespace {

[[noreturn]] void refuse_picture(const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument, .text = text, .location = loc});
}

// The encoded bytes of an image, with its name and the line of the call.
struct PictureSource {
  std::span<const std::byte> bytes;
  std::string_view name;
  SourceLoc loc;

  [[noreturn]] void fail(std::string_view text) const {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("image: {}: {}", name, text),
                          .location = loc});
  }
  /// Allocates an image.
  [[nodiscard]] Picture picture(std::int64_t height, std::int64_t width, int channels) const {
    if (height < 1 || width < 1 || height > kMostPixels / width) {
      fail(fmt::format("{} by {} pixels are none, or more than {}", height, width, kMostPixels));
    }
    return {.height = height,
            .width = width,
            .channels = channels,
            .pixels = room(static_cast<std::size_t>(height * width * channels))};
  }
  [[nodiscard]] std::vector<std::uint8_t> room(std::size_t size_bytes) const {
    return host_vector<std::uint8_t>(size_bytes, "read_picture", loc).value();
  }
};

// ---- pixels ----

// Blends a sample with white by its alpha, rounded.
std::uint8_t over_white(unsigned value, unsigned alpha) {
  return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

// Blends a row of 16-bit samples with white by their alpha, in place: 8-bit samples without
// transparency remain. One rounding: samples that were rounded to 8 bits first would be off by one.
void blend_wide(std::span<std::uint8_t> row, std::size_t channels) {
  constexpr std::uint64_t kMost = 65535;
  const auto sample = [&](std::size_t i) {
    return static_cast<std::uint64_t>(row[2 * i]) << 8U | row[2 * i + 1];
  };
  for (std::size_t pixel = 0; pixel < row.size() / 2; pixel += channels) {
    const std::uint64_t alpha = sample(pixel + channels - 1);
    for (std::size_t i = pixel; i + 1 < pixel + channels; ++i) {
      const std::uint64_t blended = sample(i) * alpha + kMost * (kMost - alpha);
      row[i] = static_cast<std::uint8_t>((blended * 255 + kMost * kMost / 2) / (kMost * kMost));
    }
    row[pixel + channels - 1] = 255;
  }
}

// Places pixels of grey, grey and alpha, RGB, or RGB and alpha, by their number of channels.
void place_pixels(std::span<const std::uint8_t> from,
                  std::size_t from_channels,
                  int channels,
                  std::uint8_t* to) {
  const bool has_alpha = from_channels % 2 == 0;
  const bool is_grey = from_channels <= 2;
  for (std::size_t at = 0; at < from.size(); at += from_channels) {
    std::array<std::uint8_t, 3> colour{from[at], from[at], from[at]};
    if (!is_grey) {
      colour = {from[at], from[at + 1], from[at + 2]};
    }
    if (has_alpha) {
      for (std::uint8_t& sample : colour) {
        sample = over_white(sample, from[at + from_channels - 1]);
      }
    }
    if (channels == 1) {
      *to++ = is_grey ? colour[0] : grey_of(colour[0], colour[1], colour[2]);
    } else {
      to = std::copy(colour.begin(), colour.end(), to);
    }
  }
}

// ---- PNG ----

// libpng reports an error by a function that must not return: it jumps to where `jump` was set. A
// plain struct, which a jump leaves unchanged.
struct PngReading {
  std::jmp_buf jump{};
  std::array<char, 128> text{};
  const std::byte* at = nullptr;  // next byte of the file
  std::size_t left_bytes = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool is_interlaced = false;
  std::size_t channels = 0;  // per pixel of a row
  bool is_wide = false;      // 16-bit samples with alpha; else of 8 bits
  std::size_t row_bytes = 0;
};

[[noreturn]] void png_jump_back(png_structp png, png_const_charp text) {
  auto* const reading = static_cast<PngReading*>(png_get_error_ptr(png));
  fmt::format_to_n(reading->text.data(), reading->text.size() - 1, "{}", text);
  std::longjmp(reading->jump, 1);  // NOLINT(cert-err52-cpp): the library is C
}
void png_warning_is_nothing(png_structp /*png*/, png_const_charp /*text*/) {}
void read_png_bytes(png_structp png, png_bytep to, png_size_t count) {
  auto* const reading = static_cast<PngReading*>(png_get_io_ptr(png));
  if (count > reading->left_bytes) {
    png_error(png, "the file ends early");
  }
  std::copy_n(reinterpret_cast<const png_byte*>(reading->at), count, to);
  reading->at += count;
  reading->left_bytes -= count;
}

// A jump skips only C frames and these two functions, which own nothing. libpng ignores gamma,
// colour profiles and texts: samples stay as stored, and a broken or huge chunk costs nothing.
bool read_png_header(PngReading& reading) {
  if (setjmp(reading.jump) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  const png_structp png = reading.png;
  png_set_read_fn(png, &reading, read_png_bytes);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, reading.info);
  png_set_expand(png);  // palettes, depths below 8 bits, transparent colours
  reading.is_wide = png_get_bit_depth(png, reading.info) == 16 &&
                    ((png_get_color_type(png, reading.info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                     png_get_valid(png, reading.info, PNG_INFO_tRNS) != 0);
  if (!reading.is_wide) {
    png_set_scale_16(png);  // value·255/65535, rounded
  }
  reading.is_interlaced = png_set_interlace_handling(png) > 1;
  png_read_update_info(png, reading.info);
  reading.channels = png_get_channels(png, reading.info);
  reading.row_bytes = png_get_rowbytes(png, reading.info);
  return true;
}
// Decodes row after row into one buffer and places each at once. An interlaced image needs a buffer
// for all rows, since each pass revisits them.
bool read_png_rows(PngReading& reading, std::span<std::uint8_t> room, Picture& picture) {
  if (setjmp(reading.jump) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  const auto height = static_cast<std::size_t>(picture.height);
  const auto stride = static_cast<std::size_t>(picture.width * picture.channels);
  const int passes = reading.is_interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  for (int pass = 1; pass <= passes; ++pass) {
    for (std::size_t row = 0; row < height; ++row) {
      const std::span<std::uint8_t> pixels =
          room.subspan(reading.is_interlaced ? row * reading.row_bytes : 0, reading.row_bytes);
      png_read_row(reading.png, pixels.data(), nullptr);
      if (pass == passes) {
        if (reading.is_wide) {
          blend_wide(pixels, reading.channels);
        }
        place_pixels(pixels.first(reading.is_wide ? pixels.size() / 2 : pixels.size()),
                     reading.channels,
                     picture.channels,
                     picture.pixels.data() + row * stride);
      }
    }
  }
  return true;
}

Picture decode_png(const PictureSource& from, int channels) {
  PngReading reading;
  reading.at = from.bytes.data();
  reading.left_bytes = from.bytes.size();
  reading.png = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, &reading, png_jump_back, png_warning_is_nothing);
  reading.info = reading.png == nullptr ? nullptr : png_create_info_struct(reading.png);
  const auto destroy = [](PngReading* made) {
    png_destroy_read_struct(&made->png, &made->info, nullptr);
  };
  const std::unique_ptr<PngReading, decltype(destroy)> release(&reading, destroy);
  if (reading.info == nullptr) {
    throw_error(Error{.code = ErrorCode::out_of_memory,
                      .text = "read_picture: libpng is out of memory",
                      .location = from.loc});
  }
  if (!read_png_header(reading)) {
    from.fail(reading.text.data());
  }
  Picture picture = from.picture(png_get_image_height(reading.png, reading.info),
                                 png_get_image_width(reading.png, reading.info),
                                 channels);
  const std::size_t row_count =
      reading.is_interlaced ? static_cast<std::size_t>(picture.height) : 1;
  std::vector<std::uint8_t> room = from.room(row_count * reading.row_bytes);
  if (!read_png_rows(reading, room, picture)) {
    from.fail(reading.text.data());
  }
  return picture;
}

// ---- JPEG ----

// libjpeg reports an error by a function that must not return: it jumps to where `jump` was set.
struct JpegErrors {
  jpeg_error_mgr manager{};  // first: libjpeg knows no further members
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> text{};
};

[[noreturn]] void jump_back(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text.data());
  std::longjmp(errors->jump, 1);  // NOLINT(cert-err52-cpp): the library is C
}
// libjpeg only warns about truncated or broken data, and fills the rest with grey. These warnings
// become errors. Others, about surplus bytes, leave the image complete.
void warning_is_error(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                    code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE)) {
    jump_back(info);
  }
}

// CMYK files hold 255 - ink, as Adobe's programs write it. Converts a row of cyan, magenta, yellow
// and black to red, green and blue in place.
void ink_to_colours(std::span<std::uint8_t> row) {
  for (std::size_t from = 0, to = 0; from < row.size(); from += 4, to += 3) {
    const unsigned light = row[from + 3];
    for (std::size_t i = 0; i < 3; ++i) {
      row[to + i] = static_cast<std::uint8_t>((row[from + i] * light + 127) / 255);
    }
  }
}

// A jump skips only C frames and these two functions, which own nothing.
bool read_jpeg_header(jpeg_decompress_struct& info, JpegErrors& errors, const PictureSource& from) {
  if (setjmp(errors.jump) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info,
               reinterpret_cast<const unsigned char*>(from.bytes.data()),
               static_cast<unsigned long>(from.bytes.size()));
  jpeg_read_header(&info, TRUE);
  return true;
}
// `room`: buffer for one row of the file's channels.
bool read_jpeg_rows(jpeg_decompress_struct& info,
                    JpegErrors& errors,
                    std::span<std::uint8_t> room,
                    Picture& picture) {
  if (setjmp(errors.jump) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  const std::size_t channels = info.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  const auto stride = static_cast<std::size_t>(picture.width * picture.channels);
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* const to = picture.pixels.data() + info.output_scanline * stride;
    JSAMPROW row = room.data();
    jpeg_read_scanlines(&info, &row, 1);
    if (info.out_color_space == JCS_CMYK) {
      ink_to_colours(room);
    }
    place_pixels(room.first(static_cast<std::size_t>(picture.width) * channels),
                 channels,
                 picture.channels,
                 to);
  }
  jpeg_finish_decompress(&info);
  return true;
}

Picture decode_jpeg(const PictureSource& from, int channels) {
  JpegErrors errors;
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jump_back;
  errors.manager.emit_message = warning_is_error;
  const std::unique_ptr<jpeg_decompress_struct, decltype(&jpeg_destroy_decompress)> release(
      &info, &jpeg_destroy_decompress);
  if (!read_jpeg_header(info, errors, from)) {
    from.fail(errors.text.data());
  }
  const bool is_ink = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  const bool is_grey = info.jpeg_color_space == JCS_GRAYSCALE;
  info.out_color_space = is_ink ? JCS_CMYK : is_grey ? JCS_GRAYSCALE : JCS_RGB;
  Picture picture = from.picture(info.image_height, info.image_width, channels);
  std::vector<std::uint8_t> room =
      from.room(info.image_width * static_cast<std::size_t>(is_ink    ? 4
                                                            : is_grey ? 1
                                                                      : 3));
  if (!read_jpeg_rows(info, errors, room, picture)) {
    from.fail(errors.text.data());
  }
  return picture;
}

bool begins_with(std::span<const std::byte> bytes, std::initializer_list<int> first) {
  return bytes.size() >= first.size() &&
         std::equal(first.begin(), first.end(), bytes.begin(), [](int wanted, std::byte byte) {
           return wanted == std::to_integer<int>(byte);
         });
}

// ---- resizing ----

// For each element of a resized row: the source elements of its mean, and their weights.
struct Taps {
  std::vector<std::int64_t> first;
  std::vector<std::vector<float>> weights;
};

Taps taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);  // half the width of the triangle
  Taps taps;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max(0LL, std::llround(centre - reach));
    const auto end = std::min<std::int64_t>(from, std::llround(centre + reach));
    std::vector<float> weights;
    double total = 0;
    for (std::int64_t at = begin; at < end; ++at) {
      const double distance = std::fabs(static_cast<double>(at) + 0.5 - centre) / reach;
      weights.push_back(static_cast<float>(std::max(0.0, 1 - distance)));
      total += static_cast<double>(weights.back());
    }
    for (float& weight : weights) {
      weight /= static_cast<float>(total);
    }
    taps.first.push_back(begin);
    taps.weights.push_back(std::move(weights));
  }
  return taps;
}

// Resamples the middle axis of [outer, size, inner].
std::vector<float> resampled(const std::vector<float>& values,
                             std::int64_t outer,
                             std::int64_t size,
                             std::int64_t inner,
                             const Taps& taps) {
  const auto to = static_cast<std::int64_t>(taps.first.size());
  std::vector<float> result(static_cast<std::size_t>(outer * to * inner));
  for (std::int64_t block = 0; block < outer; ++block) {
    for (std::int64_t i = 0; i < to; ++i) {
      const auto which = static_cast<std::size_t>(i);
      float* const target = result.data() + (block * to + i) * inner;
      const float* source = values.data() + (block * size + taps.first[which]) * inner;
      for (const float weight : taps.weights[which]) {
        for (std::int64_t at = 0; at < inner; ++at) {
          target[at] += weight * source[at];
        }
        source += inner;
      }
    }
  }
  return result;
}

}  // namespace

std::uint8_t grey_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) noexcept {
  return static_cast<std::uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 0x8000U) >> 16U);
}

Picture read_picture(const std::filesystem::path& file, int channels, SourceLoc loc) {
  return decode_picture(detail::read_whole(file, loc), channels, file.string(), loc);
}

Picture decode_picture(std::span<const std::byte> bytes,
                       int channels,
                       std::string_view name,
                       SourceLoc loc) {
  const detail::FloatEnvironment environment;
  if (channels != 1 && channels != 3) {
    refuse_picture(fmt::format("read_picture: {} channels are neither 1 nor 3", channels), loc);
  }
  const PictureSource from{bytes, name, loc};
  if (begins_with(bytes, {0x89, 'P', 'N', 'G'})) {
    return decode_png(from, channels);
  }
  if (begins_with(bytes, {0xff, 0xd8, 0xff})) {
    return decode_jpeg(from, channels);
  }
  from.fail("begins neither as PNG nor as JPEG");
}

Picture resized(const Picture& picture, std::int64_t height, std::int64_t width, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const std::int64_t count = picture.height * picture.width * picture.channels;
  if (height < 1 || width < 1 || height > kMostPixels / width || count < 1 ||
      static_cast<std::int64_t>(picture.pixels.size()) != count) {
    refuse_picture(
        fmt::format(
            "resized: {}x{} cannot become {}x{}", picture.height, picture.width, height, width),
        loc);
  }
  if (height == picture.height && width == picture.width) {
    return picture;
  }
  std::vector<float> values(picture.pixels.begin(), picture.pixels.end());
  values = resampled(
      values, picture.height, picture.width, picture.channels, taps_of(picture.width, width));
  values = resampled(
      values, 1, picture.height, width * picture.channels, taps_of(picture.height, height));
  Picture result{.height = height, .width = width, .channels = picture.channels, .pixels = {}};
  result.pixels.reserve(values.size());
  for (const float value : values) {
    result.pixels.push_back(
        static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0F, 255.0F))));
  }
  return result;
}

}  // namespace hearth
