// Writes PNG and JPEG files for the tests of their readers. Threads: any; pure functions.
#pragma once

#include <hearth/modules/image_file.hpp>

#include <jpeglib.h>
#include <png.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace hearth::testing {

/// Format: PNG_FORMAT_GRAY, PNG_FORMAT_RGB, PNG_FORMAT_RGBA, ...
[[nodiscard]] inline std::vector<std::byte> png_bytes(std::int64_t height,
                                                      std::int64_t width,
                                                      png_uint_32 format,
                                                      const void* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, nullptr) == 0) {
    throw std::runtime_error(image.message);
  }
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr) == 0) {
    throw std::runtime_error(image.message);
  }
  bytes.resize(size);
  return bytes;
}
[[nodiscard]] inline std::vector<std::byte> png_bytes(const Picture& picture) {
  return png_bytes(picture.height,
                   picture.width,
                   picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB,
                   picture.pixels.data());
}

/// A JPEG file of the best quality, which still has loss. Four channels hold 255 - ink, as in files
/// of Adobe's programs. `stored`: the file's colour space, if it is not libjpeg's default.
[[nodiscard]] inline std::vector<std::byte> jpeg_bytes(
    const Picture& picture, std::optional<J_COLOR_SPACE> stored = std::nullopt) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1   ? JCS_GRAYSCALE
                        : picture.channels == 4 ? JCS_CMYK
                                                : JCS_RGB;
  jpeg_set_defaults(&info);
  if (stored) {
    jpeg_set_colorspace(&info, *stored);
  }
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> pixels = picture.pixels;
  const auto stride = static_cast<std::size_t>(picture.width * picture.channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + info.next_scanline * stride;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto bytes = std::as_bytes(std::span<const unsigned char>(buffer, size));
  std::vector<std::byte> result(bytes.begin(), bytes.end());
  std::free(buffer);
  return result;
}

inline void write_bytes(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}

/// A picture of one colour.
[[nodiscard]] inline Picture plain_picture(std::int64_t height,
                                           std::int64_t width,
                                           const std::vector<std::uint8_t>& colour) {
  Picture picture{
      .height = height, .width = width, .channels = static_cast<int>(colour.size()), .pixels = {}};
  for (std::int64_t i = 0; i < height * width; ++i) {
    picture.pixels.insert(picture.pixels.end(), colour.begin(), colour.end());
  }
  return picture;
}

}  // namespace hearth::testing
