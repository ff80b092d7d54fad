// ImageDataset: labelled images as examples for a network.
// Owns the bytes. Threads: any, after construction.
#pragma once

#include <hearth/modules/dataset.hpp>
#include <hearth/modules/labelled_images.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace hearth {

struct ImageOptions {
  /// Subtracted from value/255: pixels become (value/255 - mean)/deviation. MNIST's own figures are
  /// 0.1307 and 0.3081.
  float mean = 0;
  float deviation = 1;  ///< Divisor of value/255 - mean.
};

class ImageDataset final : public Dataset {
 public:
  /// Errors: ArgumentError when the images violate LabelledImages' invariants, the deviation is 0
  /// or less, or mean and deviation yield non-finite pixels.
  explicit ImageDataset(LabelledImages images,
                        ImageOptions options = {},
                        SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return images_.count; }
  /// Reads examples.
  ///
  /// Shapes: inputs f32 [n, 1, height, width], targets i64 [n].
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

  [[nodiscard]] const LabelledImages& images() const noexcept { return images_; }

 private:
  LabelledImages images_;
  std::array<float, 256> scaled_;  ///< scaled value of each byte
};

}  // namespace hearth
