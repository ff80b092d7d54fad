#include <hearth/modules/image_dataset.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hearth {
namespace {

void require(bool is_right, const std::string& text, SourceLoc loc) {
  if (!is_right) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "ImageDataset: " + text,
                      .op = "ImageDataset",
                      .location = loc});
  }
}

bool is_finite(float value) {
  return std::isfinite(value);
}

}  // namespace

ImageDataset::ImageDataset(LabelledImages images, ImageOptions options, SourceLoc loc)
    : images_(std::move(images)), scaled_{} {
  const detail::FloatEnvironment environment;
  const std::int64_t pixel_count = images_.count * images_.height * images_.width;
  require(static_cast<std::int64_t>(images_.pixels.size()) == pixel_count &&
              static_cast<std::int64_t>(images_.labels.size()) == images_.count,
          fmt::format("{} images of {}x{} come with {} pixels and {} labels",
                      images_.count,
                      images_.height,
                      images_.width,
                      images_.pixels.size(),
                      images_.labels.size()),
          loc);
  require(std::ranges::all_of(images_.labels,
                              [&](std::uint8_t label) { return label < images_.class_count; }),
          fmt::format("a label is not below {}, the number of classes", images_.class_count),
          loc);
  require(options.deviation > 0,
          fmt::format("the deviation {} is not positive", options.deviation),
          loc);
  for (std::size_t value = 0; value < scaled_.size(); ++value) {
    scaled_[value] = (static_cast<float>(value) / 255.0F - options.mean) / options.deviation;
  }
  require(std::isfinite(options.deviation) && std::ranges::all_of(scaled_, is_finite),
          fmt::format("the mean {} and the deviation {} make pixels that are no finite numbers",
                      options.mean,
                      options.deviation),
          loc);
}

Examples ImageDataset::read(std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  Examples examples{HostArray(DType::f32, {count, 1, images_.height, images_.width}, SourceLoc{}),
                    HostArray(DType::i64, {count}, SourceLoc{})};
  const auto size = static_cast<std::size_t>(images_.height * images_.width);
  const std::span<const std::uint8_t> pixels(images_.pixels);
  const std::span<float> inputs = examples.inputs.values<float>();
  const std::span<std::int64_t> targets = examples.targets.values<std::int64_t>();
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto index = static_cast<std::size_t>(indices[row]);
    std::ranges::transform(pixels.subspan(index * size, size),
                           inputs.subspan(row * size, size).begin(),
                           [&](std::uint8_t value) { return scaled_[value]; });
    targets[row] = images_.labels[index];
  }
  return examples;
}

}  // namespace hearth
