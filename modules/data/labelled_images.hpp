// Images of one size with one label each: the result of image readers and generators.
// Plain data, owned by its holder. Threads: values.
// Invariants: (1) pixels holds count·height·width bytes, image by image and row by row; (2) labels
// holds count bytes, each below class_count.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

struct LabelledImages {
  std::int64_t count = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  int class_count = 10;
  std::vector<std::uint8_t> pixels;  ///< 0 is background, 255 is full ink.
  std::vector<std::uint8_t> labels;
};

}  // namespace hearth
