// Pictures of one size with a class each: what the readers and generators of image data sets give.
// Plain data, owned by its holder. Threads: values.
// Invariants: (1) pixels holds count·height·width bytes, picture after picture, row after row; (2)
// labels holds count bytes, each below class_count.
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
