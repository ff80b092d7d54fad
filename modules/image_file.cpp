#include <hearth/modules/image_file.hpp>

#include "whole_file.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/host_memory.hpp>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

// Behind the settings in jpeglib.h, on which its numbers depend.
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

// The bytes of a file on their way to a picture.
struct PictureSource {
  std::span<const std::byte> bytes;
  std::string_view name;
  SourceLoc loc;

  [[noreturn]] void fail(std::string_view text) const {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("picture: {}: {}", name, text),
                          .location = loc});
  }
  /// Room for its pixels.
  [[nodiscard]] Picture picture(std::int64_t height, std::int64_t width, int channels) const {
    if (height < 1 || width < 1 || height > kMostPixels / width) {
      fail(fmt::format("{} by {} pixels are none, or more than {}", height, width, kMostPixels));
    }
    Picture made{.height = height, .width = width, .channels = channels, .pixels = {}};
    made.pixels = host_vector<std::uint8_t>(
                      static_cast<std::size_t>(height * width * channels), "read_picture", loc)
                      .value();
    return made;
  }
};

// ---- PNG ----

Picture decode_png(const PictureSource& from, int channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> release(&image, &png_image_free);
  if (png_image_begin_read_from_memory(&image, from.bytes.data(), from.bytes.size()) == 0) {
    from.fail(image.message);
  }
  Picture picture = from.picture(image.height, image.width, channels);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr) == 0) {
    from.fail(image.message);
  }
  return picture;
}

// ---- JPEG ----

// libjpeg reports an error by a call that must not return: it jumps back to where `jump` was set.
struct JpegErrors {
  jpeg_error_mgr manager{};  // first: the library knows no more of this struct
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> text{};
};

[[noreturn]] void jump_back(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text.data());
  std::longjmp(errors->jump, 1);  // NOLINT(cert-err52-cpp): the library is C
}
// Of data that end early or are broken the library warns only, and paints the rest grey. Other
// warnings, of bytes that are too many, leave the picture whole.
void warning_is_error(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                    code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE)) {
    jump_back(info);
  }
}

// Between a jump and its place lie frames of C, and these two: they own nothing.
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
bool read_jpeg_rows(jpeg_decompress_struct& info, JpegErrors& errors, Picture& picture) {
  if (setjmp(errors.jump) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    const std::size_t row_bytes =
        static_cast<std::size_t>(info.output_width) * static_cast<std::size_t>(picture.channels);
    JSAMPROW row = picture.pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
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
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
    from.fail("its colours are for print (CMYK), expected grey or RGB");
  }
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  Picture picture = from.picture(info.image_height, info.image_width, channels);
  if (!read_jpeg_rows(info, errors, picture)) {
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

// ---- another size ----

// Which elements of a row each element of the new one is a mean over, with what weights.
struct Taps {
  std::vector<std::int64_t> first;
  std::vector<std::vector<float>> weights;
};

Taps taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);  // of the triangle, at each side
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

// Along the middle axis of [outer, size, inner].
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
