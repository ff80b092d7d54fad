// Built-in data set: images of handwritten-like digits, generated from a seed.
// Stateless. Threads: any.
// Invariants: (1) an image depends on the seed and its index only, not on the count or on other
// images; (2) the same seed and index give the same bytes on every machine.
#pragma once

#include <hearth/modules/labelled_images.hpp>

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>

namespace hearth {

struct DigitOptions {
  std::int64_t count = 10'000;  ///< Number of images.
  std::uint64_t seed = 1;       ///< Seed of the images.
  /// Index of the first image. Disjoint index ranges give disjoint training and test sets.
  std::int64_t first = 0;
};

/// Draws `count` images of 28 by 28 bytes, laid out like MNIST's, each of a random digit.
///
/// A pen follows one of four styles of the digit. The style's points are jittered, joined to a
/// smooth curve, distorted by a random elastic field, scaled, slanted, rotated and shifted. The
/// pen's thickness is random and varies along the stroke. Ink, blur and noise differ between
/// images.
///
/// Errors: ArgumentError (invalid_argument) for a negative count or first; OutOfMemory when the
/// host lacks memory for the images.
/// Cost: about 20 µs per image on one core.
[[nodiscard]] LabelledImages make_digits(DigitOptions options = {},
                                         SourceLoc loc = SourceLoc::current());

}  // namespace hearth
